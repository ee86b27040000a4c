"""Shows one finding on one revision of vLLM. Needs torch and triton, and nothing else.

The code under test, the code that calls it, the inputs and the right answers are packed at the end
of this file; `--unpack DIR` writes them out, runs from there and leaves them (code that is there
already is not overwritten: change it and run again). Exit code: 0 right, 1 wrong, 125 cannot tell.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
import zlib
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

RIGHT, WRONG, CANNOT_TELL = 0, 1, 125
ABOUT: dict[str, Any] = {}
PACKED = ""


class CannotTell(Exception):
    """This machine cannot show whether the revision is right."""


# --- the parent: a child runs the kernel, so that its crash or hang can be told ------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--unpack", metavar="DIR", help="work in DIR and leave everything there")
    parser.add_argument("--device", choices=("auto", "gpu", "cpu"), default="auto")
    parser.add_argument("--ops", metavar="LIBRARY", help="library with vLLM's native operators")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until it is a hang")
    parser.add_argument("--child", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Path(options.child), options.device, options.ops)
    print(
        f"finding: {ABOUT['title']}\ncase: {ABOUT['shown']}\nrevision: {ABOUT['revision']}",
        flush=True,
    )
    if options.unpack:
        return parent(Path(options.unpack), options)
    with tempfile.TemporaryDirectory() as folder:
        return parent(Path(folder), options)


def parent(folder: Path, options: argparse.Namespace) -> int:
    for name, text in unpacked()["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    command = [sys.executable, os.path.abspath(__file__), "--child", str(folder)]
    command += ["--device", options.device] + (["--ops", options.ops] if options.ops else [])
    try:
        code = subprocess.run(command, timeout=options.timeout).returncode
    except subprocess.TimeoutExpired:
        print(f"WRONG: still running after {options.timeout:g} s")
        return WRONG
    if code in (RIGHT, WRONG, CANNOT_TELL):
        return code
    print(f"WRONG: the process died: {f'signal {-code}' if code < 0 else f'exit code {code}'}")
    return WRONG


def unpacked() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(PACKED)))
    return found


# --- the child -----------------------------------------------------------------------------------


def child(folder: Path, wanted: str, library: str | None) -> int:
    # Neither this file's own folder, whatever it is called, nor a note on NumPy belong here.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        device, said = choose_device(wanted, library)
        print(f"runs on: {said}", flush=True)
        return run(folder, device, library)
    except CannotTell as error:
        print(f"cannot tell: {error}")
    except Exception:
        traceback.print_exc()
        print("cannot tell: the reproducer itself failed")
    return CANNOT_TELL


def choose_device(wanted: str, library: str | None) -> tuple[str, str]:
    """The device, and what to say of it."""
    import torch

    modelled = bool(ABOUT["ops"]) and library is None
    unfit = "not asked for" if wanted == "cpu" else why_not_gpu(torch)
    if unfit is None and not modelled:
        own = f", native operators from {library}" if library else ""
        return "cuda", f"GPU ({torch.cuda.get_device_name()}){own}"
    if wanted == "gpu":
        raise CannotTell(unfit or "the native operators are needed on the GPU: give --ops LIBRARY")
    if ABOUT["cpu"] is not None:
        raise CannotTell(f"not on the CPU: {ABOUT['cpu']}; not on a GPU: {unfit or 'needs --ops'}")
    parts = []
    if modelled:
        parts.append("native operators by a model of their contract in plain torch")
    if library is not None:
        parts.append(f"native operators from {library}")
    if ABOUT["triton"]:
        parts.append(f"Triton kernels compiled to Triton IR for {ABOUT['arch']}, which is executed")
    return "cpu", "CPU: " + ("; ".join(parts) or "plain torch")


def why_not_gpu(torch: Any) -> str | None:
    """Why a GPU cannot show it here, or None."""
    if ABOUT["traced"]:
        return "it shows where accesses are traced, which a GPU does not do"
    if not torch.cuda.is_available():
        return "there is no GPU"
    properties = torch.cuda.get_device_properties(0)
    name = getattr(properties, "gcnArchName", "").split(":")[0]
    here = name if torch.version.hip else f"sm{properties.major}{properties.minor}"
    return None if here in ABOUT["archs"] else f"the GPU here is {here}"


def run(folder: Path, device: str, library: str | None) -> int:
    sys.path.insert(0, str(folder))
    arch = importlib.import_module("case_code.arch").ARCHS[ABOUT["arch"]]
    target = importlib.import_module("case_code.target_under_test").TARGET
    make_case = importlib.import_module("case_code.case").make_case
    case = make_case(target.name, target.axes, ABOUT["values"], ABOUT["seed"])
    executor, kept = prepared(arch, device, library)
    content = unpacked()
    inputs = {name: placed(item, device) for name, item in content["inputs"].items()}
    slice_folder = folder / "vllm_slice"
    try:
        outputs = target.run(load_slice(slice_folder), case, arch, inputs)
        outputs = {name: tensor.cpu() for name, tensor in outputs.items()}
    except Exception as error:
        return raised(error, slice_folder)
    del kept
    wrong = judge(outputs, content["expected"])
    for report in executor.reports() if executor else ():
        wrong.append(f"run: {report.kind}: {report.message} at {report.location}")
    return concluded(wrong, list(content["expected"]))


def prepared(arch: Any, device: str, library: str | None) -> tuple[Any, Any]:
    """The executor of Triton kernels, if it is not the GPU, and what keeps the operators there."""
    import torch

    kept = None
    if library is not None:
        load_library: Any = torch.ops.load_library
        load_library(library)
    elif ABOUT["ops"]:
        models = importlib.import_module("case_code.native.op_models")
        kept = models.register(arch, ABOUT["schemas"], ABOUT["ops"])
    if device != "cpu" or not ABOUT["triton"]:
        return None, kept
    executor = importlib.import_module("case_code.executors.triton_ir").TritonIRExecutor()
    executor.prepare(arch)
    executor.begin()
    return executor, kept


def raised(error: Exception, slice_folder: Path) -> int:
    """vLLM's own exception is what is wrong; any other says nothing of it."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if Path(f.filename).is_relative_to(slice_folder / "vllm")]
    said = f"{type(error).__name__}: {error}"
    if type(error).__name__ in ("CannotTell", "Unsupported"):
        raise CannotTell(str(error)) from None
    if not inside:
        traceback.print_exc()
        raise CannotTell(f"the call failed: {said[:300]}") from None
    if isinstance(error, AttributeError) and "_OpNamespace" in str(error):
        raise CannotTell(f"the native operator {error.name} is not here: give --ops LIBRARY")
    after = frames[frames.index(inside[-1]) + 1 :]
    carried = [f for f in after if "case_code" in Path(f.filename).parts]
    if any("op_models" not in f.filename for f in carried) and "ttir" not in type(error).__module__:
        traceback.print_exc()
        raise CannotTell(f"the executor failed: {said[:300]}") from None
    at = inside[-1]
    place = f"{Path(at.filename).relative_to(slice_folder)}:{at.lineno} in {at.name}"
    print(f"expected: the call returns\nactual:   {said}\n          at {place}: {at.line}")
    print("WRONG")
    return WRONG


