# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The operations of Horovod for PyTorch's tensors, one file each. rueda.torch.mpi_ops has all of them.

Tensors: a tensor lies in the CPU's memory, is dense and contiguous. Names: ``name`` says which calls of the ranks belong
together. Calls without a name belong together by their order, in each process set by itself. ``process_set`` says which
ranks take part.

Forms: the blocking forms without ``_`` at the end are functions of autograd; the others have no gradient. An ``_async``
form returns a handle, which is a number for ``poll()`` and ``synchronize()``. Do not touch its tensors before it has
completed. Any thread may call.

Errors of every operation:

- ValueError: this rank alone can see that an argument is wrong, or the name is pending here already.
- HorovodInternalError: the ranks disagree (Mismatch, on all of them), a rank has died (Aborted), or there was no init().
"""
