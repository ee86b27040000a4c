"""How defects are named and put in words: signatures, shares, numbers.

A signature is ``KIND:ASPECT:WHAT``. WHAT never holds a number that depends on the case (sizes,
indices, addresses, factors), so every seed and shape of one defect, on either side, has the same.
"""

from __future__ import annotations

import re
import signal

from diffuzz.finding import Kind, Measure
from diffuzz.numerics.formats import FloatFormat

# WHAT of wrong elements that no hypothesis reproduces.
UNEXPLAINED = "values"
NOT_FINITE = "not-finite"  # where the truth is
FINITE = "finite"  # where the truth is not
OTHER_NON_FINITE = "other-non-finite"
_UNNAMED = frozenset({UNEXPLAINED, NOT_FINITE, FINITE, OTHER_NON_FINITE})

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\w.~+-]*/)+[\w.~+-]+")
_SIGNAL = re.compile(r"signal (\d+)(?!\d)(?: \(SIG[A-Z0-9]+\))?", re.IGNORECASE)
# Digits that belong to a name (float16, e4m3fn, gfx942) stay: they say what, not how many.
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:[,_]\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NUMBERS = re.compile(r"N(?:\s*[,x]\s*N)*,?(?=[)\]])|N(?:\s*[,x]\s*N)+")
_LIMIT = 120


def signature(kind: Kind, aspect: str, what: str) -> str:
    """Only WHAT may hold a colon: those of an aspect become points."""
    return f"{kind.value}:{aspect.replace(':', '.')}:{what}"


def same_defect(one: str, other: str) -> bool:
    """Whether two signatures may name one defect: equal, or one of them is unexplained.

    A case with too few wrong elements explains nothing, and so has a signature of its own; it
    counts as the named defect of the same kind on the same aspect.
    """
    if one == other:
        return True
    kind, aspect, what = one.split(":", 2)
    other_kind, other_aspect, other_what = other.split(":", 2)
    same_place = (kind, aspect) == (other_kind, other_aspect)
    return same_place and UNEXPLAINED in (what, other_what)


def is_unexplained(signature: str) -> bool:
    """Whether a signature says only that elements are wrong, not what reproduces them."""
    return signature.split(":", 2)[2] in _UNNAMED


def normalise(text: str) -> str:
    """The part of a message that stays the same from case to case.

    Addresses, paths and numbers are replaced, lists of numbers collapse to one, white space too;
    at most 120 characters of the first line that is not empty.
    """
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = _SIGNAL.sub(lambda m: _signal_name(int(m.group(1))), line)
    line = _ADDRESS.sub("ADDR", line)
    line = _PATH.sub("PATH", line)
    line = _NUMBER.sub("N", line)
    line = _NUMBERS.sub("N", line)
    return re.sub(r"\s+", " ", line)[:_LIMIT].strip()


def slug(name: str) -> str:
    """A hypothesis's name as it appears in a signature."""
    text = re.sub(r"\s+", "-", normalise(name).lower())
    return text.replace(":", "-") or "unnamed"


def percent(part: int, whole: int) -> str:
    """A share in words. Never rounds up to 100 % or down to 0 %."""
    if whole and part == whole:
        return "100 %"
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 0.1:
        return "under 0.1 %"
    return f"{int(share * 10) / 10:g} %"


def number(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e6 or value != value else f"{value:.3g}"


def wrong_share(measure: Measure) -> str:
    noun = "element" if measure.total == 1 else "elements"
    share = percent(measure.wrong, measure.total)
    return f"{share} of {measure.total:,} {noun} wrong"


def sizes(measure: Measure, fmt: FloatFormat) -> str:
    """``max 127 ulp of bf16 (rel 0.06)``, or empty when no finite pair differs."""
    if measure.max_ulp == 0:
        return ""
    ulps = f"{measure.max_ulp:,.0f}" if 10 <= measure.max_ulp < 1e6 else f"{measure.max_ulp:.2g}"
    return f"max {ulps} ulp of {fmt.name} (rel {measure.max_rel:.2g})"


def first_wrong(measure: Measure, *, as_codes: bool = False) -> str:
    """``first at [0, 3]: -1.25 instead of -1.2265625``; bit patterns in hexadecimal."""
    if measure.first is None or measure.expected is None or measure.actual is None:
        return ""
    index = ", ".join(map(str, measure.first))
    show = _code if as_codes else number
    return f"first at [{index}]: {show(measure.actual)} instead of {show(measure.expected)}"


def _code(value: float) -> str:
    return hex(int(value))


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(code).name
    except ValueError:
        return "signal N"
