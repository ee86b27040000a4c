"""Convolution and linear attention kernels (see :mod:`ttir_cases`)."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor
from ttir_cases import FLA, LAYERS, Job, Pair, case, rand

Results = dict[str, Tensor]


# Convolutions multiply in bfloat16: four products below 8, each off by up to 2**-6.
def _silu(x: Tensor) -> Tensor:
    return x * x.sigmoid()


@case("causal_conv1d (prefill)")
def conv_prefill(programs: int) -> Job:
    module = import_module(LAYERS + "mamba.ops.causal_conv1d")
    dim, width = 96, 4
    lengths = [9 + 5 * (i % 4) for i in range(max(programs // 2, 1))]
    total = sum(lengths)
    x = rand(total, dim, seed=54).T
    weight, bias = rand(dim, width, seed=55), rand(dim, seed=56)
    states = rand(len(lengths) + 1, width - 1, dim, seed=57).transpose(1, 2)
    first = states.clone()
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    lines = torch.arange(1, len(lengths) + 1, dtype=torch.int32)
    given = torch.arange(len(lengths)) % 2 == 0
    got: Results = {}

    def run() -> None:
        got["y"] = module.causal_conv1d_fn(
            x, weight, bias, states, starts, lines, given, activation="silu"
        )

    def judge() -> list[Pair]:
        outs, ends = [], []
        for i, n in enumerate(lengths):
            at = int(starts[i])
            before = first[i + 1].double() * float(given[i])
            line = torch.cat([before, x[:, at : at + n].double()], 1)
            taps = line.unfold(1, width, 1)
            outs.append(
                _silu((taps * weight.double().unsqueeze(1)).sum(-1) + bias.double()[:, None])
            )
            ends.append(line[:, -(width - 1) :])
        return [
            Pair(got["y"], torch.cat(outs, 1), 1, 0.06),
            Pair(states[1:], torch.stack(ends), 0),
        ]

    return Job(run, judge, sum(-(-n // 8) for n in lengths))


@case("causal_conv1d (decode)")
def conv_decode(programs: int) -> Job:
    module = import_module(LAYERS + "mamba.ops.causal_conv1d")
    dim, width = 96, 4
    x = rand(programs, dim, seed=58)
    weight, bias = rand(dim, width, seed=59), rand(dim, seed=60)
    states = rand(programs + 1, width - 1, dim, seed=61).transpose(1, 2)
    first = states.clone()
    lines = torch.arange(1, programs + 1, dtype=torch.int32)
    kept = x.clone()
    got: Results = {}

    def run() -> None:
        got["y"] = module.causal_conv1d_update(
            x, states, weight, bias, "silu", conv_state_indices=lines
        )

    def judge() -> list[Pair]:
        line = torch.cat([first[1:].double(), kept.double().unsqueeze(-1)], -1)
        want = _silu((line * weight.double()).sum(-1) + bias.double())
        return [Pair(got["y"], want, 1, 0.06), Pair(states[1:], line[..., 1:], 0)]

    return Job(run, judge, programs)


def _delta_rule(parts: dict[str, Tensor], scale: float, per_key: bool) -> Tensor:
    """Gated delta rule, one step after another in float64. [B, T, H, ...]."""
    q, k, v, g, beta = (parts[n].double() for n in ("q", "k", "v", "g", "beta"))
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    batch, steps, heads, width = q.shape
    state = torch.zeros(batch, heads, v.shape[-1], width, dtype=torch.float64)
    outs = []
    for t in range(steps):
        decay = g[:, t].exp()
        state = state * (decay[:, :, None, :] if per_key else decay[:, :, None, None])
        delta = v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t])
        delta = delta * beta[:, t].unsqueeze(-1)
        state = state + delta.unsqueeze(-1) * k[:, t].unsqueeze(2)
        outs.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]) * scale)
    return torch.stack(outs, 1)


def _delta_inputs(batch: int, steps: int, heads: int, width: int, per_key: bool) -> Results:
    shape = (batch, steps, heads, width)
    gate = rand(*(shape if per_key else shape[:3]), seed=68, dtype=torch.float32)
    return {
        "q": rand(*shape, seed=65),
        "k": rand(*shape, seed=66),
        "v": rand(*shape, seed=67),
        "g": -gate.abs() * 0.1,
        "beta": rand(*shape[:3], seed=69, dtype=torch.float32).sigmoid(),
    }


def _recurrent(module_name: str, function: str, programs: int, per_key: bool) -> Job:
    """Sequences packed into one batch row, as vLLM's layers call it."""
    launcher = getattr(import_module(FLA + module_name), function)
    count, steps, heads, width = max(programs // 8, 1), 6, 2, 32
    parts = _delta_inputs(count, steps, heads, width, per_key)
    packed = {name: x.reshape(1, count * steps, *x.shape[2:]) for name, x in parts.items()}
    starts = torch.arange(count + 1, dtype=torch.int32) * steps
    zero = torch.zeros(count * steps, heads, width, width)
    scale = width**-0.5
    got: Results = {}

    def run() -> None:
        got["o"], _ = launcher(
            **packed,
            scale=scale,
            initial_state=zero,
            inplace_final_state=False,
            cu_seqlens=starts,
            use_qk_l2norm_in_kernel=True,
        )

    def judge() -> list[Pair]:
        out = got["o"].reshape(count, steps, heads, width)
        return [Pair(out, _delta_rule(parts, scale, per_key), 1, 1e-4)]

    return Job(run, judge, count * heads * 4)


@case("gated delta rule (GDN), recurrent")
def gdn(programs: int) -> Job:
    return _recurrent("fused_recurrent", "fused_recurrent_gated_delta_rule_fwd", programs, False)


@case("Kimi delta attention (KDA), recurrent")
def kda(programs: int) -> Job:
    return _recurrent("kda", "fused_recurrent_kda_fwd", programs, True)


@case("gated delta rule (GDN), chunked")
def gdn_chunked(programs: int) -> Job:
    module = import_module(FLA + "chunk")
    steps, heads, width = 96, max(programs // 8, 1), 64
    parts = _delta_inputs(1, steps, heads, width, False)
    q, k = (
        (x.double() / (x.double().square().sum(-1, keepdim=True) + 1e-6).sqrt()).bfloat16()
        for x in (parts["q"], parts["k"])
    )
    got: Results = {}

    def run() -> None:
        got["o"] = module.chunk_gated_delta_rule_fwd(
            q,
            k,
            parts["v"],
            parts["g"],
            parts["beta"],
            width**-0.5,
            torch.zeros(1, heads, width, width),
            True,
        )[1]

    def judge() -> list[Pair]:
        want = _delta_rule({**parts, "q": q, "k": k}, width**-0.5, False)
        return [Pair(got["o"], want, 4, 2e-2)]

    return Job(run, judge, heads * 2)


@case("l2norm (FLA)")
def l2norm(programs: int) -> Job:
    module = import_module(FLA + "l2norm")
    x = rand(programs * 16, 128, seed=70)
    got: Results = {}

    def run() -> None:
        got["y"] = module.l2norm_fwd(x)

    def judge() -> list[Pair]:
        wide = x.double()
        want = wide / (wide.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        return [Pair(got["y"], want, 0.6, 1e-7)]

    return Job(run, judge, programs)
