// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A pending operation, as Python sees it: its handle, the tensors that it uses, and how its result is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/native/borrowed_tensor.hpp"
#include "python/native/memory.hpp"
#include "python/native/python_api.hpp"

namespace rueda::python {

/// The longest time, in seconds, that a Python signal handler waits for a blocked caller.
inline constexpr double kSignalSlice = 0.1;

/// Threads: a thread that holds the GIL; wait() releases it. The caller keeps the object alive during the call.
struct InFlight {
    BorrowedTensor input;
    BorrowedTensor output;              // empty if the output is the input
    std::vector<BorrowedTensor> group;  // the inputs, then the outputs that are not inputs
    Ref name;                           // str, TensorSlot (which must live as long) or None
    /// Makes the result. It is either the result itself, or a function that is called with (memory, shape, dtype,
    /// received splits); for a group, with a list of (memory, shape, dtype).
    Ref result;
    bool makes_result = false;
    std::size_t group_outputs = 0;  // for a group whose results Rueda allocates: the number of results
    bool is_receive = false;        // the result is the rank that sent the message
    bool is_join = false;           // the result is the rank that joined last
    std::int32_t join_average = 0;  // for a join: its rueda_join_average
    std::unique_ptr<rueda_slot, decltype(&rueda_slot_destroy)> slot{nullptr, &rueda_slot_destroy};  // of its name
    Ref callbacks;  // the list of callbacks; it exists from the first add_done_callback() until they are called
    SharedHandle handle;

    /// A further result of wait(): a Python exception is set, by a signal handler or because a callback must not wait.
    static constexpr int kRaised = -1;

    /// Blocks until the operation has ended, and returns its status, or until `timeout_seconds` have passed, and
    /// returns RUEDA_TIMEOUT (negative: without a limit). Python's signal handlers run within 100 ms.
    [[nodiscard]] int wait(double timeout_seconds);
    /// The same for at most about `seconds`, without checks for signals. Returns whether the operation has ended.
    [[nodiscard]] bool wait_a_while(double seconds);
    /// Whether the operation has ended. If not, this makes some progress. Does not block.
    [[nodiscard]] bool has_ended();
    /// Returns the result of an operation that succeeded, as a new reference; null with an error set.
    [[nodiscard]] PyObject* conclude();
    /// Returns which ranks have announced the pending operation and which have not; "" if that is not known.
    [[nodiscard]] std::string waits_for() const;
    /// Raises for what wait() returned.
    void raise_for(int status, double timeout_seconds) const;
    /// Called when the operation has ended, so that no rank uses the tensors any more.
    void give_tensors_back();

private:
    [[nodiscard]] PyObject* call_finish();
    [[nodiscard]] PyObject* call_finish_of_group();
    [[nodiscard]] PyObject* arguments_of_output(std::size_t index);
};

/// Releases an operation that the caller has dropped: at once if it has ended. Otherwise a later call of this function
/// or of forget_ended() releases it when it has ended. Until then its tensors stay borrowed.
void abandon(std::unique_ptr<InFlight> operation);
/// Releases abandoned operations that have ended. It looks at a few of them, or at all if `all` is set.
void forget_ended(bool all);

/// Keeps a join whose wait was interrupted by a signal handler. This rank has joined nevertheless, and the next join()
/// continues the wait.
void keep_interrupted_join(std::unique_ptr<InFlight> join);
/// Null: there is none.
[[nodiscard]] std::unique_ptr<InFlight> take_interrupted_join();
/// Called when an operation begins: then an interrupted join that has ended is forgotten, because the next join() is a
/// new one.
void forget_ended_join();

}  // namespace rueda::python
