// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "python/native/python_api.hpp"

namespace rueda::python {

/// A whole number of 32 bits: an int, or what has __index__. False with an error set: TypeError, or InvalidArgument for
/// one that has more bits. `what` is its name in the text.
[[nodiscard]] bool read_int32(PyObject* given, const char* what, std::int32_t& value);
/// A float, or what can be made one. False with an error set.
[[nodiscard]] bool read_double(PyObject* given, const char* what, double& value);

}  // namespace rueda::python
