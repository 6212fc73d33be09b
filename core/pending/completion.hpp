// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/status.hpp"
#include "rueda/types.hpp"

namespace rueda::core {

/// How an operation, or a group of operations, ended. The caller's side owns it. The engine has a plain pointer to it,
/// until it has completed the last member; after that it does not use the object any more.
///
/// Threads: complete_one() by any thread of the rank; the other functions by the caller's threads. Results may be read
/// only after done().
class Completion {
public:
    /// The thread that completes the last member calls `on_done`. The engine does not use the object after this call.
    using OnDone = void (*)(Completion&);
    explicit Completion(std::uint32_t members = 1, OnDone on_done = nullptr) : remaining_(members), on_done_(on_done) {}
    virtual ~Completion() = default;
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    /// Adds members. Called before the start, or by the engine while another member is still pending.
    void add_members(std::uint32_t more) { remaining_.fetch_add(more, std::memory_order_relaxed); }

    /// Sets the failure with which a member that is still pending will end. The engine calls this before it completes
    /// the member. The first failure is the failure of the whole operation.
    void fail(const Status& status) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) {
            status_ = status;
        }
    }
    /// Like fail(), for a failure that every rank finds, while earlier failures may exist on this rank alone. It
    /// replaces an earlier failure. The engine calls this with the progress lock, and no other thread calls fail() at
    /// that time.
    void fail_foremost(const Status& status) {
        failed_.store(true, std::memory_order_relaxed);
        status_ = status;
    }
    /// Completes one member.
    void complete_one(const Status& status) {
        if (!status.is_ok()) {
            fail(status);
        }
        // Without a callback, the caller may destroy the object as soon as a waiting thread sees that it is done. So
        // `on_done_` is read before.
        const OnDone on_done = on_done_;
        // Pairs with done(). seq_cst, because a waiting thread announces its sleep and then reads this (LocalEvent).
        if (remaining_.fetch_sub(1, std::memory_order_seq_cst) == 1 && on_done != nullptr) {
            on_done(*this);
        }
    }
    [[nodiscard]] bool done() const { return remaining_.load(std::memory_order_seq_cst) == 0; }

    /// The result of a completed operation.
    [[nodiscard]] const Status& status() const { return status_; }

    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    /// The output of an operation for which Rueda allocates it: an allgather, an alltoall or a reducescatter without an
    /// output from the caller.
    struct Output {
        std::unique_ptr<std::byte, Free> memory;
        std::vector<std::int64_t> shape;
        DType dtype = DType::uint8;
    };
    /// Allocates the entries for the outputs of a group with this many members, before the group is started.
    void make_room(std::size_t members) { other_outputs_.resize(members - 1); }
    /// The output of member number `member`, counted from 0. The engine writes it before it completes the member.
    [[nodiscard]] Output& output(std::uint32_t member = 0) {
        return member == 0 ? output_ : other_outputs_[member - 1];
    }
    [[nodiscard]] std::size_t outputs() const { return other_outputs_.size() + 1; }
    std::vector<std::int64_t> received_splits;  ///< alltoall, gather: the number of rows that came from each member
    std::int32_t joined_last = -1;              ///< join: the rank of the job that joined last
    std::int32_t sender = -1;                   ///< receive: the rank of the job that sent the message
    bool is_join = false;                       ///< the thread that waits for this operation is in no hurry

private:
    Output output_;
    std::vector<Output> other_outputs_;
    std::atomic<std::uint32_t> remaining_;
    std::atomic<bool> failed_{false};
    OnDone on_done_;
    Status status_;
};

}  // namespace rueda::core
