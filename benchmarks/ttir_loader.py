"""Importing vLLM's kernel files as they are, without installing vLLM.

Files of the packages in ``REAL`` are imported from a source tree. Everything else of vLLM is a
stand-in that accepts any use, except for the few facts kernels ask of their platform. Good enough
for a benchmark that compares results with a reference; diffuzz itself slices (see
:mod:`diffuzz.slicing`) and refuses what it cannot resolve.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from diffuzz.arch import Arch
from diffuzz.sources import Source

REAL = (
    "vllm.v1.attention.ops.triton_",
    "vllm.v1.attention.ops.prefix_prefill",
    "vllm.v1.sample.ops.topk_topp_triton",
    "vllm.v1.sample.rejection_sampler",
    "vllm.v1.worker.gpu.sample.min_p",
    "vllm.v1.worker.gpu.sample.gumbel",
    "vllm.third_party.flash_linear_attention",
    "vllm.utils.math_utils",
    "vllm.model_executor.layers.quantization.utils.fp8_utils",
    "vllm.model_executor.layers.quantization.utils.int8_utils",
    "vllm.model_executor.layers.quantization.awq_triton",
    "vllm.model_executor.layers.quantization.compressed_tensors.triton_scaled_mm",
    "vllm.model_executor.layers.fused_moe.fused_moe",
    "vllm.model_executor.layers.mamba.ops",
    "vllm.model_executor.layers.batch_invariant",
    "vllm.model_executor.layers.rotary_embedding.mrope",
)
# Single definitions taken from files that are otherwise stand-ins.
TAKEN: dict[str, tuple[str, ...]] = {
    "vllm.v1.attention.backends.rocm_aiter_fa": ("if:is_rocm",),
    "vllm.v1.kv_cache_interface": ("KVQuantMode",),
    "vllm.v1.attention.backends.utils": ("PAD_SLOT_ID", "NULL_BLOCK_ID"),
}


class _Accepting(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)


class _StandIn(metaclass=_Accepting):
    """Can be called, subclassed, subscripted and asked for anything. Decorating with it keeps
    the function."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return args[0]
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self)(*args, **kwargs)


def _stand_in(name: str) -> Any:
    return _Accepting(name, (_StandIn,), {})


class _StandInModule(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)


class _Platform:
    """What kernels and launchers ask of ``current_platform``."""

    device_type = "cuda"

    def __init__(self, arch: Arch) -> None:
        self.arch = arch

    def is_rocm(self) -> bool:
        return self.arch.vendor == "amd"

    def is_cuda(self) -> bool:
        return self.arch.vendor == "nvidia"

    def is_cuda_alike(self) -> bool:
        return True

    def is_fp8_fnuz(self) -> bool:
        return self.arch.is_fnuz

    def fp8_dtype(self) -> torch.dtype:
        return torch.float8_e4m3fnuz if self.arch.is_fnuz else torch.float8_e4m3fn

    def has_device_capability(self, wanted: Any) -> bool:
        major, minor = self.arch.capability
        limit = wanted if isinstance(wanted, int) else wanted[0] * 10 + wanted[1]
        return self.is_cuda() and major * 10 + minor >= limit

    def get_device_name(self, *args: Any) -> str:
        return self.arch.name

    def __getattr__(self, name: str) -> Any:
        # Other platforms, other capabilities.
        return lambda *args, **kwargs: False


def _fp8_range(arch: Arch) -> tuple[float, float]:
    # vLLM caps FNUZ at 224 to match what it computes elsewhere.
    limit = 224.0 if arch.is_fnuz else 448.0
    return -limit, limit


