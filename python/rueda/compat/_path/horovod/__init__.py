# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The package ``horovod`` for child processes. A script that runs under ``python -m rueda.compat.horovod`` may start
processes. These processes import this package, and get Rueda.
"""

import importlib
import sys

import rueda.compat.horovod

del sys.modules["horovod"]
rueda.compat.horovod.install()
importlib.import_module("horovod")
