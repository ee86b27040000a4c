"""Explains outputs that are judged bit by bit: zeros, one constant, moved elements or rows."""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.finding import Explanation
from diffuzz.oracles.by_index import moves, reads, sources
from diffuzz.oracles.by_row import rows_elsewhere
from diffuzz.oracles.evidence import SCREEN_SAMPLE, WRONG_SAMPLE, spread
from diffuzz.oracles.explain import ENOUGH, MIN_ELEMENTS, MIN_VARIETY, Named
from diffuzz.oracles.trial import MIN_KNOWN


def explain_bits(codes: Tensor, truth: Tensor, wrong: Tensor) -> Named | None:
    """``codes``, ``truth`` (int64) and ``wrong`` (bool) have the output's shape."""
    at = wrong.reshape(-1).nonzero().squeeze(1)
    at = at[spread(at.numel(), WRONG_SAMPLE)]
    held, wanted = codes.reshape(-1), truth.reshape(-1)
    if at.numel() < MIN_ELEMENTS:
        return None
    zeros = float((held[at] == 0).double().mean())
    if zeros >= ENOUGH:
        return _named("zeros", "all wrong elements are zero", zeros)
    if len(torch.unique(held[at])) == 1:
        return _named("constant", "all wrong elements hold the same bits", 1.0)
    if len(torch.unique(wanted[at])) < MIN_VARIETY:
        return None
    shape = tuple(codes.shape)
    moved = _moved(shape, held, wanted, at)
    if moved is not None:
        return moved
    rows = rows_elsewhere(shape, held, at, lambda some: (wanted[some], wanted[some]))
    if rows is None:
        return None
    return _named(f"rows-dim{rows.dim}", f"equals what is right {rows.text}", rows.share)


def _moved(shape: tuple[int, ...], held: Tensor, wanted: Tensor, at: Tensor) -> Named | None:
    few = at[spread(at.numel(), SCREEN_SAMPLE)]
    source, known = sources(reads(shape), few)
    misses = ((held[few] != wanted[source]) & known).sum(dim=1)
    # Who fails more often among the few cannot reach the share among all.
    for index in (misses <= (1 - ENOUGH) * at.numel() + 1).nonzero()[:, 0].tolist():
        source, known = sources(reads(shape)[index : index + 1], at)
        share = _share(held[at] == wanted[source], known)
        if share >= ENOUGH:
            move = moves(shape)[index]
            return _named(move.key, f"equals what is right {move.text}", share)
    return None


def _share(same: Tensor, known: Tensor) -> float:
    count = int(known.sum())
    if count < MIN_KNOWN * known.numel():
        return 0.0
    return int((same & known).sum()) / count


def _named(key: str, text: str, share: float) -> Named:
    return Named(Explanation(key, text, share), key)
