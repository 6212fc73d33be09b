# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs Rueda and other libraries in turn and compares them; see `benchmarks/compare/compare --help`."""
