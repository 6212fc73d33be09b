// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/operations.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/native/call_site.hpp"
#include "python/native/callback_scope.hpp"
#include "python/native/errors.hpp"
#include "python/native/handle.hpp"
#include "python/native/in_flight.hpp"
#include "python/native/integers.hpp"
#include "python/native/slot.hpp"

namespace rueda::python {
namespace {

using Operation = std::unique_ptr<InFlight>;
/// The arguments of a call. All are positional. Only grouped_reducescatter_async() has an argument that may be missing.
using Arguments = PyObject* const*;

/// For how many seconds a blocking call waits when it starts its operation. Most operations end within this time.
/// During this time, no signal handler of Python runs, and no timeout of a wait takes effect.
constexpr double kWaitAtStart = 0.001;
/// The value of rueda_options::wait_seconds for the next operation of this thread. See start_to_wait().
thread_local double wait_of_next = 0;

/// The name and the options of a call.
struct Call {
    const char* name = nullptr;
    rueda_options options = RUEDA_OPTIONS_INIT;

    Call() {
        options.wait_seconds = std::exchange(wait_of_next, 0.0);
        if (call_sites_are_wanted()) {
            const CallSite site = calling_site();
            options.source_file = site.file;
            options.source_line = site.line;
        }
    }
    /// Reads a name (a str, a TensorSlot or None). On failure, returns false with a Python error set.
    [[nodiscard]] bool read_name(PyObject* given) {
        options.slot = slot_of(given);
        if (options.slot != nullptr || given == Py_None) {
            return true;
        }
        if (PyUnicode_Check(given) == 0) {
            PyErr_Format(PyExc_TypeError, "name is %R; expected a str, a rueda.TensorSlot or None", given);
            return false;
        }
        name = text_of_name(given);
        return name != nullptr;
    }
    [[nodiscard]] bool read_set(PyObject* given) {
        return read_int32(given, "the number of the process set", options.process_set);
    }
    /// Reads the options from the arguments (op, prescale_factor, postscale_factor).
    [[nodiscard]] bool read_reduction(Arguments given) {
        return read_int32(given[0], "op", options.reduce_op) &&
               read_double(given[1], "prescale_factor", options.prescale) &&
               read_double(given[2], "postscale_factor", options.postscale);
    }
    [[nodiscard]] bool read_compression(PyObject* given) {
        return read_int32(given, "compression", options.compression);
    }
};

bool has_arguments(const char* function, Py_ssize_t count, Py_ssize_t expected) {
    if (count != expected) {
        PyErr_Format(PyExc_TypeError, "%s: %zd arguments; expected %zd", function, count, expected);
    }
    return count == expected;
}

/// The device of tensors that are in the CPU's memory and contain the numbers of rows of tensors on a GPU. Its index is
/// special: if another rank calls the operation with an ordinary tensor of the CPU, the devices of the ranks differ,
/// and the ranks report a Mismatch. core/operations/requests.cpp uses the same index.
constexpr rueda_device_stream kRowsOfGpu{RUEDA_CPU, std::numeric_limits<std::int32_t>::min(), nullptr};

Operation new_operation(PyObject* name, PyObject* result, bool makes_result) {
    forget_ended(/*all=*/false);
    auto operation = std::make_unique<InFlight>();
    operation->name = Ref::to(name);
    operation->result = Ref::to(result);
    operation->makes_result = makes_result;
    return operation;
}

std::string place_of(const rueda_device_stream& device) {
    return device.type == RUEDA_CPU ? "in the CPU's memory" : "on CUDA device " + std::to_string(device.index);
}

/// Takes the device of a call from its tensors. `is_first` says whether this is the call's first tensor. Returns false,
/// with a Python error set, if the tensor is not on the same device and stream as the tensors before it.
bool take_device(Call& call, InFlight& operation, const BorrowedTensor& tensor, bool is_first) {
    rueda_device_stream& own = operation.device;
    const rueda_device_stream& other = tensor.device();
    if (own.type == RUEDA_CPU && other.type == RUEDA_CPU) [[likely]] {
        return true;
    }
    if (is_first) {
        own = other;
        call.options.device = &own;
        call.options.wait_seconds = 0;  // the caller will not wait for the GPU, but only for the launch
        return true;
    }
    if (own.type == other.type && own.index == other.index && own.stream == other.stream) {
        return true;
    }
    const bool is_same_device = own.type == other.type && own.index == other.index;
    raise(RUEDA_INVALID_ARGUMENT,
          is_same_device ? "the tensors of the call are ready on different streams of CUDA device " +
                               std::to_string(own.index) + ": give tensors of one stream"
                         : "one tensor of the call is " + place_of(own) + ", and another is " + place_of(other) +
                               "; expected one device: move the tensors there, or use a call for each device");
    return false;
}

/// Borrows the input and the output of `operation`. If both are the same object, the operation is in place.
bool borrow(Call& call, InFlight& operation, PyObject* input, PyObject* output) {
    const bool has_output = input != output && output != Py_None;
    return operation.input.borrow(input, /*writable=*/input == output) &&
           take_device(call, operation, operation.input, /*is_first=*/true) &&
           (!has_output || (operation.output.borrow(output, /*writable=*/true) &&
                            take_device(call, operation, operation.output, /*is_first=*/false)));
}

/// Returns the output of an operation after borrow(). If the operation is in place, this is the input.
const rueda_tensor& output_of(const InFlight& operation, PyObject* input, PyObject* output) {
    return input == output ? operation.input.tensor() : operation.output.tensor();
}

/// Stores the handle that the C function returned. If the operation was not started, returns false with a Python error
/// set.
bool has_started(InFlight& operation, int status, rueda_handle* handle) {
    if (status != RUEDA_OK) {
        raise_last(status);
        return false;
    }
    operation.handle = SharedHandle(handle, &rueda_handle_release);
    forget_ended_join();
    return true;
}

/// Starts the operation by `start`, which calls a function of the C interface, and makes the Python handle.
template <class Start>
PyObject* finish_call(Operation& operation, const Call& call, Start&& start) {
    const bool waits = call.options.wait_seconds > 0;
    rueda_handle* handle = nullptr;
    int status = RUEDA_OK;
    int ended = 0;
    if (waits) {
        const WithoutGil without_gil;
        status = start(&handle);
        if (status == RUEDA_OK) {
            static_cast<void>(rueda_poll(handle, &ended));  // makes some progress if the operation is still pending
        }
    } else {
        status = start(&handle);
    }
    if (!has_started(*operation, status, handle)) {
        return nullptr;
    }
    if (ended == 1) {
        operation->remember_end();
    }
    return new_handle(std::move(operation));
}

/// Arguments: (input, output, name, op, prescale_factor, postscale_factor, result, process_set, compression)
PyObject* allreduce_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("allreduce_async", count, 9) || !call.read_name(given[2]) || !call.read_set(given[7]) ||
        !call.read_reduction(given + 3) || !call.read_compression(given[8])) {
        return nullptr;
    }
    Operation operation = new_operation(given[2], given[6], /*makes_result=*/false);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_allreduce_async(call.name, &operation->input.tensor(), &output_of(*operation, given[0], given[1]),
                                     &call.options, handle);
    });
}

