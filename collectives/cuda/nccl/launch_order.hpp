// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace rueda::collectives::cuda {

/// The order in which the communicators of one device launch their batches, such that it fits to the order on the
/// devices of all other members.
///
/// A stream is a queue. If two process sets share two members, both members must therefore launch the batches of the
/// two sets in the same order; otherwise each GPU waits for a kernel that stands behind another one on the other GPU.
/// The log of a set orders only the batches of this set. This class is Skeen's algorithm for totally ordered multicast
/// (Birman and Joseph, "Reliable Communication in the Presence of Failures", ACM TOCS 5(1), 1987, section 5.2):
///
/// 1. A member that comes to a batch proposes a number, which is higher than all numbers that its device has seen.
/// 2. The members of the set exchange their proposals. The highest one is the batch's number on all members.
/// 3. A device launches the batch with the lowest number, but not before all lower proposals have become numbers. A
///    number is never lower than its proposal, so no batch can come in front of a launched one.
///
/// Equal numbers of two sets are ordered by the sets' keys. No batch waits for ever: among the batches that wait, the
/// one with the lowest proposal waits for its own members only, and these have all come to it.
///
/// Threads: any thread may call any function.
class LaunchOrder {
public:
    /// Enters a batch of `owner`, which has one batch at a time. `key` is the same on all members of the set, and
    /// differs between sets. Returns the proposal of this member.
    [[nodiscard]] std::uint64_t enter(const void* owner, std::uint64_t key);
    /// Sets the batch's number: the highest proposal of all members.
    void agree(const void* owner, std::uint64_t number);
    /// Whether the batch may be launched now. This stays true until leave().
    [[nodiscard]] bool is_next(const void* owner) const;
    /// The batch was launched, or will never be. Does nothing if the owner has no batch.
    void leave(const void* owner) noexcept;

private:
    struct Entry {
        const void* owner;
        std::uint64_t key;
        std::uint64_t number;  // a proposal until is_agreed
        bool is_agreed;
    };
    [[nodiscard]] static bool precedes(const Entry& a, const Entry& b) {
        return a.number != b.number ? a.number < b.number : a.key < b.key;
    }

    mutable std::mutex mutex_;  // guards all members; no other lock is taken while it is held
    std::vector<Entry> entries_;
    std::uint64_t highest_ = 0;
};

}  // namespace rueda::collectives::cuda
