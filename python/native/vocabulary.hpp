// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Python functions for the hashes, vocabularies and writers of rueda/data.h. rueda/data/_terms.py and
// rueda/data/_writer.py use them; python/rueda/_native.pyi declares them.
// Threads: the functions release the GIL while they work.
#pragma once

#include <vector>

#include "python/native/python_api.hpp"
#include "rueda/data.h"

namespace rueda::python {

/// Returns the functions, ended by an entry without a name.
[[nodiscard]] PyMethodDef* vocabulary_functions();

/// Reads a list of capsules with vocabularies, and stores the vocabularies in `into`. Returns false, with a Python
/// error set, if the list has another form.
[[nodiscard]] bool vocabularies_in(PyObject* list, std::vector<rueda_data_vocabulary*>& into);

}  // namespace rueda::python