# --- the slice of vLLM: only its modules exist under vLLM's names ---------------------------------


class Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        flags = importlib.import_module("__future__").annotations.compiler_flag
        return compile(self.get_data(path), path, "exec", flags=flags, dont_inherit=True)


class Finder(MetaPathFinder):
    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.modules = manifest["modules"]
        self.absent = set(manifest["absent"])
        self.owned = {name.partition(".")[0] for name in self.modules}
        self.gone = {name.partition(".")[0] for name in self.absent} - self.owned

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        top = fullname.partition(".")[0]
        if fullname in self.modules:
            file = str(self.folder / self.modules[fullname])
            below = [str(Path(file).parent)] if file.endswith("__init__.py") else None
            return importlib.util.spec_from_file_location(
                fullname, file, loader=Loader(fullname, file), submodule_search_locations=below
            )
        if fullname in self.absent or top in self.owned | self.gone:
            raise ModuleNotFoundError(f"{fullname} is not in the slice", name=fullname)
        return None


def load_slice(folder: Path) -> dict[str, Any]:
    """Entry name to function."""
    manifest = json.loads((folder / "slice.json").read_text(encoding="utf-8"))
    sys.meta_path.insert(0, Finder(folder, manifest))
    return {name: found(module, symbol) for name, (module, symbol) in manifest["entries"].items()}


