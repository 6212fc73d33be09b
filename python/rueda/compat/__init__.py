# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Rueda under the names of other libraries, for programs that were written for them."""
