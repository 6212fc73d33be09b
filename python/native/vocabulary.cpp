// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/vocabulary.hpp"

#include <cstdint>

#include "python/native/capsule.hpp"

namespace rueda::python {

template <>
struct Held<rueda_data_vocabulary> {
    static constexpr const char* kName = "rueda.data_vocabulary";
    static void free(rueda_data_vocabulary* vocabulary) { rueda_data_vocabulary_close(vocabulary); }
};
template <>
struct Held<rueda_data_writer> {
    static constexpr const char* kName = "rueda.data_writer";
    static void free(rueda_data_writer* writer) { rueda_data_writer_release(writer); }
};

namespace {

/// Arrays come from Python as addresses. The Python code keeps the arrays alive during the call.
template <class T>
T* at_address(unsigned long long address) {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

/// Reads the tuple (address of the bytes, number of bytes, address of the offsets, address of the integers, number of
/// terms). Returns false, with a Python error set, if it has another form.
bool terms_in(PyObject* tuple, rueda_data_terms& terms) {
    unsigned long long bytes = 0;
    unsigned long long offsets = 0;
    unsigned long long integers = 0;
    Py_ssize_t byte_count = 0;
    Py_ssize_t count = 0;
    if (PyArg_ParseTuple(tuple, "KnKKn", &bytes, &byte_count, &offsets, &integers, &count) == 0) {
        return false;
    }
    terms = {at_address<const char>(bytes), static_cast<std::size_t>(byte_count),
             at_address<const std::int64_t>(offsets), at_address<const std::int64_t>(integers),
             static_cast<std::size_t>(count)};
    return true;
}

/// Makes a Python bytes object from bytes that a function of the C interface returned, and frees the original bytes.
PyObject* take_bytes(char* bytes, std::size_t size) {
    PyObject* const taken = PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(size));
    rueda_data_free_text(bytes);
    return taken;
}

/// Arguments: (terms, seed, buckets, address of the ids)
PyObject* data_hash(PyObject* /*module*/, PyObject* args) {
    PyObject* tuple = nullptr;
    unsigned long long seed = 0;
    long long buckets = 0;
    unsigned long long ids = 0;
    rueda_data_terms terms{};
    if (PyArg_ParseTuple(args, "OKLK", &tuple, &seed, &buckets, &ids) == 0 || !terms_in(tuple, terms) ||
        !succeeds([&] { return rueda_data_hash(&terms, seed, buckets, at_address<std::int64_t>(ids)); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Argument: the options as a JSON text. Returns a capsule.
PyObject* vocabulary_open(PyObject* /*module*/, PyObject* options) {
    const char* const text = PyUnicode_AsUTF8AndSize(options, nullptr);
    return text == nullptr ? nullptr : capsule_from<rueda_data_vocabulary>([&](rueda_data_vocabulary** vocabulary) {
        return rueda_data_vocabulary_open(text, vocabulary);
    });
}

/// Arguments: (vocabulary, terms, whether unknown texts are counted, address of the ids)
PyObject* vocabulary_look_up(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* tuple = nullptr;
    int counts = 0;
    unsigned long long ids = 0;
    rueda_data_terms terms{};
    if (PyArg_ParseTuple(args, "OOpK", &capsule, &tuple, &counts, &ids) == 0 || !terms_in(tuple, terms)) {
        return nullptr;
    }
    return none_after<rueda_data_vocabulary>(capsule, [&](rueda_data_vocabulary* vocabulary) {
        return rueda_data_vocabulary_look_up(vocabulary, &terms, counts, at_address<std::int64_t>(ids));
    });
}

/// Argument: the vocabulary. Returns its description as JSON.
PyObject* vocabulary_describe(PyObject* /*module*/, PyObject* capsule) {
    return text_from<rueda_data_vocabulary>(capsule, rueda_data_vocabulary_describe, rueda_data_free_text);
}

/// Arguments: (vocabulary, id). Returns the term as a text.
PyObject* vocabulary_term(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    long long id = 0;
    if (PyArg_ParseTuple(args, "OL", &capsule, &id) == 0) {
        return nullptr;
    }
    const char* bytes = nullptr;
    std::size_t size = 0;
    const bool found = succeeds_with<rueda_data_vocabulary>(capsule, [&](const rueda_data_vocabulary* vocabulary) {
        return rueda_data_vocabulary_term(vocabulary, id, &bytes, &size);
    });
    return found ? python_text({bytes, size}) : nullptr;
}

using GiveBytes = int (*)(const rueda_data_vocabulary*, char**, std::size_t*);

PyObject* bytes_from(PyObject* capsule, GiveBytes give) {
    char* bytes = nullptr;
    std::size_t size = 0;
    const bool given = succeeds_with<rueda_data_vocabulary>(
        capsule, [&](const rueda_data_vocabulary* vocabulary) { return give(vocabulary, &bytes, &size); });
    return given ? take_bytes(bytes, size) : nullptr;
}

/// Argument: the vocabulary. Returns bytes for vocabulary_merge().
PyObject* vocabulary_unmerged(PyObject* /*module*/, PyObject* capsule) {
    return bytes_from(capsule, rueda_data_vocabulary_unmerged);
}

/// Argument: the vocabulary. Returns bytes for vocabulary_restore().
PyObject* vocabulary_state(PyObject* /*module*/, PyObject* capsule) {
    return bytes_from(capsule, rueda_data_vocabulary_state);
}

/// Arguments: (vocabulary, the bytes that vocabulary_unmerged() returned on all ranks). Returns the number of new
/// terms.
PyObject* vocabulary_merge(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    std::int64_t added = 0;
    if (PyArg_ParseTuple(args, "Oy#", &capsule, &bytes, &size) == 0) {
        return nullptr;
    }
    const bool merged = succeeds_with<rueda_data_vocabulary>(capsule, [&](rueda_data_vocabulary* vocabulary) {
        return rueda_data_vocabulary_merge(vocabulary, bytes, static_cast<std::size_t>(size), &added);
    });
    return merged ? PyLong_FromLongLong(added) : nullptr;
}

/// Arguments: (vocabulary, bytes of vocabulary_state())
PyObject* vocabulary_restore(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyArg_ParseTuple(args, "Oy#", &capsule, &bytes, &size) == 0) {
        return nullptr;
    }
    return none_after<rueda_data_vocabulary>(capsule, [&](rueda_data_vocabulary* vocabulary) {
        return rueda_data_vocabulary_restore(vocabulary, bytes, static_cast<std::size_t>(size));
    });
}

/// Arguments: (vocabulary, path as bytes)
PyObject* vocabulary_save(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    const char* path = nullptr;
    if (PyArg_ParseTuple(args, "Oy", &capsule, &path) == 0) {
        return nullptr;
    }
    return none_after<rueda_data_vocabulary>(
        capsule, [&](const rueda_data_vocabulary* vocabulary) { return rueda_data_vocabulary_save(vocabulary, path); });
}

/// Argument: the vocabulary
PyObject* vocabulary_freeze(PyObject* /*module*/, PyObject* capsule) {
    return none_after<rueda_data_vocabulary>(capsule, rueda_data_vocabulary_freeze);
}

/// Arguments: (path as bytes, compression). Returns a capsule.
PyObject* writer_open(PyObject* /*module*/, PyObject* args) {
    const char* path = nullptr;
    const char* compression = nullptr;
    if (PyArg_ParseTuple(args, "ys", &path, &compression) == 0) {
        return nullptr;
    }
    return capsule_from<rueda_data_writer>(
        [&](rueda_data_writer** writer) { return rueda_data_writer_open(path, compression, writer); });
}

/// Arguments: (writer, record as bytes)
PyObject* writer_write(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyArg_ParseTuple(args, "Oy#", &capsule, &bytes, &size) == 0) {
        return nullptr;
    }
    return none_after<rueda_data_writer>(capsule, [&](rueda_data_writer* writer) {
        return rueda_data_writer_write(writer, bytes, static_cast<std::size_t>(size));
    });
}

/// Reads a tuple (name, dtype, width, address, bytes, address of the offsets, number of offsets), the form in which
/// data_next() returns a column.
bool column_in(PyObject* tuple, rueda_data_column& column) {
    const char* name = nullptr;
    int dtype = 0;
    long long width = 0;
    unsigned long long address = 0;
    unsigned long long offsets = 0;
    Py_ssize_t bytes = 0;
    Py_ssize_t offset_count = 0;
    if (tuple == nullptr ||
        PyArg_ParseTuple(tuple, "siLKnKn", &name, &dtype, &width, &address, &bytes, &offsets, &offset_count) == 0) {
        return false;
    }
    column = {name,
              at_address<void>(address),
              static_cast<std::size_t>(bytes),
              at_address<const std::int64_t>(offsets),
              static_cast<std::size_t>(offset_count),
              width,
              dtype};
    return true;
}

/// Arguments: (writer, list of columns, number of samples)
PyObject* writer_write_examples(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* list = nullptr;
    long long rows = 0;
    if (PyArg_ParseTuple(args, "OOL", &capsule, &list, &rows) == 0) {
        return nullptr;
    }
    const Py_ssize_t count = PyList_Size(list);
    if (count < 0) {
        return nullptr;
    }
    // The vector has one element more, so that data() is not null if there are no columns.
    std::vector<rueda_data_column> columns(static_cast<std::size_t>(count) + 1);
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (!column_in(PyList_GetItem(list, i), columns[static_cast<std::size_t>(i)])) {
            return nullptr;
        }
    }
    return none_after<rueda_data_writer>(capsule, [&](rueda_data_writer* writer) {
        return rueda_data_writer_write_examples(writer, columns.data(), static_cast<std::size_t>(count), rows);
    });
}

/// Argument: the writer
PyObject* writer_close(PyObject* /*module*/, PyObject* capsule) {
    return none_after<rueda_data_writer>(capsule, rueda_data_writer_close);
}

PyMethodDef vocabulary_methods[] = {{"data_hash", data_hash, METH_VARARGS, nullptr},
                                    {"vocabulary_open", vocabulary_open, METH_O, nullptr},
                                    {"vocabulary_look_up", vocabulary_look_up, METH_VARARGS, nullptr},
                                    {"vocabulary_describe", vocabulary_describe, METH_O, nullptr},
                                    {"vocabulary_term", vocabulary_term, METH_VARARGS, nullptr},
                                    {"vocabulary_unmerged", vocabulary_unmerged, METH_O, nullptr},
                                    {"vocabulary_merge", vocabulary_merge, METH_VARARGS, nullptr},
                                    {"vocabulary_state", vocabulary_state, METH_O, nullptr},
                                    {"vocabulary_restore", vocabulary_restore, METH_VARARGS, nullptr},
                                    {"vocabulary_save", vocabulary_save, METH_VARARGS, nullptr},
                                    {"vocabulary_freeze", vocabulary_freeze, METH_O, nullptr},
                                    {"writer_open", writer_open, METH_VARARGS, nullptr},
                                    {"writer_write", writer_write, METH_VARARGS, nullptr},
                                    {"writer_write_examples", writer_write_examples, METH_VARARGS, nullptr},
                                    {"writer_close", writer_close, METH_O, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* vocabulary_functions() { return vocabulary_methods; }

bool vocabularies_in(PyObject* list, std::vector<rueda_data_vocabulary*>& into) {
    const Py_ssize_t count = PyList_Size(list);
    for (Py_ssize_t i = 0; i < count; ++i) {
        into.push_back(held_in<rueda_data_vocabulary>(PyList_GetItem(list, i)));
        if (into.back() == nullptr) {
            return false;
        }
    }
    return count >= 0;
}

}  // namespace rueda::python
