# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Python looks for this module at ``from horovod import run``. This version has no ``horovod.run``, and the module
raises an error that says this.
"""

from rueda.compat._horovod import NO_RUN

# The error names horovod.runner, the module in which Horovod has the function. If it named the module for which Python
# looks, Python would ignore the error.
raise ModuleNotFoundError(NO_RUN, name="horovod.runner")
