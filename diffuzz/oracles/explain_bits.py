"""Explains outputs that are judged bit by bit: zeros, one constant, moved elements or rows."""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.finding import Explanation
from diffuzz.oracles.by_index import moves
from diffuzz.oracles.by_row import rows_elsewhere
from diffuzz.oracles.evidence import WRONG_SAMPLE, spread
from diffuzz.oracles.explain import ENOUGH, MIN_ELEMENTS, MIN_KNOWN, MIN_VARIETY, Named


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
    for move in moves(tuple(codes.shape)):
        assert move.source is not None
        source, known = move.source(at)
        share = _share(held[at] == wanted[source], known)
        if share >= ENOUGH:
            return _named(move.key, f"equals what is right {move.text}", share)
    rows = rows_elsewhere(codes, truth, truth, wrong)
    if rows is None:
        return None
    return _named(f"rows-dim{rows.dim}", f"equals what is right {rows.text}", rows.share)


def _share(same: Tensor, known: Tensor) -> float:
    count = int(known.sum())
    if count < MIN_KNOWN * known.numel():
        return 0.0
    return int((same & known).sum()) / count


def _named(key: str, text: str, share: float) -> Named:
    return Named(Explanation(key, text, share), key)
