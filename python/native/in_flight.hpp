// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// An operation under way, as Python sees it: its handle, the tensors it uses, and what its result will be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/native/borrowed_tensor.hpp"
#include "python/native/memory.hpp"
#include "python/native/python_api.hpp"

namespace rueda::python {

/// How long a signal's Python handler may have to wait for a blocked caller, in seconds.
inline constexpr double kSignalSlice = 0.1;

/// Threads: who holds the GIL; wait() lets go of it. Whoever calls keeps the object alive meanwhile.
struct InFlight {
    BorrowedTensor input;
    BorrowedTensor output;              // not borrowed where it is the input
    std::vector<BorrowedTensor> group;  // inputs, then the outputs that are other tensors
    Ref name;                           // str, TensorSlot (which must live as long) or None
    /// The result: this object, or what it returns when called with (memory, shape, dtype, received splits); of a
    /// group, with a list of (memory, shape, dtype).
    Ref result;
    bool makes_result = false;
    std::size_t group_outputs = 0;  // of a group that makes its results: how many
    bool is_receive = false;        // whose result is the rank that sent the message
    bool is_join = false;           // whose result is the rank that joined last
    std::int32_t join_average = 0;  // of a join: rueda_join_average
    std::unique_ptr<rueda_slot, decltype(&rueda_slot_destroy)> slot{nullptr, &rueda_slot_destroy};  // of its name
    Ref callbacks;  // a list, from the first add_done_callback() until they are called
    SharedHandle handle;

    /// What wait() returns besides a status: an exception is set, of a signal's handler or since a callback must not
    /// wait.
    static constexpr int kRaised = -1;

    /// Blocks until the operation has ended (its status), or `timeout_seconds` have passed (RUEDA_TIMEOUT; negative:
    /// never). Python's signal handlers run within 100 ms.
    [[nodiscard]] int wait(double timeout_seconds);
    /// The same for at most about `seconds`, without a look at signals. True: it has ended.
    [[nodiscard]] bool wait_a_while(double seconds);
    /// Whether it has ended. Does a bit of the work if not, and does not block.
    [[nodiscard]] bool has_ended();
    /// The result of an operation that has ended well. A new reference; null with an error set.
    [[nodiscard]] PyObject* conclude();
    /// Which ranks have announced a pending operation and which have not; "" where that is not known.
    [[nodiscard]] std::string waits_for() const;
    /// Raises for what wait() returned.
    void raise_for(int status, double timeout_seconds) const;
    /// It has ended: nobody uses the tensors any more.
    void give_tensors_back();

private:
    [[nodiscard]] PyObject* call_finish();
    [[nodiscard]] PyObject* call_finish_of_group();
    [[nodiscard]] PyObject* arguments_of_output(std::size_t index);
};

/// Lets go of an operation: at once where it has ended, else as soon as it is seen to have, by a later call of this or
/// of forget_ended(). Its tensors stay borrowed until then.
void abandon(std::unique_ptr<InFlight> operation);
/// Looks at a few abandoned operations; at all of them if asked.
void forget_ended(bool all);

/// A join whose wait a signal's handler has ended: this rank has joined all the same, and the next join() takes it up.
void keep_interrupted_join(std::unique_ptr<InFlight> join);
/// Null: there is none.
[[nodiscard]] std::unique_ptr<InFlight> take_interrupted_join();
/// An operation has begun: a join that has ended before is none that join() could mean.
void forget_ended_join();

}  // namespace rueda::python
