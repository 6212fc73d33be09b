# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes Rueda available under the names of other libraries, for programs that were written for those libraries."""
