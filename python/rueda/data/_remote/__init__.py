# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Batches from producers, which are processes on other hosts. docs/design/0023-data.md explains the design.

`producer` is the code of a producer. `receiver` is the code of a process on the trainer's host that receives batches.
`messages` has what producers and receivers send to each other.
"""
