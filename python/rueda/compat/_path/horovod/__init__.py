# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The package ``horovod`` for processes that a script under ``python -m rueda.compat.horovod`` has started. It gives them Rueda."""

import importlib
import sys

import rueda.compat.horovod

del sys.modules["horovod"]
rueda.compat.horovod.install()
importlib.import_module("horovod")
