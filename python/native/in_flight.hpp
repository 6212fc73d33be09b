// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A pending operation of a Python caller: its handle, the tensors that it uses, and how its result is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/native/borrowed_tensor.hpp"
#include "python/native/memory.hpp"
#include "python/native/python_api.hpp"

namespace rueda::python {

/// While a caller blocks, Python's signal handlers wait for at most this time, in seconds.
inline constexpr double kSignalSlice = 0.1;

/// Threads: a thread that holds the GIL may call the members; wait() releases the GIL meanwhile. The caller keeps the
/// object alive during the call.
struct InFlight {
    BorrowedTensor input;
    BorrowedTensor output;              // empty if the output is the input
    std::vector<BorrowedTensor> group;  // the inputs, then the outputs that are not inputs
    Ref name;                           // a str, a TensorSlot (kept alive by this reference) or None
    /// Either the result itself, or, if makes_result is set, a function that makes the result. The function is called
    /// with (memory, shape, dtype, received splits). For a group it is called with a list of (memory, shape, dtype).
    Ref result;
    bool makes_result = false;
    std::size_t group_outputs = 0;  // the number of results of a group if Rueda allocates them
    bool is_receive = false;        // if set, the result is the rank that sent the message
    bool is_join = false;           // if set, the result is the rank that joined last
    std::int32_t join_average = 0;  // used by a join: its rueda_join_average
    std::unique_ptr<rueda_slot, decltype(&rueda_slot_destroy)> slot{nullptr, &rueda_slot_destroy};  // for its name
    Ref callbacks;  // a list; null before the first add_done_callback() and after the callbacks were called
    SharedHandle handle;

    /// wait() returns this value, besides the status codes, if a Python exception is set: by a signal handler, or
    /// because a callback must not wait.
    static constexpr int kRaised = -1;

    /// Blocks until the operation has ended, and returns the operation's status. Returns RUEDA_TIMEOUT if the operation
    /// has not ended after `timeout_seconds`; a negative value sets no limit. Python's signal handlers run within 100
    /// ms.
    [[nodiscard]] int wait(double timeout_seconds);
    /// Like wait(), but blocks for at most about `seconds` and does not run signal handlers. Returns true if the
    /// operation has ended.
    [[nodiscard]] bool wait_a_while(double seconds);
    /// Returns true if the operation has ended. If it has not, the call makes some progress. Does not block.
    [[nodiscard]] bool has_ended();
    /// Returns the result of an operation that succeeded, as a new reference; null with an error set.
    [[nodiscard]] PyObject* conclude();
    /// Returns a text that says which ranks have announced the pending operation and which have not; "" if this is not
    /// known.
    [[nodiscard]] std::string waits_for() const;
    /// Raises the Python error for a result of wait().
    void raise_for(int status, double timeout_seconds) const;
    /// Releases the tensors. Called when the operation has ended, because then no rank uses them any more.
    void give_tensors_back();

private:
    [[nodiscard]] PyObject* call_finish();
    [[nodiscard]] PyObject* call_finish_of_group();
    [[nodiscard]] PyObject* arguments_of_output(std::size_t index);
};

/// Releases an operation whose handle the caller has dropped. If the operation has ended, it is released at once.
/// Otherwise it is released by the first later call of this function or of forget_ended() that finds it ended. Until
/// then its tensors stay borrowed.
void abandon(std::unique_ptr<InFlight> operation);
/// Releases abandoned operations that have ended. If `all` is set, the call looks at all abandoned operations,
/// otherwise at a few of them.
void forget_ended(bool all);

/// Stores a join whose wait a signal handler interrupted. This rank has joined nevertheless, and the next join()
/// continues the wait.
void keep_interrupted_join(std::unique_ptr<InFlight> join);
/// Returns the interrupted join, and forgets it; null if there is none.
[[nodiscard]] std::unique_ptr<InFlight> take_interrupted_join();
/// Called when an operation begins. Forgets an interrupted join that has ended, because the next join() is a new one.
void forget_ended_join();

}  // namespace rueda::python
