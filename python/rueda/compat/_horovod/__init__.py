# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The package ``horovod``, as far as PyTorch's users import from it."""

#: The version of Horovod whose interface this is; scripts compare it.
__version__ = "0.28.1"
