"""diffuzz: differential fuzzing and bisecting of vLLM's GPU kernels.

The layers, each importing only from those before it (``tests/test_layers.py`` holds them to it):

1. nouns: :mod:`~diffuzz.arch`, :mod:`~diffuzz.case`, :mod:`~diffuzz.outcome`,
   :mod:`~diffuzz.finding`, :mod:`~diffuzz.target`, :mod:`~diffuzz.errors`; and
   :mod:`~diffuzz.numerics`, exact arithmetic on float formats
2. making and finding: :mod:`~diffuzz.generate`, :mod:`~diffuzz.inputs`,
   :mod:`~diffuzz.sources`, :mod:`~diffuzz.slicing`, :mod:`~diffuzz.shrink`,
   :mod:`~diffuzz.bisection`
3. running and judging: :mod:`~diffuzz.executors`, :mod:`~diffuzz.oracles`, :mod:`~diffuzz.corpus`
4. :mod:`~diffuzz.campaign`, :mod:`~diffuzz.report`
5. :mod:`~diffuzz.cli`
"""

__version__ = "0.1.0"
