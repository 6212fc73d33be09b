// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The operations as functions of the module. Each function starts an operation, and waits for it or returns a Handle.
#pragma once

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Entries for the module's table. The last one is empty.
[[nodiscard]] PyMethodDef* operation_functions();

}  // namespace rueda::python
