"""The variants of a kernel over history: its distinct slices, each with the revision it came with.

:mod:`.variants` holds what a variant is and knows the code at any one revision, :mod:`.walk` goes
through a git history, :mod:`.releases` through releases.
"""

from diffuzz.history.releases import release_history
from diffuzz.history.variants import Cut, Cutter, History, Known, Variant
from diffuzz.history.walk import Watch, code_begins, history, variant_at

__all__ = [
    "Cut",
    "Cutter",
    "History",
    "Known",
    "Variant",
    "Watch",
    "code_begins",
    "history",
    "release_history",
    "variant_at",
]
