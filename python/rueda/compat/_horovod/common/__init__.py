# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The package ``horovod.common``, as far as PyTorch's users import from it."""
