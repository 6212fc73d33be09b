# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs Rueda and its peers in turns and says where each stands; `benchmarks/compare/compare --help`."""
