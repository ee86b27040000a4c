"""``diffuzz bisect``: from a finding and two revisions to the commit that changed the behaviour.

:mod:`.row` turns what the user names into variants in order of time, :mod:`.question` says what is
looked for in each, :mod:`.finding` searches (with :mod:`diffuzz.bisection`) and checks the answer
again, :mod:`.log` makes that survive a kill, :mod:`.blame` names the definitions inside the
culprit, :mod:`.data` is the JSON.
"""