/// Borrows every tensor of both lists. On failure, returns false with a Python error set, which says which tensor is
/// wrong.
bool borrow_all(Call& call, InFlight& operation, PyObject* inputs, PyObject* outputs, std::vector<rueda_tensor>& in,
                std::vector<rueda_tensor>& out) {
    const auto count = static_cast<std::size_t>(PyList_Size(inputs));
    if (PyErr_Occurred() != nullptr || PyList_Size(outputs) != static_cast<Py_ssize_t>(count)) {
        PyErr_SetString(PyExc_TypeError, "a group's inputs and outputs are two lists of the same length");
        return false;
    }
    operation.group = std::vector<BorrowedTensor>(2 * count);
    for (std::size_t i = 0; i < count; ++i) {
        PyObject* const input = PyList_GetItem(inputs, static_cast<Py_ssize_t>(i));
        PyObject* const output = PyList_GetItem(outputs, static_cast<Py_ssize_t>(i));
        BorrowedTensor& first = operation.group[i];
        BorrowedTensor& second = operation.group[count + i];
        if (!first.borrow(input, /*writable=*/input == output) ||
            !take_device(call, operation, first, /*is_first=*/i == 0) ||
            (input != output && (!second.borrow(output, /*writable=*/true) ||
                                 !take_device(call, operation, second, /*is_first=*/false)))) {
            return false;
        }
        in.push_back(first.tensor());
        out.push_back(input == output ? first.tensor() : second.tensor());
    }
    return true;
}

