# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Horovod's operations on PyTorch tensors, one file for each operation. rueda.torch.mpi_ops has all of them.

Tensors: a tensor must be dense and contiguous, in the memory of the CPU or of a CUDA device (docs/gpu.md). Names: calls
of different ranks that give the same ``name`` form one operation. Calls without a name are matched by their order,
separately for each process set. ``process_set`` says which ranks take part.

Forms: an operation has several forms, such as ``allreduce``, ``allreduce_``, ``allreduce_async`` and
``allreduce_async_``. Autograd can differentiate only the first form, without a suffix. An ``_async`` form returns a
handle, a number to pass to ``poll()`` and ``synchronize()``. Do not touch the tensors of a handle before the handle has
completed. Any thread may call these functions.

Errors of every operation:

- ValueError: an argument is wrong, and this rank can see that without the other ranks. Or an operation with this name
  is already pending on this rank.
- HorovodInternalError: the ranks' arguments differ (Mismatch, on all ranks), a rank has died (Aborted), or init() was
  not called.
"""
