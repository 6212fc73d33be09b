// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type Handle: the caller's end of an operation under way.
#pragma once

#include <memory>

#include "python/native/in_flight.hpp"

namespace rueda::python {

/// The type, with a new reference; null with an error set.
[[nodiscard]] PyObject* make_handle_type();

/// A new reference; null with an error set, and the operation abandoned.
[[nodiscard]] PyObject* new_handle(std::unique_ptr<InFlight> operation);

}  // namespace rueda::python
