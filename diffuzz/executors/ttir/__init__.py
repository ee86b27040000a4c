"""Running Triton kernels on the CPU by executing their Triton IR, all programs of a grid at once.

Reading order: :mod:`.compile` (JIT function to Triton IR text), :mod:`.reader` (text to
:mod:`.ir`), :mod:`.plan` (what is known before the first launch), :mod:`.interpret` (running it),
:mod:`.ops` (one function per operation), :mod:`.memory` and :mod:`.shadow` (addresses and the
sanitizer), :mod:`.launch` (the stand-in for ``kernel[grid](...)``).

A value of type ``tensor<4x8xf32>`` is a torch tensor of shape ``[P, 4, 8]``, where ``P`` is the
number of programs being run together; every dimension, the program axis included, may be 1 where
the values do not vary along it.
"""
