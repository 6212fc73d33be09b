// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type TensorSlot: a name whose look-up is kept between operations.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Returns a new reference to the type; null with an error set.
[[nodiscard]] PyObject* make_slot_type();
/// The slot of a TensorSlot; null for any other object.
[[nodiscard]] rueda_slot* slot_of(PyObject* object);
/// Returns the bytes of a name, which live as long as the object; null with an error set.
[[nodiscard]] const char* text_of_name(PyObject* name);

}  // namespace rueda::python
