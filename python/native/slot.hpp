// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The Python type TensorSlot. It stores a tensor's name and what Rueda knows about the name, so that operations need
// not look it up each time.
#pragma once

#include "python/native/python_api.hpp"
#include "rueda/rueda.h"

namespace rueda::python {

/// Returns a new reference to the type TensorSlot; on failure, null with an error set.
[[nodiscard]] PyObject* make_slot_type();
/// Returns the slot of a TensorSlot; null for an object of any other type.
[[nodiscard]] rueda_slot* slot_of(PyObject* object);
/// Returns the UTF-8 bytes of a name; on failure, null with an error set. The bytes stay valid as long as the object
/// lives.
[[nodiscard]] const char* text_of_name(PyObject* name);

}  // namespace rueda::python
