// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/recorder/recorder_writer.hpp"
#include "base/status.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "rueda/types.hpp"

namespace rueda::core {

/// The state and the result of an operation, or of a group of operations. The caller owns this object. The engine has a
/// plain pointer to it, and uses the pointer until all members are complete.
///
/// Threads: complete_one() runs in any thread of the rank; the other functions in the caller's threads. Results may be
/// read only after done() is true.
class Completion {
public:
    /// A function that is called at the end of the operation. The thread that completes the last member calls it.
    /// Afterwards the engine does not use the Completion any more.
    using OnDone = void (*)(Completion&);
    explicit Completion(std::uint32_t members = 1, OnDone on_done = nullptr) : remaining_(members), on_done_(on_done) {}
    virtual ~Completion() = default;
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    /// Adds members. The caller may call this before it starts the operation; the engine may call it while a member is
    /// pending.
    void add_members(std::uint32_t more) { remaining_.fetch_add(more, std::memory_order_relaxed); }

    /// Sets the failure of a pending member, before the engine completes this member. The failure of the whole
    /// operation is the first failure that was set.
    void fail(const Status& status) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) {
            status_ = status;
        }
    }
    /// Like fail(), but replaces an earlier failure. Use this for a failure that all ranks find. An earlier failure may
    /// exist only on this rank, but all ranks should report the same failure. When the engine calls this function, it
    /// holds the progress lock, and no other thread calls fail().
    void fail_foremost(const Status& status) {
        failed_.store(true, std::memory_order_relaxed);
        status_ = status;
    }
    void complete_one(const Status& status) {
        if (!status.is_ok()) {
            fail(status);
        }
        // `on_done_` is read before the count is decremented. If there is no callback, a waiting thread may destroy the
        // object as soon as the count is 0.
        const OnDone on_done = on_done_;
        // The decrement is seq_cst: a waiting thread first stores that it sleeps (LocalEvent), and then reads the count
        // in done(). Either that thread sees the count, or this thread wakes it.
        if (remaining_.fetch_sub(1, std::memory_order_seq_cst) == 1 && on_done != nullptr) {
            on_done(*this);
        }
    }
    [[nodiscard]] bool done() const { return remaining_.load(std::memory_order_seq_cst) == 0; }

    /// Call this before an operation on tensors in device memory is started. `members` is the number of its members
    /// (the tensors of a group). Each member will be launched or will fail.
    void expect_launches(std::uint32_t members) {
        is_on_device_ = true;
        unlaunched_.store(members, std::memory_order_relaxed);
    }
    /// Whether expect_launches() was called.
    [[nodiscard]] bool is_on_device() const { return is_on_device_; }
    /// Call this when the work of a member has been given to the device. `end` is the event after this work. If the
    /// member has failed before its launch, `end` is null, and fail() must have been called. The event of the last
    /// member comes after the work of all members, also of those in earlier batches (DeviceCommunicator::end()).
    void launched(const collectives::DeviceEventPtr& end) {
        if (end != nullptr) {
            device_end_ = end;
        }
        // The decrement is seq_cst, for the same reason as in complete_one(): a thread in wait_on_stream() waits until
        // is_launched() is true. The decrement also publishes the event and the failure.
        unlaunched_.fetch_sub(1, std::memory_order_seq_cst);
    }
    /// Returns true if each member has failed or was launched. Launched means that its work was given to the device.
    /// Only for an operation on a device.
    [[nodiscard]] bool is_launched() const { return unlaunched_.load(std::memory_order_seq_cst) == 0; }
    /// Whether a member has failed. The answer is final when is_launched() is true. The failure itself can be read when
    /// done() is true.
    [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_relaxed); }
    /// The event at the end of the work on the device; null if all members have failed. Valid only when is_launched()
    /// is true.
    [[nodiscard]] const collectives::DeviceEventPtr& device_end() const { return device_end_; }

    /// The status of the whole operation. Valid only when done() is true.
    [[nodiscard]] const Status& status() const { return status_; }

    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    /// The output of an operation, if Rueda allocates it.
    struct Output {
        std::unique_ptr<std::byte, Free> memory;
        std::vector<std::int64_t> shape;
        DType dtype = DType::uint8;
    };
    /// Makes space for the outputs of a group of `members` members. Call this before the group is started.
    void make_room(std::size_t members) { other_outputs_.resize(members - 1); }
    /// The output of one member of a group. Members count from 0. The engine writes the output before it completes the
    /// member.
    [[nodiscard]] Output& output(std::uint32_t member = 0) {
        return member == 0 ? output_ : other_outputs_[member - 1];
    }
    [[nodiscard]] std::size_t outputs() const { return other_outputs_.size() + 1; }
    /// the number of rows that came from each member; only for an alltoall or a gather
    std::vector<std::int64_t> received_splits;
    std::int32_t joined_last = -1;  ///< the rank that joined last, as a rank of the job; only for a join
    std::int32_t sender = -1;       ///< the sender of the message, as a rank of the job; only for a receive
    /// only for a send or a receive: the number of the operation's record in the flight recorder
    std::uint64_t message_record = base::RecorderWriter::kNone;
    /// True for a join. The thread that waits for a join drives progress only for other ranks (see Engine::Haste).
    bool is_join = false;

private:
    Output output_;
    std::vector<Output> other_outputs_;
    std::atomic<std::uint32_t> remaining_;
    bool is_on_device_ = false;
    std::atomic<std::uint32_t> unlaunched_{0};  // how many members on a device have neither been launched nor failed
    collectives::DeviceEventPtr device_end_;    // written before unlaunched_ is decremented
    std::atomic<bool> failed_{false};
    OnDone on_done_;
    Status status_;
};

}  // namespace rueda::core
