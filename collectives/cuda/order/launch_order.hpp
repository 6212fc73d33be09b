// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace rueda::collectives::cuda {

/// The order in which the devices of this process launch the batches of several process sets. It agrees with the order
/// on the devices of all other members.
///
/// A device's stream is a queue. If two process sets share two members, both members must therefore launch the batches
/// of the two sets in the same order. Otherwise the first kernel on each GPU would wait for a kernel that comes second
/// on the other GPU. The log of a set orders only the batches of this set. This class is Skeen's algorithm for totally
/// ordered multicast (Birman and Joseph, "Reliable Communication in the Presence of Failures", ACM TOCS 5(1), 1987,
/// section 5.2):
///
/// 1. A member that comes to a batch *enters* it, and proposes a number. The number is higher than all numbers that
///    the member's process has seen.
/// 2. The members of the set exchange their proposals. The highest proposal is the batch's *agreed number* on all
///    members.
/// 3. A device launches the batch with the lowest agreed number. But first it waits for each other batch that has no
///    agreed number yet and whose proposal is lower, because that batch could come first. A batch's agreed number is
///    never lower than its proposals, so no batch can later come before a batch that was launched.
///
/// Equal numbers of two sets are ordered by the numbers of the sets. Sets that have a member in common have different
/// numbers.
///
/// All devices of the process share one counter of numbers. The reason: a program can make a batch on one device wait
/// for the end of a batch on another device. With one counter, the waiting batch has the higher number, as if both
/// batches were in one stream.
///
/// Threads: any thread may call any function.
class LaunchOrder {
public:
    /// Enters a batch of process set `set` on `device`. `owner` identifies this rank's part in the set. An owner has at
    /// most one batch at a time. Returns the proposal.
    [[nodiscard]] std::uint64_t enter(const void* owner, int device, std::int32_t set);
    /// Sets the batch's number: the highest proposal of all members.
    void agree(const void* owner, std::uint64_t number);
    /// Returns the process set of another batch for which the owner's batch must wait. That batch comes first, or could
    /// come first because its number is not agreed yet. Returns nothing if the owner's batch can be launched now. It
    /// then returns nothing until leave() is called. The owner must have called agree().
    [[nodiscard]] std::optional<std::int32_t> awaited(const void* owner) const;
    /// Removes the owner's batch from the order, because the batch was launched or will never be launched. Does nothing
    /// if the owner has no batch.
    void leave(const void* owner) noexcept;

private:
    struct Entry {
        const void* owner;
        int device;
        std::int32_t set;
        std::uint64_t number;  // the proposal until is_agreed
        bool is_agreed;
    };
    [[nodiscard]] static bool precedes(const Entry& a, const Entry& b) {
        return a.number != b.number ? a.number < b.number : a.set < b.set;
    }

    mutable std::mutex mutex_;  // guards all fields; a thread that holds it takes no other lock
    std::vector<Entry> entries_;
    std::uint64_t highest_ = 0;  // the highest number that this process has seen
};

}  // namespace rueda::collectives::cuda
