"""Shrinking: from a case that fails to the simplest case that fails in the same way.

"Simpler" is one written total order, :func:`diffuzz.case.sort_key`; "in the same way" is the
caller's predicate. :mod:`~diffuzz.shrink.moves` knows the simpler values of one axis,
:mod:`~diffuzz.shrink.passes` the ideas in their order, :mod:`~diffuzz.shrink.loop` tries them
until none helps. Nothing here knows what a case is run on.
"""

from diffuzz.shrink.loop import Rates, ShrinkResult, Step, shrink
from diffuzz.shrink.passes import PASSES, Pass, Space

__all__ = ["PASSES", "Pass", "Rates", "ShrinkResult", "Space", "Step", "shrink"]
