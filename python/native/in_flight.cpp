// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "python/native/in_flight.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "python/native/callback_scope.hpp"
#include "python/native/errors.hpp"
#include "python/native/tensor_view.hpp"

namespace rueda::python {
namespace {

using Clock = std::chrono::steady_clock;

/// The operations whose handles were dropped before they ended. Used only under the GIL. The list is never destroyed,
/// because its elements need the Python interpreter, which ends before static objects are destroyed.
std::vector<std::unique_ptr<InFlight>>& abandoned() {
    static auto* const operations = new std::vector<std::unique_ptr<InFlight>>;
    return *operations;
}

/// The join whose wait was interrupted, or null. It is never destroyed, because its destructor needs the Python
/// interpreter, which ends before static objects are destroyed.
std::unique_ptr<InFlight>& interrupted_join() {
    static auto* const join = new std::unique_ptr<InFlight>;
    return *join;
}

std::string text_of(PyObject* name) {
    const Ref shown = Ref::taken(PyObject_Str(name));
    const char* const text = shown ? PyUnicode_AsUTF8AndSize(shown.borrow(), nullptr) : nullptr;
    PyErr_Clear();
    return text == nullptr || name == Py_None ? "the operation" : "'" + std::string(text) + "'";
}

/// Returns the values as a tuple of integers; on failure, null with an error set.
Ref tuple_of(const std::int64_t* values, std::size_t count) {
    Ref tuple = Ref::taken(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (std::size_t i = 0; tuple && i < count; ++i) {
        PyObject* const value = PyLong_FromLongLong(values[i]);
        if (value == nullptr || PyTuple_SetItem(tuple.borrow(), static_cast<Py_ssize_t>(i), value) != 0) {
            return {};
        }
    }
    return tuple;
}

std::size_t size_of(const rueda_tensor& tensor) {
    std::size_t bytes = bytes_of(tensor.dtype);
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
        bytes *= static_cast<std::size_t>(tensor.shape[i]);
    }
    return bytes;
}

}  // namespace

int InFlight::wait(double timeout_seconds) { return wait_in_slices(nullptr, timeout_seconds); }

int InFlight::wait_on_stream(void* stream, double timeout_seconds) {
    const rueda_device_stream waiting{device.type, device.index, stream};
    return wait_in_slices(&waiting, timeout_seconds);
}

/// Waits in short intervals, so that Python's signal handlers can run in between. If `stream` is null, waits until the
/// operation has ended. Otherwise only makes the stream wait for the operation, which is possible before the operation
/// has ended.
int InFlight::wait_in_slices(const rueda_device_stream* stream, double timeout_seconds) {
    if (is_in_callback() && !has_ended() && !may_wait()) {
        return kRaised;
    }
    if (has_ended_ && stream == nullptr) {
        return rueda_wait(handle.get(), 0);
    }
    const auto begin = Clock::now();
    for (;;) {
        const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
        const double left = timeout_seconds < 0 ? kSignalSlice : std::max(timeout_seconds - passed, 0.0);
        int status = RUEDA_OK;
        {
            const WithoutGil without_gil;
            const double slice = std::min(left, kSignalSlice);
            status =
                stream == nullptr ? rueda_wait(handle.get(), slice) : rueda_wait_on_stream(handle.get(), stream, slice);
        }
        // RUEDA_TIMEOUT can mean two things: only this wait timed out, or the operation has ended with this status.
        if (status != RUEDA_TIMEOUT || has_ended()) {
            return status == RUEDA_TIMEOUT ? rueda_wait(handle.get(), 0) : status;
        }
        if (PyErr_CheckSignals() != 0) {
            return kRaised;
        }
        if (timeout_seconds >= 0 && left <= kSignalSlice) {
            return RUEDA_TIMEOUT;
        }
    }
}

bool InFlight::wait_a_while(double seconds) {
    {
        const WithoutGil without_gil;
        rueda_wait(handle.get(), seconds);
    }
    return has_ended();
}

bool InFlight::has_ended() {
    int ended = 0;
    has_ended_ = has_ended_ || (rueda_poll(handle.get(), &ended) == RUEDA_OK && ended == 1);
    return has_ended_;
}

void InFlight::give_tensors_back() {
    input.give_back();
    output.give_back();
    group.clear();
}

void InFlight::give_tensors_back_in(void* stream) {
    // From here on, `stream` waits for the operation. There are two cases:
    // - `stream` is the stream of the call. Then all later work in this stream runs after the operation. PyTorch's
    //   allocator gives freed memory only to later work of the stream for which it was allocated. So memory of PyTorch
    //   may be freed now (give_back_to_torch()). Memory of other allocators stays borrowed, as in the second case.
    // - `stream` is another stream. Then later work in the stream of the call may overlap with the operation. So the
    //   tensors stay borrowed until the GPU has done the operation (abandon()).
    if (stream != device.stream) {
        return;
    }
    input.give_back_to_torch();
    output.give_back_to_torch();
    for (BorrowedTensor& member : group) {
        member.give_back_to_torch();
    }
}

PyObject* InFlight::conclude() {
    give_tensors_back();
    return take_result();
}

PyObject* InFlight::conclude_on_stream(void* stream) {
    give_tensors_back_in(stream);
    return take_result();
}

PyObject* InFlight::take_result() {
    if (is_join || is_receive) {
        std::int32_t last = -1;
        const int status =
            is_join ? rueda_handle_joined_last(handle.get(), &last) : rueda_handle_sender(handle.get(), &last);
        if (status != RUEDA_OK) {
            raise_for(status, -1);
            return nullptr;
        }
        return PyLong_FromLong(last);
    }
    if (makes_result) {
        Ref made = Ref::taken(call_finish());
        if (!made) {
            return nullptr;
        }
        result = std::move(made);
        makes_result = false;
    }
    return Ref::to(result.borrow()).release();
}

/// Returns (memory, shape, dtype) of an output that Rueda allocated for the operation. If the caller passed an output,
/// returns None three times.
PyObject* InFlight::arguments_of_output(std::size_t index) {
    rueda_tensor tensor{};
    const int status = rueda_handle_output_of(handle.get(), index, &tensor);
    if (status == RUEDA_INVALID_ARGUMENT) {
        return Py_BuildValue("(OOO)", Py_None, Py_None, Py_None);
    }
    if (status != RUEDA_OK) {  // rueda_handle_output_of() prepares the output, and the preparation failed
        raise_last(status);
        return nullptr;
    }
    const Ref shape = tuple_of(tensor.shape, static_cast<std::size_t>(tensor.ndim));
    const Ref memory = shape ? Ref::taken(memory_of_output(handle, tensor.data, size_of(tensor))) : Ref();
    return memory ? Py_BuildValue("(OOi)", memory.borrow(), shape.borrow(), static_cast<int>(tensor.dtype)) : nullptr;
}

PyObject* InFlight::call_finish_of_group() {
    const Ref outputs = Ref::taken(PyList_New(static_cast<Py_ssize_t>(group_outputs)));
    for (std::size_t i = 0; outputs && i < group_outputs; ++i) {
        PyObject* const member = arguments_of_output(i);
        if (member == nullptr || PyList_SetItem(outputs.borrow(), static_cast<Py_ssize_t>(i), member) != 0) {
            return nullptr;
        }
    }
    return outputs ? PyObject_CallFunctionObjArgs(result.borrow(), outputs.borrow(), static_cast<void*>(nullptr))
                   : nullptr;
}

/// Returns the received splits as a tuple, after an alltoall and after a gather on its root; otherwise None.
Ref InFlight::received_splits() const {
    const std::int64_t* values = nullptr;
    std::size_t count = 0;
    const bool has_splits = rueda_handle_received_splits(handle.get(), &values, &count) == RUEDA_OK;
    return has_splits ? tuple_of(values, count) : Ref::to(Py_None);
}

PyObject* InFlight::call_finish() {
    if (device.type != RUEDA_CPU && !has_ended()) {
        // The caller gave the outputs.
        const Ref splits = received_splits();
        return splits ? PyObject_CallFunctionObjArgs(result.borrow(), Py_None, Py_None, Py_None, splits.borrow(),
                                                     static_cast<void*>(nullptr))
                      : nullptr;
    }
    if (group_outputs > 0) {
        return call_finish_of_group();
    }
    const Ref made = Ref::taken(arguments_of_output(0));
    if (!made) {
        return nullptr;
    }
    const Ref splits = received_splits();
    if (!splits) {
        return nullptr;
    }
    return PyObject_CallFunctionObjArgs(result.borrow(), PyTuple_GetItem(made.borrow(), 0),
                                        PyTuple_GetItem(made.borrow(), 1), PyTuple_GetItem(made.borrow(), 2),
                                        splits.borrow(), static_cast<void*>(nullptr));
}

std::string InFlight::waits_for() const {
    std::string text(1024, '\0');
    int status = RUEDA_OK;
    {
        const WithoutGil without_gil;
        status = rueda_handle_waits_for(handle.get(), text.data(), text.size());
    }
    text.resize(status == RUEDA_OK ? text.find('\0') : 0);
    return text;
}

void InFlight::raise_for(int status, double timeout_seconds) const {
    if (status == kRaised) {
        return;
    }
    int ended = 0;
    if (status == RUEDA_TIMEOUT && rueda_poll(handle.get(), &ended) == RUEDA_OK && ended == 0) {
        std::string seconds = std::to_string(timeout_seconds);
        seconds.erase(seconds.find_last_not_of('0') + 1);
        seconds.erase(seconds.find_last_not_of('.') + 1);
        const std::string account = waits_for();
        raise(status, text_of(name.borrow()) + " has not completed after " + seconds + " s" +
                          (account.empty() ? "" : ": " + account) + "; it goes on");
        return;
    }
    raise_last(status);
}

void abandon(std::unique_ptr<InFlight> operation) {
    if (!operation->has_ended()) {
        abandoned().push_back(std::move(operation));
    }
}

void keep_interrupted_join(std::unique_ptr<InFlight> join) { interrupted_join() = std::move(join); }

std::unique_ptr<InFlight> take_interrupted_join() { return std::move(interrupted_join()); }

void forget_ended_join() {
    if (interrupted_join() != nullptr && interrupted_join()->has_ended()) [[unlikely]] {
        // the join is taken out before it is destroyed, because its destructor may run Python code
        const std::unique_ptr<InFlight> ended = take_interrupted_join();
    }
}

void forget_ended(bool all) {
    if (all) {
        forget_ended_join();
    }
    auto& operations = abandoned();
    if (operations.empty()) [[likely]] {
        return;
    }
    // Each call checks only a few operations, so that the call is short. The next call continues with the following
    // operations, so every operation is checked after some time.
    static std::size_t next = 0;
    for (std::size_t looks = all ? operations.size() : 4; looks > 0 && !operations.empty(); --looks) {
        next = next < operations.size() ? next : 0;
        if (operations[next]->has_ended()) {
            // Destroying the operation runs Python code, which may call this function again. The operation is therefore
            // removed from the list first.
            const std::unique_ptr<InFlight> ended = std::move(operations[next]);
            operations[next] = std::move(operations.back());
            operations.pop_back();
        } else {
            ++next;
        }
    }
}

}  // namespace rueda::python
