"""Reading C++ text."""

from __future__ import annotations

import doctest

import pytest

from diffuzz.native import rewrite
from diffuzz.native.cpp_text import active, evaluate, normalized, split_arguments, strip_comments
from diffuzz.native.rewrite import emulate_asm, for_host


def test_comments_go_and_strings_stay():
    text = "a(\"// no\", '\"'); // yes\n/* b\n c */ d = 1'000; // \\\n still\ne"
    assert strip_comments(text) == "a(\"// no\", '\"');  \n\n d = 1'000; \n\ne".replace(
        ";  \n\n d", ";  \n\n d"
    )
    assert strip_comments(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("condition", "on_rocm", "on_cuda"),
    [
        ("defined(USE_ROCM)", True, False),
        ("!defined USE_ROCM", False, True),
        ("defined(USE_ROCM) && defined(__gfx942__)", None, False),
        ("!defined(USE_ROCM) || FOO > 3", None, True),
        ("(CUDA_VERSION >= 12000) && !defined(USE_ROCM)", False, None),
        ("(A + 1) == 2", None, None),
        ("0", False, False),
        ("!(defined(USE_ROCM) || 0)", False, True),
        ("A != 3", None, None),
    ],
)
def test_conditions_are_three_valued(condition, on_rocm, on_cuda):
    assert evaluate(condition, True) is on_rocm
    assert evaluate(condition, False) is on_cuda


def test_only_the_platforms_branches_are_active():
    text = (
        "#ifdef USE_ROCM\nr\n#elif X\nx\n#else\nn\n#endif\n"
        "#if Y\ny\n#elif defined(USE_ROCM)\nr2\n#else\nn2\n#endif\nz\n"
    )
    on_rocm = "r #if Y y #elif defined(USE_ROCM) r2 #else #endif z"
    assert active(text, True).split() == on_rocm.split()
    assert "r" not in active(text, False).split()
    assert {"x", "n", "y", "n2", "z"} <= set(active(text, False).split())
    assert active(text, True).count("\n") == text.count("\n")


def test_normalized_text_keeps_directives_apart():
    assert normalized("#define A 1\n  int   x ; // c\n\n", False) == "#define A 1\nint x ;"


def test_arguments_split_at_top_level_commas():
    assert split_arguments('"a, b", f(c, d), {e, f}, g') == ['"a, b"', "f(c, d)", "{e, f}", "g"]


def test_launches_are_rewritten_line_for_line():
    text = "  ns::kernel<T, sizeof(T)>\n      <<<dim3(a, b),\n 32, 0, s>>>(p,\n q);\nk<<<1, 2>>>();"
    result = for_host(text)
    assert result.count("\n") == text.count("\n")
    flat = " ".join(result.split())
    assert "::diffuzz::Launch(dim3(a, b), 32, 0, s).run(ns::kernel<T, sizeof(T)> , p, q);" in flat
    assert "::diffuzz::Launch(1, 2).run(k);" in flat


@pytest.mark.parametrize(
    ("inside", "call"),
    [
        ('"cvt.f32.f16 %0, %1;\\n" : "=f"(f) : "h"(h)', "::diffuzz::asm_cvt_f32_f16(f, h)"),
        ('"mov.b32 %0, {%1, %1};" : "=r"(b) : "h"(a)', "::diffuzz::asm_mov_b32(b, a, a)"),
        (
            '"mov.b32 {%0, %1}, %2;" : "=h"(l), "=h"(t.h[1]) : "r"(v)',
            "::diffuzz::asm_mov_b32(l, t.h[1], v)",
        ),
        ('"bar.sync 0;"', '::diffuzz::refuse("asm bar.sync")'),
        ('"add.f16 %0, %1, 0x1;" : "=h"(a) : "h"(b)', '::diffuzz::refuse("asm add.f16")'),
        ('"{ .reg .b16 t; mov.b16 t, 1; }" ::: "memory"', '::diffuzz::refuse("asm of 3 steps")'),
    ],
)
def test_assembly_is_emulated_or_refused(inside, call):
    assert emulate_asm(inside) == call


def test_shared_memory_is_refused_where_it_is_reached():
    result = for_host("extern __shared__ __align__(16) float buffer[];")
    assert result == '::diffuzz::refuse("dynamic shared memory"); float* buffer = nullptr;'


def test_docstrings():
    assert doctest.testmod(rewrite).failed == 0