def found(module: str, symbol: str) -> Any:
    first, _, method = symbol.partition(".")
    top = getattr(importlib.import_module(module), first)
    if not method:
        return top
    raw = vars(top)[method]
    if isinstance(raw, staticmethod):
        return raw.__func__
    if isinstance(raw, classmethod):
        return getattr(top, method)
    return raw.fget if isinstance(raw, property) else raw


# --- inputs, right answers and the comparison ----------------------------------------------------


def placed(item: Any, device: str) -> Any:
    """A packed input on its device: a tensor, or a plain value."""
    return tensor(item).to(device) if isinstance(item, dict) else item


def tensor(item: dict[str, Any] | None) -> Any:
    import torch

    if item is None:
        return None
    dtype = getattr(torch, item["dtype"])
    raw = bytearray(base64.b64decode(item["data"]))
    if not raw:
        return torch.empty(item["shape"], dtype=dtype)
    return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(item["shape"])


def judge(outputs: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """What is wrong, a line an output that is."""
    found = [judge_one(name, outputs.get(name), item) for name, item in expected.items()]
    return [line for line in found if line]


def concluded(wrong: list[str], names: list[str]) -> int:
    told = {line.split(": ")[0] for line in wrong}
    for name in names:
        if name not in told:
            print(f"{name}: right")
    mine = [
        line for line in wrong if not ABOUT["aspects"] or line.split(": ")[0] in ABOUT["aspects"]
    ]
    for line in wrong:
        print(line if line in mine else f"(another finding) {line}")
    print("WRONG" if mine else "right")
    return WRONG if mine else RIGHT


def judge_one(name: str, output: Any, item: dict[str, Any]) -> str | None:
    """What is wrong with one output, None if it is right."""
    truth, care = tensor(item["value"]), tensor(item["care"])
    if output is None:
        return f"{name}: missing"
    if output.shape != truth.shape:
        return f"{name}: expected shape {tuple(truth.shape)}, actual {tuple(output.shape)}"
    if item["format"] is not None:
        return judge_values(name, output, truth, item)
    if output.dtype != truth.dtype:
        return f"{name}: expected {truth.dtype}, actual {output.dtype}"
    raw_bits = importlib.import_module("case_code.numerics.poison").raw_bits
    want, have = raw_bits(truth), raw_bits(output)
    wrong = want != have
    return difference(name, wrong if care is None else wrong & care, want, have)


def judge_values(name: str, output: Any, truth: Any, item: dict[str, Any]) -> str | None:
    errors = importlib.import_module("case_code.numerics.error")
    fmt = importlib.import_module("case_code.numerics.formats").FORMATS[item["format"]]
    bounds = {key: tensor(item[key]) for key in ("slack", "exact", "care")}
    new = importlib.import_module("case_code.expected").Expected
    expected = new(truth, fmt, overflow=item["overflow"], **bounds)
    try:
        values = errors.read_output(output, fmt)
    except ValueError:
        return f"{name}: expected {fmt.dtype}, actual {output.dtype}"
    return difference(name, ~errors.right_elements(values, expected), truth, values)


def difference(name: str, wrong: Any, want: Any, have: Any) -> str | None:
    count = int(wrong.sum())
    if not count:
        return None
    index = tuple(wrong.nonzero()[0].tolist())
    where = ", ".join(
        f"{axis} {at}" for axis, at in zip(axes(name, len(index)), index, strict=True)
    )
    return (
        f"{name}: {count} of {wrong.numel()} elements wrong; first at {where}:"
        f" expected {want[index].item():.9g}, actual {have[index].item():.9g}"
    )


def axes(name: str, rank: int) -> list[str]:
    """What the dimensions of an output are."""
    named: list[str] = ABOUT["dims"].get(name) or []
    if len(named) == rank:
        return named
    usual = {3: ["token", "head", "column"], 2: ["row", "column"], 1: ["element"]}
    return usual.get(rank) or [f"axis {i}:" for i in range(rank)]


if __name__ == "__main__":
    sys.exit(main())