/// Arguments: (inputs, outputs, name, op, prescale_factor, postscale_factor, result, process_set, compression)
PyObject* grouped_allreduce_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("grouped_allreduce_async", count, 9) || !call.read_name(given[2]) || !call.read_set(given[7]) ||
        !call.read_reduction(given + 3) || !call.read_compression(given[8])) {
        return nullptr;
    }
    Operation operation = new_operation(given[2], given[6], /*makes_result=*/false);
    std::vector<rueda_tensor> in;
    std::vector<rueda_tensor> out;
    if (!borrow_all(call, *operation, given[0], given[1], in, out)) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_grouped_allreduce_async(call.name, in.size(), in.data(), out.data(), &call.options, handle);
    });
}

/// Borrows every tensor of the list. On failure, returns false with a Python error set, which says which tensor is
/// wrong.
bool borrow_inputs(Call& call, InFlight& operation, PyObject* inputs, std::vector<rueda_tensor>& in) {
    const auto count = static_cast<std::size_t>(PyList_Size(inputs));
    if (PyErr_Occurred() != nullptr) {
        return false;
    }
    operation.group = std::vector<BorrowedTensor>(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (!operation.group[i].borrow(PyList_GetItem(inputs, static_cast<Py_ssize_t>(i)), /*writable=*/false) ||
            !take_device(call, operation, operation.group[i], /*is_first=*/i == 0)) {
            return false;
        }
        in.push_back(operation.group[i].tensor());
    }
    operation.group_outputs = count;
    return true;
}

/// Arguments: (inputs, name, result, process_set). Rueda allocates the outputs, and the function `result` makes the
/// caller's result from them. If `is_exchange` is true, the inputs contain the numbers of rows of tensors on a GPU.
template <bool is_exchange>
PyObject* grouped_allgather_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("grouped_allgather_async", count, 4) || !call.read_name(given[1]) || !call.read_set(given[3])) {
        return nullptr;
    }
    Operation operation = new_operation(given[1], given[2], /*makes_result=*/true);
    std::vector<rueda_tensor> in;
    if (!borrow_inputs(call, *operation, given[0], in)) {
        return nullptr;
    }
    if (is_exchange) {
        call.options.device = &kRowsOfGpu;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_grouped_allgather_async(call.name, in.size(), in.data(), &call.options, handle);
    });
}

/// Arguments: ([indices, values], shape, name, op, result, process_set). `shape` is a list of int.
PyObject* sparse_allreduce_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("sparse_allreduce_async", count, 6) || !call.read_name(given[2]) || !call.read_set(given[5]) ||
        !read_int32(given[3], "op", call.options.reduce_op)) {
        return nullptr;
    }
    std::vector<std::int64_t> shape;
    for (Py_ssize_t i = 0, extents = PyList_Size(given[1]); i < extents; ++i) {
        shape.push_back(PyLong_AsLongLong(PyList_GetItem(given[1], i)));
    }
    Operation operation = new_operation(given[2], given[4], /*makes_result=*/true);
    std::vector<rueda_tensor> in;
    if (PyErr_Occurred() != nullptr || !borrow_inputs(call, *operation, given[0], in)) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_sparse_allreduce_async(call.name, in.data(), in.data() + 1, shape.data(),
                                            static_cast<std::int32_t>(shape.size()), &call.options, handle);
    });
}

