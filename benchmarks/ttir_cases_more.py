"""Further vLLM kernels: norms, quantisation, sampling, convolution, linear attention."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import torch
from torch import Tensor
from ttir_cases import _FLA, _LAYERS, _OPS, Job, Pair, case, rand, to_fp8

from diffuzz.numerics.formats import widen

Results = dict[str, Tensor]


@case("per_token_quant_int8")
def token_quant_int8(programs: int) -> Job:
    module = import_module(_LAYERS + "quantization.utils.int8_utils")
    x = rand(programs, 300, seed=30)
    got: Results = {}

    def run() -> None:
        got["q"], got["s"] = module.per_token_quant_int8(x)

    def judge() -> list[Pair]:
        scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-10) / 127
        exact = x.double() * (127 / x.double().abs().amax(-1, keepdim=True))
        near = (got["q"].double() - exact).abs().max()
        return [
            Pair(got["s"].view(-1), scale.double().view(-1), 1),
            # Ties may go either way: the kernel multiplies by a rounded reciprocal.
            Pair(near.float(), torch.tensor(0.0).double(), 0, 0.501),
        ]

    return Job(run, judge, programs)


@case("awq_dequantize")
def awq(programs: int) -> Job:
    module = import_module(_LAYERS + "quantization.awq_triton")
    rows, columns, group = 64, 4 * max(programs // 2, 1) * 8, 32
    generator = torch.Generator().manual_seed(31)

    def packed(n: int) -> Tensor:
        return torch.randint(
            -(1 << 31), (1 << 31) - 1, (n, columns // 8), generator=generator
        ).int()

    weight, zeros = packed(rows), packed(rows // group)
    scales = rand(rows // group, columns, seed=32, dtype=torch.float16)
    got: Results = {}

    def run() -> None:
        got["w"] = module.awq_dequantize_triton(weight, scales, zeros)

    def unpack(x: Tensor) -> Tensor:
        order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]) * 4
        return ((x.unsqueeze(-1) >> order) & 15).reshape(x.shape[0], -1)

    def judge() -> list[Pair]:
        wide = (unpack(weight) - unpack(zeros).repeat_interleave(group, 0)).double()
        want = wide * scales.double().repeat_interleave(group, 0)
        return [Pair(got["w"], want, 0.5)]

    return Job(run, judge, -(-columns // 8 // 32) * (rows // 32))


@case("triton_scaled_mm (int8)")
def scaled_mm(programs: int) -> Job:
    module = import_module(_LAYERS + "quantization.compressed_tensors.triton_scaled_mm")
    m, n, k = 32 * max(programs // 4, 1), 128, 96
    generator = torch.Generator().manual_seed(33)
    a = torch.randint(-128, 128, (m, k), generator=generator).to(torch.int8)
    b = torch.randint(-128, 128, (n, k), generator=generator).to(torch.int8).T
    sa, sb = rand(m, 1, seed=34, dtype=torch.float32), rand(n, 1, seed=35, dtype=torch.float32)
    got: Results = {}

    def run() -> None:
        got["c"] = module.triton_scaled_mm(a, b, sa, sb, torch.bfloat16)

    def judge() -> list[Pair]:
        want = (a.double() @ b.double()) * sa.double() * sb.double().T
        return [Pair(got["c"], want, 0.6)]

    return Job(run, judge, (m // 32) * (n // 32))


@case("batch-invariant matmul")
def matmul(programs: int) -> Job:
    module = import_module(_LAYERS + "batch_invariant")
    a, b = rand(32 * programs, 96, seed=36), rand(96, 64, seed=37)
    got: Results = {}

    def run() -> None:
        got["c"] = module.matmul_persistent(a, b)

    def judge() -> list[Pair]:
        return [Pair(got["c"], a.double() @ b.double(), 0.6, 1e-5)]

    return Job(run, judge, 8)


@case("batch-invariant log_softmax")
def log_softmax(programs: int) -> Job:
    module = import_module(_LAYERS + "batch_invariant")
    x = rand(programs, 1500, seed=38, dtype=torch.float32)
    got: Results = {}

    def run() -> None:
        got["y"] = module.log_softmax(x)

    def judge() -> list[Pair]:
        return [Pair(got["y"], x.double().log_softmax(-1), 4, 1e-6)]

    return Job(run, judge, programs)


@case("batch-invariant rms_norm")
def rms_norm(programs: int) -> Job:
    module = import_module(_LAYERS + "batch_invariant")
    x, w = rand(programs, 1100, seed=39), rand(1100, seed=40)
    got: Results = {}

    def run() -> None:
        got["y"] = module.rms_norm_batch_invariant(x, w)

    def judge() -> list[Pair]:
        wide = x.double()
        norm = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return [Pair(got["y"], norm * w.double(), 1.1, 1e-6)]

    return Job(run, judge, programs)


@case("gated rms_norm (mamba)")
def gated_norm(programs: int) -> Job:
    module = import_module(_LAYERS + "mamba.ops.layernorm_gated")
    rows = max(programs // 2, 1)
    x, z, w = rand(rows, 160, seed=41), rand(rows, 160, seed=42), rand(160, seed=43)
    got: Results = {}

    def run() -> None:
        got["y"] = module.rms_norm_gated(x, w, None, z, group_size=80)

    def judge() -> list[Pair]:
        wide = x.double().view(rows, 2, 80)
        norm = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        gate = z.double() * z.double().sigmoid()
        return [Pair(got["y"], norm.view(rows, 160) * w.double() * gate, 1, 1e-5)]

    return Job(run, judge, rows * 2)


@case("mrope")
def mrope(programs: int) -> Job:
    module = import_module(_LAYERS + "rotary_embedding.mrope")
    size, heads, section = 64, 3, [8, 12, 12]
    q, k = rand(programs, heads * size, seed=44), rand(programs, size, seed=45)
    cos = rand(3, programs, size // 2, seed=46)
    sin = rand(3, programs, size // 2, seed=47)
    got: Results = {}

    def run() -> None:
        got["q"], got["k"] = module.triton_mrope(
            q.clone(), k.clone(), cos, sin, section, size, size, False, True
        )

    def judge() -> list[Pair]:
        which = torch.repeat_interleave(torch.arange(3), torch.tensor(section))
        lanes = torch.arange(size // 2)
        c, s = (t.double()[which, :, lanes].T.unsqueeze(1) for t in (cos, sin))

        def turn(x: Tensor) -> Tensor:
            a, b = x.double().view(programs, -1, 2, size // 2).unbind(2)
            return torch.cat([a * c - b * s, b * c + a * s], -1).view(programs, -1)

        return [Pair(got["q"], turn(q), 1.5, 2e-2), Pair(got["k"], turn(k), 1.5, 2e-2)]

    return Job(run, judge, programs)


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


# Convolutions multiply in bfloat16: four products below 8, each off by up to 2**-6.
def _silu(x: Tensor) -> Tensor:
    return x * x.sigmoid()


@case("causal_conv1d (prefill)")
def conv_prefill(programs: int) -> Job:
    module = import_module(_LAYERS + "mamba.ops.causal_conv1d")
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
    module = import_module(_LAYERS + "mamba.ops.causal_conv1d")
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


@case("reshape_and_cache_flash (fp8)")
def reshape_cache(programs: int) -> Job:
    module = import_module(_OPS + "triton_reshape_and_cache_flash")
    module._is_supported_kv_cache_dtype = lambda name: True
    heads, size, page = 2, 64, 16
    pages = -(-programs // page) + 1
    k, v = rand(programs, heads, size, seed=62), rand(programs, heads, size, seed=63)
    generator = torch.Generator().manual_seed(64)
    slots = torch.randperm(pages * page, generator=generator)[:programs]
    kinds = to_fp8(torch.zeros(1)).dtype
    caches = [torch.zeros(pages, page, heads, size).to(kinds) for _ in range(2)]
    scale = torch.tensor([0.5]), torch.tensor([2.0])

    def run() -> None:
        module.triton_reshape_and_cache_flash(k, v, *caches, slots, "fp8", *scale)

    def judge() -> list[Pair]:
        pairs = []
        for x, cache, s in zip((k, v), caches, scale, strict=True):
            want = widen(to_fp8(x.float() / s))
            pairs.append(Pair(cache.view(-1, heads, size)[slots], want, 0))
        return pairs

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
    launcher = getattr(import_module(_FLA + module_name), function)
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
    module = import_module(_FLA + "chunk")
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
    module = import_module(_FLA + "l2norm")
    x = rand(programs * 16, 128, seed=70)
    got: Results = {}

    def run() -> None:
        got["y"] = module.l2norm_fwd(x)

    def judge() -> list[Pair]:
        wide = x.double()
        want = wide / (wide.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        return [Pair(got["y"], want, 0.6, 1e-7)]

    return Job(run, judge, programs)
