// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/settings/config.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"
#include "core/engine/engine.hpp"
#include "core/pending/set_identity.hpp"
#include "core/process_set/process_set.hpp"
#include "core/setup/set_up_plane.hpp"

namespace rueda::collectives {
class LeaderTransport;
}  // namespace rueda::collectives

namespace rueda::core {

/// The process sets of a job except the world: who their members are, and how sets are added and removed
/// (docs/design/0004-process-sets.md).
///
/// Threads: any. Lock order: changing(), then the mutex of the table. A thread that holds the table's mutex takes no
/// other lock.
class ProcessSets {
public:
    /// The parts of the job. The references must outlive this object.
    struct Job {
        const base::Config& config;
        const collectives::LocalGroup& group;
        const std::shared_ptr<collectives::Arena>& arena;
        collectives::Transport* transport;      // null if the job has one host
        collectives::LeaderTransport* leaders;  // null if the leaders have no connections; otherwise the same object as
                                                // `transport`
        ProcessSet& world;
        Engine& engine;
        std::atomic<std::uint32_t>& pending;  // see the constructor of ProcessSet
        // The number that the job's first set gets. Earlier jobs of this process used only lower numbers.
        std::int32_t first_id = 1;
    };
    explicit ProcessSets(const Job& job);

    /// Adds a set. Collective over all ranks of the job, which must all give the same ranks, in any order. Returns the
    /// number of the new set. The result is the same on all ranks. If the result is an error, nothing has changed.
    /// - Mismatch: the ranks gave different arguments.
    /// - InvalidArgument: the ranks cannot form a set, or a set with the same ranks exists.
    Result<std::int32_t> add(std::span<const int> ranks);
    /// Removes a set. Collective over all ranks of the job. Operations that are pending in the set fail. The errors are
    /// those of add().
    Status remove(std::int32_t id);
    /// Adds a set. Collective over the given ranks only, which must include this rank. Several such sets may have the
    /// same ranks. Returns the set's number, which only the members may use.
    Result<std::int32_t> add_among(std::span<const int> ranks);
    /// Lets this rank leave a set of add_among(), without waiting for the other members.
    Status leave(std::int32_t id);

    /// Returns the set for an operation of this rank. Fails with InvalidArgument if there is no such set, or if this
    /// rank is not a member. The set exists while the caller holds the pointer, but a removed set refuses operations.
    [[nodiscard]] Result<std::shared_ptr<ProcessSet>> find(std::int32_t id) const;
    /// Returns the members of the set. Fails with InvalidArgument if there is no such set.
    [[nodiscard]] Result<SetIdentity> identity(std::int32_t id) const;
    /// Among the sets that add() created, finds the one with these ranks, and returns its number. The order of the
    /// ranks does not matter. Fails with InvalidArgument if there is no such set.
    [[nodiscard]] Result<std::int32_t> id_of(std::vector<int> ranks) const;
    /// The numbers of all sets, in ascending order; the world's number 0 is the first.
    [[nodiscard]] std::vector<std::int32_t> ids() const;

    /// The number of sets that contain this rank and at least one other rank. The world is not counted.
    [[nodiscard]] std::uint32_t shared_count() const {
        // The load is relaxed, because the program itself ensures that a set is created before an operation in it
        // starts.
        return shared_count_.load(std::memory_order_relaxed);
    }

    /// A number that is higher than the numbers of all sets so far. Waits for threads that add or remove sets.
    [[nodiscard]] std::int32_t next_id();

    /// A thread holds this lock while it adds or removes sets. While the lock is held, joined() returns all sets that
    /// contain this rank, except the world.
    [[nodiscard]] std::mutex& changing() { return changing_; }
    [[nodiscard]] std::vector<std::shared_ptr<ProcessSet>> joined() const;
    /// Records that the job has ended, so that its sets do not change any more. The caller must hold changing().
    void end() { ended_ = true; }
    /// Returns NotInitialized after end(). The caller must hold changing().
    [[nodiscard]] Status check_going() const;

private:
    struct Known {
        SetIdentity identity;
        std::shared_ptr<ProcessSet> set;  // null if this rank is not a member
        bool of_members = false;          // the set was added by add_among()
    };
    struct Joined;

    void count_shared() noexcept;
    [[nodiscard]] Result<std::vector<collectives::Bytes>> exchange(std::span<const std::byte> mine);
    void end_job(const SetIdentity& identity, const std::string& why) const;
    [[nodiscard]] Result<std::int32_t> agree(const JobExchange& exchange, std::span<const std::byte> mine,
                                             const char* function);
    [[nodiscard]] Status check_ranks(const std::vector<int>& ranks, const char* function) const;
    [[nodiscard]] Status check_new(const SetIdentity& identity) const;
    [[nodiscard]] std::uint32_t number_in_job(const SetIdentity& identity) const;
    [[nodiscard]] Status check_number(const SetIdentity& identity) const;
    [[nodiscard]] Result<std::int32_t> set_up(const SetIdentity& identity, const JobExchange& exchange,
                                              bool of_members);
    [[nodiscard]] Status join(const SetIdentity& identity, const JobExchange& exchange,
                              std::shared_ptr<ProcessSet>& set);
    void let_go_of_closed();
    [[nodiscard]] Result<std::shared_ptr<Joined>> make(const SetIdentity& identity, SetUpPlane& plane) const;

    Job job_;
    std::mutex changing_;
    std::int32_t next_id_;     // protected by changing_; higher than the number of every set of this rank
    std::vector<Known> left_;  // protected by changing_; sets that this rank has left, but that other members may not
                               // have left yet
    bool ended_ = false;       // under changing_
    mutable std::mutex mutex_;
    std::map<std::int32_t, Known> known_;
    std::atomic<std::uint32_t> shared_count_{0};  // the number that count_shared() found; read without the mutex
};

}  // namespace rueda::core
