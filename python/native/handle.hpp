// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type Handle: the caller's reference to a pending operation.
#pragma once

#include <memory>

#include "python/native/in_flight.hpp"

namespace rueda::python {

/// Returns a new reference to the type Handle; on failure, null with an error set.
[[nodiscard]] PyObject* make_handle_type();

/// Makes a handle for the operation, and returns a new reference to it. If this fails, abandons the operation, and
/// returns null with an error set.
[[nodiscard]] PyObject* new_handle(std::unique_ptr<InFlight> operation);

}  // namespace rueda::python
