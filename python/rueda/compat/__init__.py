# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Offers Rueda under the names of other libraries, for programs that were written for those libraries."""
