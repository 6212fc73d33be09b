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

/// How an operation, or a group of them, ended. It belongs to the caller's side. The engine holds a plain pointer until
/// it has completed the last member, and does not touch the object afterwards.
///
/// Threads: complete_one() by any thread of the rank; the rest by the caller's threads, and results only after done().
class Completion {
public:
    /// The thread that completes the last member calls `on_done`. The engine does not use the object after that.
    using OnDone = void (*)(Completion&);
    explicit Completion(std::uint32_t members = 1, OnDone on_done = nullptr) : remaining_(members), on_done_(on_done) {}
    virtual ~Completion() = default;
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    /// Adds members: before the start, or by the engine while another member is still pending.
    void add_members(std::uint32_t more) { remaining_.fetch_add(more, std::memory_order_relaxed); }

    /// Sets how a member that is still pending will end. The engine calls it before it completes the member. The first
    /// failure is the failure of the whole operation.
    void fail(const Status& status) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) {
            status_ = status;
        }
    }
    /// The same for a failure that every rank finds, while other failures may exist on this rank alone. It replaces an
    /// earlier failure. The engine calls it with the progress lock, and no other thread fails members then.
    void fail_foremost(const Status& status) {
        failed_.store(true, std::memory_order_relaxed);
        status_ = status;
    }
    /// Completes one member.
    void complete_one(const Status& status) {
        if (!status.is_ok()) {
            fail(status);
        }
        // Without a callback, the object may be destroyed as soon as a waiting thread sees it done.
        const OnDone on_done = on_done_;
        // Partner: done(). seq_cst, because waiting threads announce their sleep and then look (LocalEvent).
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
    /// The result of an operation that allocates it: an allgather, an alltoall or a reducescatter without output.
    struct Output {
        std::unique_ptr<std::byte, Free> memory;
        std::vector<std::int64_t> shape;
        DType dtype = DType::uint8;
    };
    /// Makes room for the outputs of a group with this many members, before it is started.
    void make_room(std::size_t members) { other_outputs_.resize(members - 1); }
    /// The output of member `index`, counted from 0. The engine writes it before it completes the member.
    [[nodiscard]] Output& output(std::uint32_t member = 0) {
        return member == 0 ? output_ : other_outputs_[member - 1];
    }
    [[nodiscard]] std::size_t outputs() const { return other_outputs_.size() + 1; }
    std::vector<std::int64_t> received_splits;  ///< alltoall, gather: rows that came from each member
    std::int32_t joined_last = -1;              ///< join: the rank of the job that joined last
    std::int32_t sender = -1;                   ///< receive: the rank of the job that sent the message
    bool is_join = false;                       ///< the thread that waits for the operation is in no hurry

private:
    Output output_;
    std::vector<Output> other_outputs_;
    std::atomic<std::uint32_t> remaining_;
    std::atomic<bool> failed_{false};
    OnDone on_done_;
    Status status_;
};

}  // namespace rueda::core
