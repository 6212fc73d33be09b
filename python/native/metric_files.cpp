// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/metric_files.hpp"

#include <vector>

#include "python/native/capsule.hpp"
#include "rueda/metric_files.h"

namespace rueda::python {

template <>
struct Held<rueda_metric_files> {
    static constexpr const char* kName = "rueda.metric_files";
    static void free(rueda_metric_files* files) { rueda_metric_files_release(files); }
};

namespace {

/// Arguments: (folder as bytes, formats such as "csv,jsonl", first step). Returns a capsule.
PyObject* metrics_open(PyObject* /*module*/, PyObject* args) {
    const char* folder = nullptr;
    const char* formats = nullptr;
    long long first_step = 0;
    if (PyArg_ParseTuple(args, "ysL", &folder, &formats, &first_step) == 0) {
        return nullptr;
    }
    return capsule_from<rueda_metric_files>(
        [&](rueda_metric_files** files) { return rueda_metric_files_open(folder, formats, first_step, files); });
}

/// Arguments: (files, step, list of tuples (name, value))
PyObject* metrics_write(PyObject* /*module*/, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* list = nullptr;
    long long step = 0;
    if (PyArg_ParseTuple(args, "OLO", &capsule, &step, &list) == 0) {
        return nullptr;
    }
    std::vector<const char*> names;
    std::vector<double> values;
    const Py_ssize_t count = PyList_Size(list);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const entry = PyList_GetItem(list, i);
        if (entry == nullptr || PyArg_ParseTuple(entry, "sd", &names.emplace_back(), &values.emplace_back()) == 0) {
            return nullptr;
        }
    }
    return count < 0 ? nullptr : none_after<rueda_metric_files>(capsule, [&](rueda_metric_files* files) {
        return rueda_metric_files_write(files, step, names.data(), values.data(), names.size());
    });
}

/// Argument: the files
PyObject* metrics_close(PyObject* /*module*/, PyObject* capsule) {
    return none_after<rueda_metric_files>(capsule, rueda_metric_files_close);
}

PyMethodDef metric_methods[] = {{"metrics_open", metrics_open, METH_VARARGS, nullptr},
                                {"metrics_write", metrics_write, METH_VARARGS, nullptr},
                                {"metrics_close", metrics_close, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* metric_functions() { return metric_methods; }

}  // namespace rueda::python
