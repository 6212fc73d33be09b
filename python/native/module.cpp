// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The module rueda._native, which makes librueda's C interface available in Python. The functions that users call are
// in python/rueda.
#include <cstdlib>
#include <vector>

#include "python/native/borrowed_tensor.hpp"
#include "python/native/call_site.hpp"
#include "python/native/callback_scope.hpp"
#include "python/native/checkpoints.hpp"
#include "python/native/data.hpp"
#include "python/native/errors.hpp"
#include "python/native/handle.hpp"
#include "python/native/in_flight.hpp"
#include "python/native/integers.hpp"
#include "python/native/memory.hpp"
#include "python/native/metric_files.hpp"
#include "python/native/operations.hpp"
#include "python/native/slot.hpp"
#include "python/native/tensor_view.hpp"
#include "python/native/torch_tensor.hpp"
#include "python/native/vocabulary.hpp"
#include "python/native/worker_data.hpp"
#include "rueda/elastic.h"
#include "rueda/rueda.h"

namespace rueda::python {
namespace {

PyObject* none_or_error(int status) {
    if (status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Reads a list of ranks. On failure, returns false with a Python error set.
bool read_ranks(PyObject* list, std::vector<std::int32_t>& ranks) {
    for (Py_ssize_t i = 0, count = PyList_Size(list); i < count; ++i) {
        if (!read_int32(PyList_GetItem(list, i), "a rank of the list", ranks.emplace_back())) {
            return false;
        }
    }
    return PyErr_Occurred() == nullptr;
}

/// Joins the job. `process_sets` is a list of lists of int: the ranks of each process set. Returns the numbers of the
/// sets; on failure, null with an error set.
PyObject* init_with(rueda_init_options options, PyObject* process_sets) {
    const Py_ssize_t given = PyList_Size(process_sets);
    if (given < 0) {
        return nullptr;
    }
    const auto count = static_cast<std::size_t>(given);
    std::vector<std::vector<std::int32_t>> ranks(count);
    std::vector<rueda_rank_list> lists;
    for (std::size_t i = 0; i < count; ++i) {
        if (!read_ranks(PyList_GetItem(process_sets, static_cast<Py_ssize_t>(i)), ranks[i])) {
            return nullptr;
        }
        lists.push_back({ranks[i].data(), ranks[i].size()});
    }
    std::vector<std::int32_t> ids(count);
    options.process_sets = lists.data();
    options.process_set_count = count;
    options.process_set_ids = ids.data();
    int status = RUEDA_OK;
    {
        const WithoutGil released;
        status = rueda_init_with(&options);
    }
    note_if_call_sites_are_wanted();
    if (status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    Ref numbers = Ref::taken(PyList_New(given));
    for (std::size_t i = 0; numbers && i < count; ++i) {
        PyObject* const number = PyLong_FromLong(ids[i]);
        if (number == nullptr || PyList_SetItem(numbers.borrow(), static_cast<Py_ssize_t>(i), number) != 0) {
            return nullptr;
        }
    }
    return numbers.release();
}

/// Arguments: (ranks or None for all, process_sets)
PyObject* init(PyObject* /*module*/, PyObject* const* given, Py_ssize_t count) {
    if (!may_wait()) {
        return nullptr;
    }
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "init: %zd arguments; expected 2", count);
        return nullptr;
    }
    rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
    std::vector<std::int32_t> ranks;
    if (given[0] != Py_None) {
        if (!read_ranks(given[0], ranks)) {
            return nullptr;
        }
        options.ranks = ranks.data();
        options.rank_count = ranks.size();
    }
    return init_with(options, given[1]);
}

/// Arguments: the address of an MPI_Comm, and its size in bytes. The caller still owns the communicator.
PyObject* init_communicator(PyObject* /*module*/, PyObject* const* given, Py_ssize_t count) {
    if (!may_wait()) {
        return nullptr;
    }
    if (count != 3) {
        PyErr_Format(PyExc_TypeError, "init_communicator: %zd arguments; expected 3", count);
        return nullptr;
    }
    rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
    options.communicator = PyLong_AsVoidPtr(given[0]);
    options.communicator_size = PyErr_Occurred() == nullptr ? PyLong_AsSize_t(given[1]) : 0;
    return PyErr_Occurred() == nullptr ? init_with(options, given[2]) : nullptr;
}

/// Waits for the other ranks in short intervals, so that Python's signal handlers (for Ctrl-C) can run in between. If a
/// handler raises an exception, this rank's shutdown is not complete, and the next call continues it.
PyObject* shutdown(PyObject* /*module*/, PyObject* /*unused*/) {
    if (!may_wait()) {
        return nullptr;
    }
    for (;;) {
        int status = RUEDA_OK;
        {
            const WithoutGil released;
            status = rueda_shutdown_within(kSignalSlice);
        }
        if (status != RUEDA_TIMEOUT) {
            forget_ended(/*all=*/true);
            return none_or_error(status);
        }
        if (PyErr_CheckSignals() != 0) {
            return nullptr;
        }
    }
}

/// Makes the process end with a status other than 0. It is needed at the end of the interpreter. Without it, the
/// interpreter would end with status 0 even if one of its last handlers raised an exception.
PyObject* end_with_failure(PyObject* /*module*/, PyObject* /*unused*/) {
    const auto fail = [](int exit_status, void* /*unused*/) {
        if (exit_status == 0) {
            // This function runs inside exit(), and calls exit() again. glibc then uses the status of the second call
            // (see core/c_interface/initialise.cpp).
            std::exit(1);
        }
    };
    ::on_exit(fail, nullptr);
    Py_RETURN_NONE;
}

PyObject* is_initialized(PyObject* /*module*/, PyObject* /*unused*/) { return PyBool_FromLong(rueda_initialized()); }

template <int (*read)(int*)>
PyObject* number(PyObject* /*module*/, PyObject* /*unused*/) {
    int value = 0;
    if (const int status = read(&value); status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    return PyLong_FromLong(value);
}

/// Releases the GIL, because the search for the GPUs may take a second.
PyObject* local_device(PyObject* /*module*/, PyObject* /*unused*/) {
    int index = 0;
    int status = RUEDA_OK;
    {
        const WithoutGil released;
        status = rueda_local_device(&index);
    }
    if (status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    return PyLong_FromLong(index);
}

/// Checks that an operation could write to the tensor. If not, raises the error that the operation would raise.
PyObject* check_writable(PyObject* /*module*/, PyObject* tensor) {
    BorrowedTensor borrowed;
    return borrowed.borrow(tensor, /*writable=*/true) ? Ref::to(Py_None).release() : nullptr;
}

PyObject* is_elastic(PyObject* /*module*/, PyObject* /*unused*/) { return PyBool_FromLong(rueda_is_elastic()); }

/// Argument: the name of a variable. Returns its value in the environment of the C library, or None. os.environ does
/// not show the variables that init() has changed.
PyObject* environment_value(PyObject* /*module*/, PyObject* name) {
    const char* const text = PyUnicode_AsUTF8AndSize(name, nullptr);
    if (text == nullptr) {
        return nullptr;
    }
    const char* const value = std::getenv(text);  // NOLINT(concurrency-mt-unsafe): this thread holds the GIL
    if (value == nullptr) {
        Py_RETURN_NONE;
    }
    return PyUnicode_DecodeFSDefault(value);
}

PyObject* take_slot_changes(PyObject* /*module*/, PyObject* /*unused*/) {
    std::int32_t changes = 0;
    const int status = rueda_take_slot_changes(&changes);
    return status == RUEDA_OK ? PyLong_FromLong(changes) : none_or_error(status);
}

PyObject* begin_step(PyObject* /*module*/, PyObject* step) {
    const long long number = PyLong_AsLongLong(step);
    return number == -1 && PyErr_Occurred() != nullptr ? nullptr : none_or_error(rueda_begin_step(number));
}

PyObject* blocked_seconds(PyObject* /*module*/, PyObject* /*unused*/) {
    double seconds = 0;
    if (const int status = rueda_blocked_seconds(&seconds); status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    return PyFloat_FromDouble(seconds);
}

/// Returns the text of rueda_metrics(), which the Python function parses.
PyObject* metrics(PyObject* /*module*/, PyObject* /*unused*/) {
    std::vector<char> text;
    for (std::size_t bytes = 4096;;) {
        text.resize(bytes);
        if (const int status = rueda_metrics(text.data(), text.size(), &bytes); status != RUEDA_OK) {
            raise_last(status);
            return nullptr;
        }
        if (bytes <= text.size()) {
            return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(bytes - 1));
        }
    }
}

PyObject* is_homogeneous(PyObject* /*module*/, PyObject* /*unused*/) {
    int value = 0;
    if (const int status = rueda_is_homogeneous(&value); status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    return PyBool_FromLong(value);
}

PyObject* abort_job(PyObject* /*module*/, PyObject* reason) {
    const char* const text = PyUnicode_AsUTF8AndSize(reason, nullptr);
    return text == nullptr ? nullptr : none_or_error(rueda_abort(text));
}

PyObject* busy_begin(PyObject* /*module*/, PyObject* what) {
    const char* const text = PyUnicode_AsUTF8AndSize(what, nullptr);
    return text == nullptr ? nullptr : none_or_error(rueda_busy_begin(text));
}

PyObject* busy_end(PyObject* /*module*/, PyObject* /*unused*/) { return none_or_error(rueda_busy_end()); }

/// Arguments: (path as bytes, mark_cycles). The function releases the GIL, because opening the file may take long.
PyObject* timeline_start(PyObject* /*module*/, PyObject* args) {
    PyObject* path = nullptr;
    int mark_cycles = 0;
    char* text = nullptr;
    if (PyArg_ParseTuple(args, "Op", &path, &mark_cycles) == 0 ||
        PyBytes_AsStringAndSize(path, &text, nullptr) != 0) {  // this call fails for a path that contains a zero byte
        return nullptr;
    }
    int status = RUEDA_OK;
    {
        const WithoutGil released;
        status = rueda_timeline_start(text, mark_cycles);
    }
    return none_or_error(status);
}

PyObject* timeline_stop(PyObject* /*module*/, PyObject* /*unused*/) {
    int status = RUEDA_OK;
    {
        const WithoutGil released;
        status = rueda_timeline_stop();
    }
    return none_or_error(status);
}

/// Arguments: (name, began_ns)
PyObject* timeline_scope(PyObject* /*module*/, PyObject* args) {
    PyObject* name = nullptr;
    long long began_ns = 0;
    if (PyArg_ParseTuple(args, "UL", &name, &began_ns) == 0) {
        return nullptr;
    }
    const char* const text = PyUnicode_AsUTF8AndSize(name, nullptr);
    return text == nullptr ? nullptr : none_or_error(rueda_timeline_scope(text, began_ns));
}

PyObject* stack_signal(PyObject* /*module*/, PyObject* /*unused*/) {
    std::int32_t value = 0;
    const int status = rueda_stack_signal(&value);
    return status == RUEDA_OK ? PyLong_FromLong(value) : none_or_error(status);
}

PyObject* adopt_traceback_handler(PyObject* /*module*/, PyObject* given) {
    std::int32_t descriptor = -1;
    return read_int32(given, "the descriptor", descriptor) ? none_or_error(rueda_adopt_traceback_handler(descriptor))
                                                           : nullptr;
}

/// Argument: a list of ranks (a list of int). Makes a process set by `add`, a function of the C interface, and returns
/// the set's number. Blocks until all ranks that must take part have made this call.
template <int (*add)(const std::int32_t*, std::size_t, std::int32_t*)>
PyObject* process_set_add(PyObject* /*module*/, PyObject* given) {
    std::vector<std::int32_t> ranks;
    if (!may_wait() || !read_ranks(given, ranks)) {
        return nullptr;
    }
    int status = RUEDA_OK;
    std::int32_t number = 0;
    {
        const WithoutGil released;
        status = add(ranks.data(), ranks.size(), &number);
    }
    if (status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    return PyLong_FromLong(number);
}

template <int (*end)(std::int32_t)>
PyObject* process_set_end(PyObject* /*module*/, PyObject* given) {
    std::int32_t number = 0;
    if (!may_wait() || !read_int32(given, "the number of the process set", number)) {
        return nullptr;
    }
    int status = RUEDA_OK;
    {
        const WithoutGil released;
        status = end(number);
    }
    return none_or_error(status);
}

/// Argument: the number of a process set. Returns the set's ranks.
PyObject* process_set_ranks(PyObject* /*module*/, PyObject* given) {
    std::int32_t number = 0;
    if (!read_int32(given, "the number of the process set", number)) {
        return nullptr;
    }
    std::size_t count = 0;
    int status = rueda_process_set_ranks(number, nullptr, 0, &count);
    std::vector<std::int32_t> ranks(count);
    if (status == RUEDA_OK) {
        status = rueda_process_set_ranks(number, ranks.data(), ranks.size(), &count);
    }
    if (status != RUEDA_OK) {
        raise_last(status);
        return nullptr;
    }
    PyObject* const list = PyList_New(static_cast<Py_ssize_t>(ranks.size()));
    for (std::size_t i = 0; list != nullptr && i < ranks.size(); ++i) {
        PyList_SetItem(list, static_cast<Py_ssize_t>(i), PyLong_FromLong(ranks[i]));
    }
    return list;
}

bool add_type(PyObject* module, const char* name, PyObject* type) {
    // If PyModule_AddObject succeeds, the module owns the reference to `type`.
    return type != nullptr && PyModule_AddObject(module, name, type) == 0;
}

bool fill(PyObject* module) {
    return PyModule_AddFunctions(module, operation_functions()) == 0 &&
           PyModule_AddFunctions(module, checkpoint_functions()) == 0 &&
           PyModule_AddFunctions(module, data_functions()) == 0 &&
           PyModule_AddFunctions(module, metric_functions()) == 0 &&
           PyModule_AddFunctions(module, vocabulary_functions()) == 0 &&
           PyModule_AddFunctions(module, worker_data_functions()) == 0 &&
           add_type(module, "Handle", make_handle_type()) && add_type(module, "Memory", make_memory_type()) &&
           add_type(module, "TensorSlot", make_slot_type()) &&
           add_type(module, "TensorView", make_tensor_view_type()) &&
           PyModule_AddStringConstant(module, "version", rueda_version()) == 0;
}

PyMethodDef functions[] = {
    {"set_hooks", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&set_hooks)), METH_FASTCALL, nullptr},
    {"set_torch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&set_torch)), METH_FASTCALL, nullptr},
    {"init", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&init)), METH_FASTCALL, nullptr},
    {"init_communicator", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&init_communicator)),
     METH_FASTCALL, nullptr},
    {"shutdown", shutdown, METH_NOARGS, nullptr},
    {"end_with_failure", end_with_failure, METH_NOARGS, nullptr},
    {"is_initialized", is_initialized, METH_NOARGS,
     "is_initialized()\n--\n\nWhether this process is in a job: between init() and shutdown().\n\n"
     "Example::\n\n    assert rueda.is_initialized()\n"},
    {"rank", number<rueda_rank>, METH_NOARGS,
     "rank()\n--\n\nThe number of this process among all, from 0.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    if rueda.rank() == 0:\n        save(model)\n"},
    {"size", number<rueda_size>, METH_NOARGS,
     "size()\n--\n\nHow many processes there are.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    learning_rate *= rueda.size()\n"},
    {"local_rank", number<rueda_local_rank>, METH_NOARGS,
     "local_rank()\n--\n\nThe number of this process among those of its machine, from 0.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    device = rueda.local_rank()\n"},
    {"local_device", local_device, METH_NOARGS,
     "local_device()\n--\n\nThe number of the CUDA device that this process should use.\n\n"
     "If the launcher gives each process GPUs of its own, it is 0; otherwise it is local_rank(). docs/gpu.md has the\n"
     "whole rule. The call creates no CUDA context, so the process may still fork. It may take a second.\n\n"
     "Raises:\n    NotInitialized: before init().\n"
     "    Unsupported: this process may use no GPU.\n"
     "    InvalidArgument: this machine has more processes than GPUs, and RUEDA_SHARE_GPU is not set.\n\n"
     "Example::\n\n    torch.cuda.set_device(rueda.local_device())\n"},
    {"local_size", number<rueda_local_size>, METH_NOARGS,
     "local_size()\n--\n\nHow many processes this machine has.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    threads = os.cpu_count() // rueda.local_size()\n"},
    {"threads_per_rank", number<rueda_threads_per_rank>, METH_NOARGS,
     "threads_per_rank()\n--\n\nWith how many threads this process should compute.\n\n"
     "It is the number of cores that the processes of this machine may use, divided by the number of these processes.\n"
     "Affinity masks and CPU quotas count. rueda.training.use_cores() sets this number.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    torch.set_num_threads(rueda.threads_per_rank())\n"},
    {"cross_rank", number<rueda_cross_rank>, METH_NOARGS,
     "cross_rank()\n--\n\nThe position of this process among those of the same local rank.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    machine = rueda.cross_rank()\n"},
    {"cross_size", number<rueda_cross_size>, METH_NOARGS,
     "cross_size()\n--\n\nHow many processes have the same local rank.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    machines = rueda.cross_size()  # for local rank 0\n"},
    {"is_homogeneous", is_homogeneous, METH_NOARGS,
     "is_homogeneous()\n--\n\nWhether every host has the same number of ranks.\n\n"
     "Raises:\n    NotInitialized: before init().\n\n"
     "Example::\n\n    if not rueda.is_homogeneous():\n        print(\"some hosts have more ranks than others\")\n"},
    {"allocate", allocate, METH_O, nullptr},
    {"view_of_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&view_of_dlpack)), METH_FASTCALL,
     nullptr},
    {"process_set_add", process_set_add<&rueda_process_set_add>, METH_O, nullptr},
    {"process_set_remove", process_set_end<&rueda_process_set_remove>, METH_O, nullptr},
    {"process_set_add_among", process_set_add<&rueda_process_set_add_among>, METH_O, nullptr},
    {"process_set_leave", process_set_end<&rueda_process_set_leave>, METH_O, nullptr},
    {"process_set_ranks", process_set_ranks, METH_O, nullptr},
    {"abort", abort_job, METH_O, nullptr},
    {"check_writable", check_writable, METH_O, nullptr},
    {"begin_step", begin_step, METH_O, nullptr},
    {"environment_value", environment_value, METH_O, nullptr},
    {"is_elastic", is_elastic, METH_NOARGS, nullptr},
    {"take_slot_changes", take_slot_changes, METH_NOARGS, nullptr},
    {"busy_begin", busy_begin, METH_O, nullptr},
    {"busy_end", busy_end, METH_NOARGS, nullptr},
    {"metrics", metrics, METH_NOARGS, nullptr},
    {"blocked_seconds", blocked_seconds, METH_NOARGS,
     "blocked_seconds()\n--\n\nHow many seconds threads of this process were blocked in Rueda's operations since "
     "the first\ninit().\n\n"
     "Waiting for the handle of an asynchronous operation counts. The time in which the operation runs beside the\n"
     "program does not count. Times of several threads are added.\n\n"
     "Raises:\n    NotInitialized: before init() and after shutdown().\n\n"
     "Example::\n\n    before = rueda.blocked_seconds()\n    train(step)\n"
     "    print(rueda.blocked_seconds() - before, \"s of this step were communication\")\n"},
    {"timeline_start", timeline_start, METH_VARARGS, nullptr},
    {"timeline_stop", timeline_stop, METH_NOARGS, nullptr},
    {"timeline_scope", timeline_scope, METH_VARARGS, nullptr},
    {"stack_signal", stack_signal, METH_NOARGS, nullptr},
    {"adopt_traceback_handler", adopt_traceback_handler, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "rueda._native", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace rueda::python

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name that Python looks for
PyMODINIT_FUNC PyInit__native() {
    PyObject* const module = PyModule_Create(&rueda::python::definition);
    if (module != nullptr && !rueda::python::fill(module)) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
