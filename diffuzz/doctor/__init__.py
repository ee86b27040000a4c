"""What this machine can run, found out by trying: :func:`examine`.

:mod:`.checks` are the single checks; :mod:`.selftest` runs a Triton kernel and a CUDA kernel of
diffuzz's own in a process apart, as a campaign would.
"""

from diffuzz.doctor.checks import Check, examine

__all__ = ["Check", "examine"]
