"""The few changes a temporary copy of CUDA C++ needs before a host compiler takes it.

Line numbers stay. What is not known is turned into a refusal at the place, so that it costs
nothing unless a case gets there.
"""

from __future__ import annotations

import json
import re

from diffuzz.native.cpp_text import closing, split_arguments, strip_comments

_ASM = re.compile(r"\b(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(")
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+__shared__\s+(?:(?:__align__|alignas)\s*\(\s*\w+\s*\)\s*)?"
    r"([\w:<>\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;"
)
_HOST_OVERLOAD = re.compile(r"\bstatic\s+__host__\s+(?!__device__)")
EMULATED_ASM = frozenset(
    {"mov_b32", "cvt_f32_f16", "cvt_rn_f16_f32", "cvt_rn_f16x2_f32", "fma_rn_f16x2"}
    | {"add_f16", "mul_f16", "add_f16x2", "mul_f16x2"}
    | {"v_cvt_f32_f16", "v_cvt_f16_f32", "v_add_f16", "v_mul_f16"}
    | {"v_pk_add_f16", "v_pk_mul_f16", "v_pk_fma_f16"}
)
"""Opcodes (dots as underscores) that ``shim/diffuzz_half.h`` defines."""


def for_host(text: str) -> str:
    """``text`` of a ``.cu``, ``.cuh`` or ``.h`` with launches, assembly and device checks
    rewritten, comments gone."""
    text = strip_comments(text)
    text = _rewrite_launches(text)
    text = _rewrite_asm(text)
    text = _DYNAMIC_SHARED.sub(_dynamic_shared, text)
    # A host function beside a device function of the same name: C++ has no such overloads, but
    # prefers a function to a template, so callers on either side get the device's.
    text = _HOST_OVERLOAD.sub("template <int diffuzz_host = 0> static ", text)
    return re.sub(r"\bis_cuda\s*\(\s*\)", "is_cpu()", text)


def _lines(text: str) -> str:
    """The line ends of ``text``, so that what replaces it is as long."""
    return "".join("\\\n" if m == "\\\n" else "\n" for m in re.findall(r"\\\n|\n", text))


def _dynamic_shared(match: re.Match[str]) -> str:
    refusal = '::diffuzz::refuse("dynamic shared memory");'
    return f"{refusal} {match.group(1)}* {match.group(2)} = nullptr;{_lines(match.group())}"


def _kernel_start(text: str, end: int) -> int:
    """Where the kernel expression that ends before ``end`` starts (``ns::kernel<T, 3>``)."""
    position = end
    while position > 0 and text[position - 1] in " \t\n\\":
        position -= 1
    if position > 0 and text[position - 1] == ">":
        depth = 0
        while position > 0:
            position -= 1
            depth += {">": 1, "<": -1}.get(text[position], 0)
            if depth == 0:
                break
        while position > 0 and text[position - 1] in " \t\n\\":
            position -= 1
    name = re.search(r"(?:\w|::)+\Z", text[:position])
    return name.start() if name else position


def _rewrite_launches(text: str) -> str:
    """``kernel<<<config>>>(args)`` as ``::diffuzz::Launch(config).run(kernel, args)``."""
    while (start := text.find("<<<")) >= 0:
        first = _kernel_start(text, start)
        end = text.find(">>>", start)
        opening = text.find("(", end)
        close = closing(text, opening) if 0 <= end < opening else -1
        if close < 0 or text[end + 3 : opening].strip(" \t\n\\"):
            return text.replace("<<<", "< < <", 1)  # not a launch we know: will not compile
        kernel, config = text[first:start], text[start + 3 : end]
        arguments = text[opening + 1 : close]
        comma = ", " if arguments.strip(" \t\n\\") else ""
        call = f"::diffuzz::Launch({config}).run({kernel}{comma}{arguments})"
        text = text[:first] + call + text[close + 1 :]
    return text


def _rewrite_asm(text: str) -> str:
    done, position = [], 0
    for match in _ASM.finditer(text):
        if match.start() < position:
            continue
        end = closing(text, match.end() - 1)
        if end < 0:
            break
        inside = text[match.end() : end]
        call = emulate_asm(inside.replace("\\\n", " "))
        done.append(text[position : match.start()] + call + _lines(inside))
        position = end + 1
    return "".join(done) + text[position:]


def emulate_asm(inside: str) -> str:
    """A call that does what the operands of one ``asm(...)`` say, or a refusal.

    >>> emulate_asm('"add.f16 %0, %1, %2;\\\\n" : "=h"(c) : "h"(a), "h"(b)')
    '::diffuzz::asm_add_f16(c, a, b)'
    """
    sections = re.split(r"(?<!:):(?!:)", re.sub(r'"(?:\\.|[^"\\])*"', _hide_colons, inside))
    literals = re.findall(r'"((?:\\.|[^"\\])*)"', sections[0])
    template = "".join(literals).replace("\\n", " ").replace("\\t", " ").replace("\x00", ":")
    instructions = [i.strip() for i in template.split(";") if i.strip()]
    operands = [
        re.sub(r'^(?:\[\w+\])?\s*"[^"]*"\s*\((.*)\)$', r"\1", part, flags=re.S).strip()
        for section in sections[1:3]
        for part in split_arguments(section)
    ]
    opcode, _, rest = instructions[0].partition(" ") if instructions else ("nothing", "", "")
    name = opcode.replace(".", "_")
    places = re.findall(r"%(\d+)", rest)
    plain = re.fullmatch(r"[\s,{}]*", re.sub(r"%\d+", "", rest)) is not None
    known = all(int(p) < len(operands) for p in places)
    if len(instructions) != 1 or name not in EMULATED_ASM or not plain or not known:
        what = f"asm {opcode}" if len(instructions) == 1 else f"asm of {len(instructions)} steps"
        return f"::diffuzz::refuse({json.dumps(what)})"
    return f"::diffuzz::asm_{name}({', '.join(operands[int(p)] for p in places)})"


def _hide_colons(match: re.Match[str]) -> str:
    return match.group().replace(":", "\x00")
