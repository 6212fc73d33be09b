// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Python functions for the proofs and the pinned memory of rueda/data.h. rueda/data/_remote and rueda/data/_mapping.py
// use them; python/rueda/_native.pyi declares them. Threads: the functions release the GIL while they work.
#pragma once

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Returns the functions, ended by an entry without a name.
[[nodiscard]] PyMethodDef* worker_data_functions();

}  // namespace rueda::python
