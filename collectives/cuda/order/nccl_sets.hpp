// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace rueda::collectives::cuda {

/// The process sets of several ranks in which this process uses NCCL, or offers to use it.
///
/// If a rank uses NCCL in several sets, their batches need an order (LaunchOrder), and each batch then costs an
/// exchange between the members. A set whose members all use NCCL in no other set when it connects needs none. A
/// set that connects later and has a member in common with it cannot use NCCL at first. It asks the set without an
/// order for one. From time to time, the members of a set without an order tell each other whether they were asked
/// (OrderTask). They then all begin to have an order at the same batch.
///
/// Threads: any thread may call any function.
class NcclSets {
public:
    /// A rank's part in a process set. A process can have several ranks, as threads.
    struct Use {
        const void* owner = nullptr;  ///< identifies the use
        std::int32_t set = 0;         ///< the process set's number
        std::int32_t rank = 0;        ///< the rank's number in the job
        int device = -1;
    };
    /// The part of an offer in which a rank describes its other sets to the other members of a set.
    struct Others {
        bool any = false;                             ///< whether there are any
        std::optional<std::int32_t> without_order{};  ///< one of them that has no order
    };

    /// Adds a set before its members decide about NCCL, and asks its other sets for an order. Until decide(), it counts
    /// as a set without an order, unless this rank has others, or `expects_others`: then the members decide for an
    /// order or against NCCL. Returns the other sets of this rank and of this device.
    [[nodiscard]] Others add(const Use& use, bool expects_others);
    /// The members have decided for NCCL.
    void decide(const void* owner, bool has_order);
    /// Whether another set has asked this one for an order.
    [[nodiscard]] bool is_asked(const void* owner);
    /// The rank does not use NCCL in this set, or no longer. Does nothing if there is no such use.
    void remove(const void* owner) noexcept;

private:
    struct Entry {
        Use use;
        bool has_order;
        bool is_asked;
    };
    [[nodiscard]] static bool are_related(const Use& a, const Use& b) {
        return a.set != b.set && (a.rank == b.rank || a.device == b.device);
    }

    std::mutex mutex_;  // guards the next one; a thread that holds it takes no other lock
    std::vector<Entry> entries_;
};

}  // namespace rueda::collectives::cuda
