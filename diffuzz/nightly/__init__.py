"""``diffuzz nightly``: every night what changed, and a right answer in the morning.

:mod:`.join` makes one state of two, in whatever order; :mod:`.state` keeps it on disk;
:mod:`.status` reads a finding's progress out of it. :mod:`.units` says what there is to test at
the head of the branch, :mod:`.fuzzing` runs cases, :mod:`.known` looks at known findings again,
:mod:`.fresh` confirms, shrinks and bisects new ones, :mod:`.night` does all of it within a budget,
and :mod:`.morning` writes what a person reads.
"""
