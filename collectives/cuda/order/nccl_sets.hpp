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
/// exchange between the members. A set whose members all use NCCL in no other set when it connects needs none. Later
/// its members have no batch from which on all of them know that an order is needed, so the set stays without an order.
/// A set that connects later and has a member in common with it cannot use NCCL.
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
    /// What a rank tells the other members of a set about its other sets.
    struct Others {
        bool any = false;                           ///< whether there are any
        std::optional<std::int32_t> without_order{};  ///< one of them that has no order
    };

    /// Adds a set before its members decide about NCCL. Until decide(), it counts as a set without an order, unless
    /// this rank has others, or `expects_others`: then the members decide for an order or against NCCL. Returns the
    /// other sets of this rank and of this device.
    [[nodiscard]] Others add(const Use& use, bool expects_others);
    /// The members have decided for NCCL.
    void decide(const void* owner, bool has_order);
    /// The rank does not use NCCL in this set, or no longer. Does nothing if there is no such use.
    void remove(const void* owner) noexcept;

private:
    struct Entry {
        Use use;
        bool has_order;
    };
    [[nodiscard]] static bool are_related(const Use& a, const Use& b) {
        return a.set != b.set && (a.rank == b.rank || a.device == b.device);
    }

    std::mutex mutex_;  // guards the next one; a thread that holds it takes no other lock
    std::vector<Entry> entries_;
};

}  // namespace rueda::collectives::cuda
