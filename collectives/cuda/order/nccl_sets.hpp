// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace rueda::collectives::cuda {

/// The list of process sets (with more than one rank) in which this process uses NCCL, or offers to use it.
///
/// If a rank uses NCCL in several sets, their batches need an order (LaunchOrder), and each batch then costs an
/// exchange between the members. To avoid this cost, a set connects without an order if none of its members uses NCCL
/// in another set at that time. Suppose that a second set connects later and has a member in common with the first set.
/// The second set cannot use NCCL at first. It asks the first set to begin an order. From time to time, the members of
/// a set without an order tell each other whether they were asked (OrderTask). If one of them was asked, all of them
/// begin an order at the same batch.
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
        bool any = false;  ///< whether the rank has any other sets
        /// the number of another set of the rank that has no launch order; nothing if there is no such set
        std::optional<std::int32_t> without_order{};
    };

    /// Adds a set before its members decide about NCCL, and asks the other sets of this rank and of this device to
    /// begin an order. Returns facts about these other sets. Until decide() is called, it is not known whether the
    /// added set has an order. If there are other sets, or if `expects_others` is true, the added set counts as a set
    /// with an order: its members will use NCCL with an order, or will not use NCCL. Otherwise it counts as a set
    /// without an order.
    [[nodiscard]] Others add(const Use& use, bool expects_others);
    /// Records that the members of the set have decided to use NCCL, with or without a launch order.
    void decide(const void* owner, bool has_order);
    /// Whether another set has asked this set to begin a launch order.
    [[nodiscard]] bool is_asked(const void* owner);
    /// Records that the rank does not use NCCL in this set, or no longer uses it. Does nothing if the set is not in the
    /// list.
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

    std::mutex mutex_;  // guards entries_; a thread that holds it takes no other lock
    std::vector<Entry> entries_;
};

}  // namespace rueda::collectives::cuda
