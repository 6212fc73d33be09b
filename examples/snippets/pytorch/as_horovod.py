# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.compat.horovod

rueda.compat.horovod.install()

import horovod.torch as hvd  # noqa: E402
import rueda.torch  # noqa: E402

assert hvd is rueda.torch
