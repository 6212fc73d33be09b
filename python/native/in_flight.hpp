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

/// The longest time, in seconds, for which a blocked caller delays Python's signal handlers.
inline constexpr double kSignalSlice = 0.1;

/// Threads: only a thread that holds the GIL may call the members. wait() releases the GIL while it waits, and the
/// caller keeps the object alive.
struct InFlight {
    BorrowedTensor input;
    BorrowedTensor output;              // the output; empty if the operation is in place
    std::vector<BorrowedTensor> group;  // the tensors of a group: all inputs, then those outputs that are not also
                                        // inputs
    Ref name;                           // the operation's name: a str, a TensorSlot (which this reference keeps alive),
                                        // or None
    /// If makes_result is false: the operation's result. If it is true: a function that makes the result from (memory,
    /// shape, dtype, received splits), or for a group from a list of (memory, shape, dtype).
    Ref result;
    bool makes_result = false;
    std::size_t group_outputs = 0;  // the number of results of a group, if Rueda allocates them
    bool is_receive = false;        // whether this is a receive; its result is the rank that sent the message
    bool is_join = false;           // whether this is a join; its result is the rank that joined last
    std::int32_t join_average = 0;  // the argument `average` of a join, as a rueda_join_average
    /// The device of all tensors, and the stream of the call. With RUEDA_CPU the tensors are in the CPU's memory.
    rueda_device_stream device{RUEDA_CPU, 0, nullptr};
    // a slot for the operation's name
    std::unique_ptr<rueda_slot, decltype(&rueda_slot_destroy)> slot{nullptr, &rueda_slot_destroy};
    Ref callbacks;  // the callbacks, as a list; null before the first add_done_callback() and after the callbacks were
                    // called
    SharedHandle handle;

    /// The value that wait() returns if a Python exception is set. Either a signal handler raised the exception, or a
    /// callback called wait(), which is not allowed.
    static constexpr int kRaised = -1;

    /// Blocks until the operation has ended, and returns its status. Returns RUEDA_TIMEOUT if `timeout_seconds` have
    /// passed; a negative value means no limit. Returns kRaised if a Python exception is set. Python's signal handlers
    /// run within 100 ms.
    [[nodiscard]] int wait(double timeout_seconds);
    /// Makes `stream`, a stream of the operation's device, wait for the end of the operation. Blocks until the GPU has
    /// got the work of the operation, but not until the GPU has done it. Returns the same values as wait().
    [[nodiscard]] int wait_on_stream(void* stream, double timeout_seconds);
    /// Like wait(), but blocks at most for about `seconds`, and runs no signal handlers. Returns true if the operation
    /// has ended.
    [[nodiscard]] bool wait_a_while(double seconds);
    /// Returns true if the operation has ended. If it has not, makes some progress. Does not block.
    [[nodiscard]] bool has_ended();
    /// Call this if rueda_poll() has said that the operation has ended.
    void remember_end() { has_ended_ = true; }
    /// Returns the result of a successful operation as a new reference; on failure, null with an error set.
    [[nodiscard]] PyObject* conclude();
    /// Returns the result like conclude(), if the caller has called wait_on_stream(stream) instead of wait().
    [[nodiscard]] PyObject* conclude_on_stream(void* stream);
    /// Returns a text that says which ranks have announced the pending operation and which have not. Returns "" if this
    /// is not known.
    [[nodiscard]] std::string waits_for() const;
    /// Raises the Python error for a result of wait().
    void raise_for(int status, double timeout_seconds) const;
    /// Releases the tensors. Call this function when the operation has ended, because no rank uses the tensors after
    /// that.
    void give_tensors_back();
    /// Call this function after wait_on_stream(stream). If `stream` is the stream of the call, releases the tensors
    /// whose memory PyTorch has allocated.
    void give_tensors_back_in(void* stream);

private:
    [[nodiscard]] int wait_in_slices(const rueda_device_stream* stream, double timeout_seconds);
    [[nodiscard]] PyObject* take_result();
    [[nodiscard]] PyObject* call_finish();
    [[nodiscard]] Ref received_splits() const;
    [[nodiscard]] PyObject* call_finish_of_group();
    [[nodiscard]] PyObject* arguments_of_output(std::size_t index);

    bool has_ended_ = false;  // whether it is known that the operation has ended
};

/// Takes an operation whose handle was dropped. If it has ended, releases it. Otherwise its tensors must stay borrowed,
/// and a later call of forget_ended() releases it.
///
/// An operation on a GPU ends only when the GPU has done the operation's work. Until then its tensors stay borrowed, so
/// no allocator can give their memory to other work. PyTorch's allocator knows nothing of Rueda's stream: it gives
/// freed memory at once to later work of the stream for which the memory was allocated.
void abandon(std::unique_ptr<InFlight> operation);
/// Releases abandoned operations that have ended. Checks all abandoned operations if `all` is true, and otherwise only
/// a few of them.
void forget_ended(bool all);

/// Stores a join whose wait was interrupted by a signal handler. This rank has joined nevertheless, and the next join()
/// continues the wait.
void keep_interrupted_join(std::unique_ptr<InFlight> join);
/// Removes the interrupted join and returns it; null if there is none.
[[nodiscard]] std::unique_ptr<InFlight> take_interrupted_join();
/// Drops an interrupted join that has ended. This function is called when another operation begins. After that, a later
/// join() must begin a new join instead of returning the result of the ended one.
void forget_ended_join();

}  // namespace rueda::python