/// Arguments: (inputs, name, op, prescale_factor, postscale_factor, result, process_set[, outputs]). Without outputs,
/// Rueda allocates them, and the function `result` makes the caller's result from them.
PyObject* grouped_reducescatter_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    const bool has_outputs = count == 8;
    if ((!has_outputs && !has_arguments("grouped_reducescatter_async", count, 7)) || !call.read_name(given[1]) ||
        !call.read_set(given[6]) || !call.read_reduction(given + 2)) {
        return nullptr;
    }
    Operation operation = new_operation(given[1], given[5], /*makes_result=*/!has_outputs);
    std::vector<rueda_tensor> in;
    std::vector<rueda_tensor> out;
    if (has_outputs ? !borrow_all(call, *operation, given[0], given[7], in, out)
                    : !borrow_inputs(call, *operation, given[0], in)) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_grouped_reducescatter_async(call.name, in.size(), in.data(), has_outputs ? out.data() : nullptr,
                                                 &call.options, handle);
    });
}

/// Arguments: (input, output, root_rank, name, result, process_set)
PyObject* broadcast_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("broadcast_async", count, 6) || !call.read_name(given[3]) || !call.read_set(given[5])) {
        return nullptr;
    }
    std::int32_t root = 0;
    if (!read_int32(given[2], "root_rank", root)) {
        return nullptr;
    }
    Operation operation = new_operation(given[3], given[4], /*makes_result=*/false);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_broadcast_async(call.name, &operation->input.tensor(), &output_of(*operation, given[0], given[1]),
                                     root, &call.options, handle);
    });
}

/// Arguments: (input, output or None, name, result, process_set). Without an output, Rueda allocates the memory, and
/// the function `result` makes the caller's array from it. If `is_exchange` is true, the input contains the numbers of
/// rows of tensors on a GPU.
template <bool is_exchange>
PyObject* allgather_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("allgather_async", count, 5) || !call.read_name(given[2]) || !call.read_set(given[4])) {
        return nullptr;
    }
    const bool makes_result = given[1] == Py_None;
    Operation operation = new_operation(given[2], given[3], makes_result);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    if (is_exchange) {
        call.options.device = &kRowsOfGpu;
    }
    const rueda_tensor& input = operation->input.tensor();
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return makes_result ? rueda_allgather_async(call.name, &input, &call.options, handle)
                            : rueda_allgather_into_async(call.name, &input, &output_of(*operation, given[0], given[1]),
                                                         &call.options, handle);
    });
}

/// Arguments: (input, output or None, name, op, prescale_factor, postscale_factor, result, process_set)
PyObject* reducescatter_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("reducescatter_async", count, 8) || !call.read_name(given[2]) || !call.read_set(given[7]) ||
        !call.read_reduction(given + 3)) {
        return nullptr;
    }
    const bool makes_result = given[1] == Py_None;
    Operation operation = new_operation(given[2], given[6], makes_result);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_reducescatter_async(call.name, &operation->input.tensor(),
                                         makes_result ? nullptr : &output_of(*operation, given[0], given[1]),
                                         &call.options, handle);
    });
}

