# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank of test_local_device.py: prints the GPU that it should use, and whether the process has mapped libcuda
afterwards. No process can create a CUDA context without libcuda. (Other libraries do not count: `import torch` maps
libcudart and NCCL, if PyTorch was built for CUDA.)

Usage: local_device_rank.py MODULE [use-cuda]. MODULE is rueda or rueda.torch. With use-cuda, the rank initialises CUDA.
"""

import ctypes
import importlib
import sys

hvd = importlib.import_module(sys.argv[1])
hvd.init()
device = hvd.local_device()
if sys.argv[2:] == ["use-cuda"]:
    ctypes.CDLL("libcuda.so.1").cuInit(0)
with open("/proc/self/maps") as maps:
    has_cuda = "libcuda.so" in maps.read()
print(f"device {device}, {'with' if has_cuda else 'without'} libcuda")
hvd.shutdown()