def _facts(arch: Arch) -> dict[str, dict[str, Any]]:
    import triton.language.extra.libdevice as tldevice

    return {
        "vllm.platforms": {"current_platform": _Platform(arch)},
        "vllm.triton_utils": {
            "tl": tl,
            "triton": triton,
            "tldevice": tldevice,
            "HAS_TRITON": True,
            "LOG2E": 1.4426950408889634,
            "LOGE2": 0.6931471805599453,
            "use_tensor_descriptor": lambda *a, **k: False,
        },
        "vllm.platforms.rocm": {"on_gfx1x": lambda: False},
        "vllm.utils.platform_utils": {
            "num_compute_units": lambda *a: 8,
            "get_device_name_as_file_name": lambda *a: arch.name,
        },
        "vllm.utils.mem_utils": {"get_max_shared_memory_bytes": lambda *a: 65536},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.utils.torch_utils": {
            "is_torch_equal_or_newer": lambda *a: True,
            "is_quantized_kv_cache": lambda name: name.startswith("fp8"),
        },
        "vllm.utils.deep_gemm": {"is_deep_gemm_e8m0_used": lambda: False},
        "vllm.model_executor.layers.quantization.utils.quant_utils": {
            "get_fp8_min_max": lambda: _fp8_range(arch),
        },
        "vllm.logger": {"init_logger": _stand_in("init_logger")},
        "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
    }


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, source: Source, folder: Path, arch: Arch) -> None:
        self.source = source
        self.folder = folder
        self.facts = _facts(arch)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "vllm" and not name.startswith("vllm."):
            return None
        real = self._file(name) if name.startswith(REAL) else None
        if real is None:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return importlib.machinery.ModuleSpec(name, self, origin=real)

    def _file(self, name: str) -> str | None:
        # Packages stay stand-ins: their __init__ imports far more than a kernel needs.
        path = name.replace(".", "/") + ".py"
        return path if self.source.exists(path) else None

    def create_module(self, spec: Any) -> Any:
        return types.ModuleType(spec.name) if spec.origin else _StandInModule(spec.name)

    def exec_module(self, module: Any) -> None:
        name = module.__name__
        path = module.__spec__.origin
        if path is None:
            module.__dict__.update(self.facts.get(name, {}))
            if name in TAKEN:
                self._take(module, self._file(name), TAKEN[name])
            return
        self._run(module, path, None)

    def _take(self, module: Any, path: str | None, names: tuple[str, ...]) -> None:
        import enum

        module.__dict__.update({n: getattr(enum, n) for n in ("Enum", "IntEnum", "IntFlag")})
        module.__dict__["torch"] = torch
        if path is not None:
            self._run(module, path, names)

    def _run(self, module: Any, path: str, names: tuple[str, ...] | None) -> None:
        text = self.source.read(path) or ""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        module.__file__ = str(file)
        tree = ast.parse(text)
        if names is not None:
            tree.body = [node for node in tree.body if _defined(node) & set(names)]
            module.__dict__.update(self.facts["vllm.platforms"])
            module.__dict__.update(self.facts["vllm.utils.torch_utils"])
        exec(compile(tree, str(file), "exec", dont_inherit=True), module.__dict__)


def _defined(node: ast.stmt) -> set[str]:
    """Names a statement defines; ``if:`` and a word for a condition that asks for it."""
    if isinstance(node, ast.If) and "is_rocm" in ast.unparse(node.test):
        return {"if:is_rocm"}
    if isinstance(node, ast.Assign):
        return {t.id for t in node.targets if isinstance(t, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return {getattr(node, "name", "")}


@contextlib.contextmanager
def _no_device(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def install(source: Source, folder: Path, arch: Arch) -> None:
    """From now on ``import vllm...`` reads kernel files of ``source`` (copied to ``folder``, for
    Triton needs files), for ``arch``. Device contexts of torch become no-ops."""
    sys.meta_path.insert(0, _Finder(source, folder, arch))
    torch.cuda.device = _no_device  # type: ignore[assignment, misc]
    torch.accelerator.device_index = _no_device  # type: ignore[assignment, misc]
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_capability = lambda *args: arch.capability  # type: ignore[assignment]
    torch.cuda.get_device_name = lambda *args: arch.name  # type: ignore[assignment]
