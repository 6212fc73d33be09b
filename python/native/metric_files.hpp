// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Python functions for rueda/metric_files.h. rueda/training/_metric_files.py uses them; python/rueda/_native.pyi
// declares them. Threads: the functions release the GIL while they use files.
#pragma once

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Returns the functions, ended by an entry without a name.
[[nodiscard]] PyMethodDef* metric_functions();

}  // namespace rueda::python
