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

/// How an operation, or a group of them, ended. Owned by the caller's side; the engine holds a plain pointer until it
/// has completed the last member, and does not touch it afterwards.
///
/// Threads: complete_one() by any thread of the rank; the rest by the caller's threads, results once done().
class Completion {
public:
    /// `on_done` is called by who completes the last member, after which the engine has no use for the object any more.
    using OnDone = void (*)(Completion&);
    explicit Completion(std::uint32_t members = 1, OnDone on_done = nullptr) : remaining_(members), on_done_(on_done) {}
    virtual ~Completion() = default;
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    /// So many members more: before the start, or by the engine while a member is under way.
    void add_members(std::uint32_t more) { remaining_.fetch_add(more, std::memory_order_relaxed); }

    /// How a member that is still under way will end: by the engine before it completes the member. The first failure
    /// is the failure of all.
    void fail(const Status& status) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) {
            status_ = status;
        }
    }
    /// The same of what every rank finds, while others may have failed of what only this one has: it is the failure of
    /// all, whatever was before. By the engine with the progress lock, which is the only one to fail members then.
    void fail_foremost(const Status& status) {
        failed_.store(true, std::memory_order_relaxed);
        status_ = status;
    }
    /// Ends one member.
    void complete_one(const Status& status) {
        if (!status.is_ok()) {
            fail(status);
        }
        // Without a callback the object may be gone as soon as a waiter sees it done.
        const OnDone on_done = on_done_;
        // Partner: done(). seq_cst because waiters announce their sleep and then look (LocalEvent).
        if (remaining_.fetch_sub(1, std::memory_order_seq_cst) == 1 && on_done != nullptr) {
            on_done(*this);
        }
    }
    [[nodiscard]] bool done() const { return remaining_.load(std::memory_order_seq_cst) == 0; }

    /// Of a done operation.
    [[nodiscard]] const Status& status() const { return status_; }

    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    /// The result of an operation that makes its own: an allgather, an alltoall or a reducescatter without output.
    struct Output {
        std::unique_ptr<std::byte, Free> memory;
        std::vector<std::int64_t> shape;
        DType dtype = DType::uint8;
    };
    /// Room for the outputs of a group of so many; before it is started.
    void make_room(std::size_t members) { other_outputs_.resize(members - 1); }
    /// Of a member, from 0; written by the engine before it completes the member.
    [[nodiscard]] Output& output(std::uint32_t member = 0) {
        return member == 0 ? output_ : other_outputs_[member - 1];
    }
    [[nodiscard]] std::size_t outputs() const { return other_outputs_.size() + 1; }
    std::vector<std::int64_t> received_splits;  ///< alltoall, gather: rows that came from each member
    std::int32_t joined_last = -1;              ///< join: which rank of the job was the last
    std::int32_t sender = -1;                   ///< receive: which rank of the job sent the message
    bool is_join = false;                       ///< whoever waits for it is in no hurry

private:
    Output output_;
    std::vector<Output> other_outputs_;
    std::atomic<std::uint32_t> remaining_;
    std::atomic<bool> failed_{false};
    OnDone on_done_;
    Status status_;
};

}  // namespace rueda::core