/// Reads a list of row counts. On failure, returns false with a Python error set.
bool read_splits(PyObject* given, std::vector<std::int64_t>& splits) {
    const Ref list = Ref::taken(PySequence_List(given));
    for (Py_ssize_t i = 0; list && i < PyList_Size(list.borrow()); ++i) {
        PyObject* const rows = PyList_GetItem(list.borrow(), i);
        // PyNumber_AsSsize_t() accepts NumPy's integers too, but no floats.
        splits.push_back(PyNumber_AsSsize_t(rows, PyExc_OverflowError));
        if (PyErr_Occurred() != nullptr) {
            if (PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
                PyErr_Format(PyExc_TypeError, "splits[%zd] is %R, %R; expected a whole number of rows", i, rows,
                             Py_TYPE(rows));
            }
            return false;
        }
    }
    return static_cast<bool>(list);
}

/// Converts the splits for the C interface. None becomes NULL, which means equal splits. An empty list must not become
/// NULL, because the C interface reports it as an error.
const std::int64_t* rows_of(PyObject* given, const std::vector<std::int64_t>& splits) {
    static constexpr std::int64_t kNone = 0;
    return given == Py_None ? nullptr : splits.empty() ? &kNone : splits.data();
}

/// Arguments: (input, output or None, splits or None, name, result, process_set). The function `result` is always
/// called, because it also returns the received splits. If `is_exchange` is true, the input contains the numbers of
/// rows of tensors on a GPU.
template <bool is_exchange>
PyObject* alltoall_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    std::vector<std::int64_t> splits;
    if (!has_arguments("alltoall_async", count, 6) || !call.read_name(given[3]) || !call.read_set(given[5]) ||
        (given[2] != Py_None && !read_splits(given[2], splits))) {
        return nullptr;
    }
    Operation operation = new_operation(given[3], given[4], /*makes_result=*/true);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    if (is_exchange) {
        call.options.device = &kRowsOfGpu;
    }
    const rueda_tensor& input = operation->input.tensor();
    const std::int64_t* const rows = rows_of(given[2], splits);
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return given[1] == Py_None
                   ? rueda_alltoall_async(call.name, &input, rows, splits.size(), &call.options, handle)
                   : rueda_alltoall_into_async(call.name, &input, &output_of(*operation, given[0], given[1]), rows,
                                               splits.size(), &call.options, handle);
    });
}

/// Returns the output of an operation, or null if the caller passed none and Rueda must allocate it.
const rueda_tensor* output_or_null(const InFlight& operation, PyObject* input, PyObject* output) {
    return output == Py_None ? nullptr : &output_of(operation, input, output);
}

/// Arguments: (input, output or None, root_rank, name, result, process_set). The function `result` is called on every
/// rank. Only the root has received splits.
PyObject* gather_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("gather_async", count, 6) || !call.read_name(given[3]) || !call.read_set(given[5])) {
        return nullptr;
    }
    std::int32_t root = 0;
    if (!read_int32(given[2], "root_rank", root)) {
        return nullptr;
    }
    Operation operation = new_operation(given[3], given[4], /*makes_result=*/true);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_gather_async(call.name, &operation->input.tensor(), output_or_null(*operation, given[0], given[1]),
                                  root, &call.options, handle);
    });
}

/// Arguments: (input, output or None, splits or None, root_rank, name, result, process_set). The function `result` is
/// called if there is no output.
PyObject* scatter_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    std::vector<std::int64_t> splits;
    if (!has_arguments("scatter_async", count, 7) || !call.read_name(given[4]) || !call.read_set(given[6]) ||
        (given[2] != Py_None && !read_splits(given[2], splits))) {
        return nullptr;
    }
    std::int32_t root = 0;
    if (!read_int32(given[3], "root_rank", root)) {
        return nullptr;
    }
    Operation operation = new_operation(given[4], given[5], /*makes_result=*/given[1] == Py_None);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_scatter_async(call.name, &operation->input.tensor(), rows_of(given[2], splits), splits.size(),
                                   output_or_null(*operation, given[0], given[1]), root, &call.options, handle);
    });
}

