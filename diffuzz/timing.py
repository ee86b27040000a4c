"""Is the candidate slower than the baseline? Paired times on one device, interleaved.

Both revisions run each case in turn (baseline, candidate, candidate, baseline), so that a clock
that changes or a neighbour that wakes up meets both alike. The two baseline runs of a case say
what noise is. A slowdown is listed, never a finding: no run fails because of it unless asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from diffuzz.executors.pool import Worker
from diffuzz.outcome import Returned

# Below this a difference is nobody's concern, however certain.
MARGIN = 0.05
CONFIDENCE = 0.99
# An interval for a median at 99 % needs eight pairs at least (2 * 0.5**8 < 0.01).
LEAST_PAIRS = 8


@dataclass(frozen=True)
class Round:
    """Seconds of one case: ``baseline`` first and last, ``candidate`` twice in between."""

    baseline: tuple[float, float]
    candidate: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Candidate over baseline; the geometric mean cancels a drift that is even."""
        first, last = self.baseline
        return math.sqrt(math.prod(self.candidate) / (first * last))

    @property
    def noise(self) -> float:
        """The second of two equal runs over the first."""
        return self.baseline[1] / self.baseline[0]


@dataclass(frozen=True)
class Interval:
    """A median with its confidence interval, free of assumptions about the distribution."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Timing:
    """``ratio`` is candidate over baseline, ``noise`` baseline over itself. ``slower`` and
    ``faster`` hold only beyond noise and margin; ``said`` is one line for a report."""

    cases: int
    ratio: Interval
    noise: Interval
    baseline_ms: float
    candidate_ms: float
    slower: bool
    faster: bool

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "said": self.said}

    @property
    def said(self) -> str:
        word = (
            "slower" if self.slower else "faster" if self.faster else "no difference beyond noise"
        )
        times = f"{self.baseline_ms:.3f} to {self.candidate_ms:.3f} ms"
        span = f"x{self.ratio.middle:.2f} ({self.ratio.low:.2f} to {self.ratio.high:.2f})"
        return f"{word}: {times}, {span} over {self.cases} cases"


def compare(
    rounds: Sequence[Round], *, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Timing | None:
    """What paired times say; None where there are too few of them to say anything."""
    rounds = [r for r in rounds if min(*r.baseline, *r.candidate) > 0]
    if len(rounds) < LEAST_PAIRS:
        return None
    ratio = interval([r.ratio for r in rounds], confidence)
    noise = interval([r.noise for r in rounds], confidence)
    # Noise is a spread around one: how far its interval reaches, whichever way.
    reach = max(noise.high, 1 / noise.low, 1 + margin)
    return Timing(
        cases=len(rounds),
        ratio=ratio,
        noise=noise,
        baseline_ms=1e3 * median(t for r in rounds for t in r.baseline),
        candidate_ms=1e3 * median(t for r in rounds for t in r.candidate),
        slower=ratio.low > reach,
        faster=ratio.high < 1 / reach,
    )


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median and the order statistics that enclose it with at least ``confidence``.

    Each value lies below the median with probability one half, so ranks follow a binomial
    distribution (the sign test's interval). Few values give the widest interval there is.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside, rank = 0.0, 0
    for k in range(count // 2):
        outside += math.comb(count, k) / 2**count
        if 2 * outside > 1 - confidence:
            break
        rank = k
    return Interval(median(ordered), ordered[rank], ordered[count - 1 - rank])


def measure(baseline: Worker, candidate: Worker, requests: Sequence[Path]) -> list[Round]:
    """Run each request on both workers, interleaved, after one run each that compiles and warms.

    Cases that do not return on either side are left out: they have no time to compare.
    """
    rounds = []
    for request in requests:
        order = (baseline, candidate, baseline, candidate, candidate, baseline)
        seconds = list(_seconds(order, request))
        if len(seconds) == len(order):
            _, _, first, second, third, last = seconds
            rounds.append(Round((first, last), (second, third)))
    return rounds


def _seconds(order: Sequence[Worker], request: Path) -> Iterator[float]:
    for worker in order:
        outcome = worker.run(request)
        if not isinstance(outcome, Returned):
            return
        yield outcome.seconds
