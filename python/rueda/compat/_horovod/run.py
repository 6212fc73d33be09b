# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The module that Python looks for at ``from horovod import run``. This version has no ``horovod.run``, and the module raises an error that
says so."""

from rueda.compat._horovod import NO_RUN

# The error names the module in which Horovod has the function. If it named the module that Python looks for, Python would ignore the error.
raise ModuleNotFoundError(NO_RUN, name="horovod.runner")