/// Arguments: (input, output or None, root_rank, name, op, prescale_factor, postscale_factor, result, process_set)
PyObject* reduce_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("reduce_async", count, 9) || !call.read_name(given[3]) || !call.read_set(given[8]) ||
        !call.read_reduction(given + 4)) {
        return nullptr;
    }
    std::int32_t root = 0;
    if (!read_int32(given[2], "root_rank", root)) {
        return nullptr;
    }
    Operation operation = new_operation(given[3], given[7], /*makes_result=*/false);
    if (!borrow(call, *operation, given[0], given[1])) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_reduce_async(call.name, &operation->input.tensor(), output_or_null(*operation, given[0], given[1]),
                                  root, &call.options, handle);
    });
}

/// Arguments: (name, process_set)
PyObject* barrier_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    if (!has_arguments("barrier_async", count, 2) || !call.read_name(given[0]) || !call.read_set(given[1])) {
        return nullptr;
    }
    Operation operation = new_operation(given[0], Py_None, /*makes_result=*/false);
    // the C function takes a slot and no name, so a slot is made for the name
    if (call.name != nullptr && *call.name != '\0') {
        rueda_slot* slot = nullptr;
        if (const int status = rueda_slot_create_in(call.name, call.options.process_set, &slot); status != RUEDA_OK) {
            raise_last(status);
            return nullptr;
        }
        operation->slot.reset(slot);
        call.options.slot = slot;
    }
    return finish_call(operation, call,
                       [&](rueda_handle** handle) { return rueda_barrier_async(&call.options, handle); });
}

/// Reads (peer, tag) of a message. On failure, returns false with a Python error set.
bool read_address(Arguments given, std::int32_t& peer, std::int32_t& tag) {
    if (!read_int32(given[1], "tag", tag)) {
        return false;
    }
    if (given[0] == Py_None) {
        peer = RUEDA_ANY_PEER;
        return true;
    }
    if (!read_int32(given[0], "peer", peer)) {
        return false;
    }
    if (peer == RUEDA_ANY_PEER) {  // a Python caller passes None to receive from any rank
        raise(RUEDA_INVALID_ARGUMENT, "the peer is rank -1; expected a rank of the job, or None to receive from any");
        return false;
    }
    return true;
}

/// Arguments: (tensor, peer, tag, process_set)
PyObject* send_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    std::int32_t peer = 0;
    std::int32_t tag = 0;
    if (!has_arguments("send_async", count, 4) || !call.read_set(given[3]) || !read_address(given + 1, peer, tag)) {
        return nullptr;
    }
    Operation operation = new_operation(Py_None, Py_None, /*makes_result=*/false);
    if (!operation->input.borrow(given[0], /*writable=*/false) ||
        !take_device(call, *operation, operation->input, /*is_first=*/true)) {
        return nullptr;
    }
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_send_async(&operation->input.tensor(), peer, tag, &call.options, handle);
    });
}

/// Arguments: (output, peer or None, tag, process_set). The result is the rank that sent the message.
PyObject* receive_async(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    Call call;
    std::int32_t peer = 0;
    std::int32_t tag = 0;
    if (!has_arguments("receive_async", count, 4) || !call.read_set(given[3]) || !read_address(given + 1, peer, tag)) {
        return nullptr;
    }
    Operation operation = new_operation(Py_None, Py_None, /*makes_result=*/false);
    if (!operation->output.borrow(given[0], /*writable=*/true) ||
        !take_device(call, *operation, operation->output, /*is_first=*/true)) {
        return nullptr;
    }
    operation->is_receive = true;
    return finish_call(operation, call, [&](rueda_handle** handle) {
        return rueda_receive_async(&operation->output.tensor(), peer, tag, &call.options, handle);
    });
}

/// Waits for a join. If a signal handler interrupts the wait, the join is kept, and the next join() continues the wait.
PyObject* wait_for(Operation join) {
    const int ended = join->wait(-1);
    if (ended == RUEDA_OK) {
        return join->conclude();
    }
    join->raise_for(ended, -1);
    if (ended == InFlight::kRaised) {
        keep_interrupted_join(std::move(join));
    } else {
        abandon(std::move(join));
    }
    return nullptr;
}

