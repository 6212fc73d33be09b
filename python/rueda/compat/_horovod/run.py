# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""What Python looks for at ``from horovod import run``: this version has no ``horovod.run``, and this module says so."""

from rueda.compat._horovod import NO_RUN

# The name is that of the module in which Horovod has the function. Python passes over an error that names what it looked for.
raise ModuleNotFoundError(NO_RUN, name="horovod.runner")
