// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The operations as functions of the module: each starts one, and waits for it or gives a Handle.
#pragma once

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Entries for the module's table, ended by an empty one.
[[nodiscard]] PyMethodDef* operation_functions();

}  // namespace rueda::python