/// Returns the join that a signal handler interrupted, if join() is now called with the same `average`. Otherwise
/// returns null with a Python error set.
Operation same_join(Operation join, std::int32_t average) {
    if (join->join_average != average) {
        keep_interrupted_join(std::move(join));
        raise(
            RUEDA_INVALID_ARGUMENT,
            "join: this rank has joined already, with another average; a signal's handler has ended the wait, not the "
            "join: call join() with the same average to go on waiting");
        return nullptr;
    }
    return join;
}

/// Starts a join. Returns null, with a Python error set, if the join was not started.
Operation start_join(std::int32_t average) {
    Operation operation = new_operation(Py_None, Py_None, /*makes_result=*/false);
    operation->is_join = true;
    operation->join_average = average;
    if (call_sites_are_wanted()) {
        const CallSite site = calling_site();
        rueda_set_call_site(site.file, site.line);
    }
    rueda_handle* handle = nullptr;
    const int status = rueda_join_async(average, &handle);
    return has_started(*operation, status, handle) ? std::move(operation) : nullptr;
}

/// Argument: a rueda_join_average
template <bool blocking>
PyObject* join(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    std::int32_t average = 0;
    if ((blocking && !may_wait()) || !has_arguments("join", count, 1) || !read_int32(given[0], "average", average)) {
        return nullptr;
    }
    Operation interrupted = take_interrupted_join();
    Operation join = interrupted != nullptr ? same_join(std::move(interrupted), average) : start_join(average);
    if (join == nullptr) {
        return nullptr;
    }
    return blocking ? wait_for(std::move(join)) : new_handle(std::move(join));
}

/// Arguments: (start, arguments, keywords). Calls the function `start` with these arguments. `start` starts an
/// operation and returns its handle, for which the caller waits next. The start itself waits for at most kWaitAtStart,
/// because this thread can then do the operation's work at once. After this time, the caller waits with the handle.
PyObject* start_to_wait(PyObject* /*module*/, Arguments given, Py_ssize_t count) {
    if (!may_wait() || !has_arguments("start_to_wait", count, 3)) {
        return nullptr;
    }
    wait_of_next = kWaitAtStart;
    PyObject* const handle = PyObject_Call(given[0], given[1], given[2]);
    wait_of_next = 0;  // `start` may have failed before it started an operation
    return handle;
}

template <class Function>
PyMethodDef entry(const char* name, Function* function) {
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

}  // namespace

PyMethodDef* operation_functions() {
    static PyMethodDef functions[] = {entry("allreduce_async", &allreduce_async),
                                      entry("grouped_allreduce_async", &grouped_allreduce_async),
                                      entry("grouped_allgather_async", &grouped_allgather_async<false>),
                                      entry("grouped_allgather_of_rows", &grouped_allgather_async<true>),
                                      entry("sparse_allreduce_async", &sparse_allreduce_async),
                                      entry("grouped_reducescatter_async", &grouped_reducescatter_async),
                                      entry("broadcast_async", &broadcast_async),
                                      entry("allgather_async", &allgather_async<false>),
                                      entry("allgather_of_rows", &allgather_async<true>),
                                      entry("reducescatter_async", &reducescatter_async),
                                      entry("alltoall_async", &alltoall_async<false>),
                                      entry("alltoall_of_rows", &alltoall_async<true>),
                                      entry("gather_async", &gather_async),
                                      entry("scatter_async", &scatter_async),
                                      entry("reduce_async", &reduce_async),
                                      entry("barrier_async", &barrier_async),
                                      entry("send_async", &send_async),
                                      entry("receive_async", &receive_async),
                                      entry("join", &join<true>),
                                      entry("join_async", &join<false>),
                                      entry("start_to_wait", &start_to_wait),
                                      {nullptr, nullptr, 0, nullptr}};
    return functions;
}

}  // namespace rueda::python
