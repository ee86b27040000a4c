"""vLLM's sampling kernels (see :mod:`ttir_cases`)."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import torch
from torch import Tensor
from ttir_cases import Job, Pair, case, rand

Results = dict[str, Tensor]


def _masked(logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
    """Top-k, then top-p among what is left, in float64."""
    wide = logits.double()
    bound = wide.sort(-1, descending=True).values.gather(1, (k.long() - 1).unsqueeze(1))
    kept = wide.masked_fill(wide < bound, -torch.inf)
    probs, order = kept.softmax(-1).sort(-1, descending=True)
    drop = probs.cumsum(-1) - probs >= p.double().unsqueeze(1)
    return kept.masked_fill(torch.zeros_like(drop).scatter(1, order, drop), -torch.inf)


@case("top-k / top-p")
def topk_topp(programs: int) -> Job:
    module = import_module("vllm.v1.sample.ops.topk_topp_triton")
    logits = rand(programs, 2000, seed=48, dtype=torch.float32) * 2
    generator = torch.Generator().manual_seed(49)
    k = torch.randint(1, 200, (programs,), generator=generator, dtype=torch.int32)
    p = torch.rand(programs, generator=generator) * 0.9 + 0.05
    got: Results = {}

    def run() -> None:
        got["y"] = module.apply_top_k_top_p_triton(logits.clone(), k, p)

    def judge() -> list[Pair]:
        want = _masked(logits, k, p)
        # The kernel searches a pivot: values within its last step of the edge go either way.
        least = want.masked_fill(want.isinf(), torch.inf).amin(-1, keepdim=True)
        near = (logits.double() - least).abs() < 1e-4
        return [Pair(got["y"], torch.where(near, got["y"].double(), want), 0)]

    return Job(run, judge, min(programs, 8))


@case("min_p")
def min_p(programs: int) -> Job:
    module = import_module("vllm.v1.worker.gpu.sample.min_p")
    logits = rand(programs, 1500, seed=50, dtype=torch.float32)
    floor = torch.rand(programs, generator=torch.Generator().manual_seed(51)) * 0.5
    out = logits.clone()

    def run() -> None:
        module.apply_min_p(out, torch.arange(programs, dtype=torch.int32), floor)

    def judge() -> list[Pair]:
        bound = logits.amax(-1, keepdim=True) + floor.double().log().float().unsqueeze(1)
        return [Pair(out, logits.double().masked_fill(logits < bound, -torch.inf), 0)]

    return Job(run, judge, programs)


@case("rejection sampling (greedy and random)")
def rejection(programs: int) -> Job:
    module = import_module("vllm.v1.sample.rejection_sampler")
    vocab, longest = 300, 4
    generator = torch.Generator().manual_seed(52)
    counts = torch.randint(1, longest + 1, (programs,), generator=generator).tolist()
    total = sum(counts)
    ends = torch.tensor(counts).cumsum(0).int()
    draft = torch.randint(0, vocab, (total,), generator=generator).int()
    logits = rand(total, vocab, seed=53, dtype=torch.float32)
    chosen = torch.rand(total, generator=generator) < 0.7
    logits[chosen] = logits[chosen].scatter(1, draft[chosen].long().unsqueeze(1), 20.0)
    bonus = torch.randint(0, vocab, (programs, 1), generator=generator).int()
    got: Results = {}

    def run() -> None:
        for greedy in (True, False):
            asked = SimpleNamespace(
                all_greedy=greedy,
                all_random=not greedy,
                generators={},
                temperature=torch.full((programs,), 0.0 if greedy else 1.0),
            )
            got[str(greedy)] = module.rejection_sample(
                draft, counts, longest, ends, None, logits, bonus, asked
            )

    def judge() -> list[Pair]:
        best = logits.argmax(-1)
        want = torch.full((programs, longest + 1), -1)
        at = 0
        for row, count in enumerate(counts):
            for k in range(count):
                want[row, k] = best[at + k]
                if best[at + k] != draft[at + k]:
                    break
            else:
                want[row, count] = bonus[row, 0]
            at += count
        # Random: where the target is certain of the draft it must be taken, in order.
        random = got["False"]
        certain = torch.ones(programs, longest, dtype=torch.bool)
        at = 0
        for row, count in enumerate(counts):
            for k in range(count):
                if not bool(chosen[at + k]):
                    break
                certain[row, k] = random[row, k] == draft[at + k]
            at += count
        return [Pair(got["True"], want), Pair(certain.long(), torch.ones_like(certain).long())]

    return Job(run, judge, programs)
