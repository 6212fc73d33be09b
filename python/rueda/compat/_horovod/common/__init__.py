# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The package ``horovod.common``, with the names that programs for PyTorch import from it."""
