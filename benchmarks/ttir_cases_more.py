"""Norms, quantisation and cache writes of vLLM (see :mod:`ttir_cases`)."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor
from ttir_cases import LAYERS, Job, Pair, case, rand

Results = dict[str, Tensor]


@case("per_token_quant_int8")
def token_quant_int8(programs: int) -> Job:
    module = import_module(LAYERS + "quantization.utils.int8_utils")
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
    module = import_module(LAYERS + "quantization.awq_triton")
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
    module = import_module(LAYERS + "quantization.compressed_tensors.triton_scaled_mm")
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
    module = import_module(LAYERS + "batch_invariant")
    a, b = rand(32 * programs, 96, seed=36), rand(96, 64, seed=37)
    got: Results = {}

    def run() -> None:
        got["c"] = module.matmul_persistent(a, b)

    def judge() -> list[Pair]:
        return [Pair(got["c"], a.double() @ b.double(), 0.6, 1e-5)]

    return Job(run, judge, 8)


@case("batch-invariant log_softmax")
def log_softmax(programs: int) -> Job:
    module = import_module(LAYERS + "batch_invariant")
    x = rand(programs, 1500, seed=38, dtype=torch.float32)
    got: Results = {}

    def run() -> None:
        got["y"] = module.log_softmax(x)

    def judge() -> list[Pair]:
        return [Pair(got["y"], x.double().log_softmax(-1), 4, 1e-6)]

    return Job(run, judge, programs)


@case("batch-invariant rms_norm")
def rms_norm(programs: int) -> Job:
    module = import_module(LAYERS + "batch_invariant")
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
    module = import_module(LAYERS + "mamba.ops.layernorm_gated")
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
    module = import_module(LAYERS + "rotary_embedding.mrope")
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
