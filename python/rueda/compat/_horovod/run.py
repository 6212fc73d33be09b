# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Raises an error that says that this version has no ``horovod.run``. Python looks for this module when a program
executes ``from horovod import run``.
"""

from rueda.compat._horovod import NO_RUN

# The error names horovod.runner, the module in which Horovod has the function. If the error named this module, Python
# would ignore the error.
raise ModuleNotFoundError(NO_RUN, name="horovod.runner")
