"""vLLM's native operators of one revision: found, built alone, run on the CPU or on a GPU.

* :mod:`~diffuzz.native.closure` goes from ``torch.ops._C.NAME`` to the files that define it
* :mod:`~diffuzz.native.build_cpu` compiles them, unmodified, for the host, as one architecture
* :mod:`~diffuzz.native.sanitize` does so under ASan and UBSan and reads their reports
* :mod:`~diffuzz.native.build_gpu` compiles them for the present CUDA or ROCm device
* :mod:`~diffuzz.native.op_models` states what some of the ops must do, in plain torch
"""
