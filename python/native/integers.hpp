// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "python/native/python_api.hpp"

namespace rueda::python {

/// Reads a whole number of 32 bits from an int or from an object with __index__. `what` is the argument's name in error
/// texts. On failure, returns false with an error set: TypeError, or InvalidArgument if the number has more than 32
/// bits.
[[nodiscard]] bool read_int32(PyObject* given, const char* what, std::int32_t& value);
/// Reads a float, or an object that can be converted to one. On failure, returns false with an error set.
[[nodiscard]] bool read_double(PyObject* given, const char* what, double& value);

}  // namespace rueda::python
