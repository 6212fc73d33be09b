// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The operations as functions of the module rueda._native. Most of them start an operation and return its Handle. A few
// also wait for the operation.
#pragma once

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Entries for the module's method table. The last entry is empty.
[[nodiscard]] PyMethodDef* operation_functions();

}  // namespace rueda::python
