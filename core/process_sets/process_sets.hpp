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

namespace rueda::core {

/// The process sets of a job other than the world: their members, and how sets come and go
/// (docs/design/0004-process-sets.md).
///
/// Threads: any. Lock order: changing(), then the mutex of the table; nothing else is locked under that one.
class ProcessSets {
public:
    /// The parts of the job. The references outlive this object.
    struct Job {
        const base::Config& config;
        const collectives::LocalGroup& group;
        const std::shared_ptr<collectives::Arena>& arena;
        collectives::Transport* transport;  // null if the job has one host
        ProcessSet& world;
        Engine& engine;
        std::atomic<std::uint32_t>& pending;  // see ProcessSet
        // the first number of this job's sets; sets of earlier jobs had lower numbers
        std::int32_t first_id = 1;
    };
    explicit ProcessSets(const Job& job);

    /// Collective over all ranks of the job, with the same ranks in any order. Returns the number of the new set, the
    /// same on all ranks. Mismatch if the ranks were called with different arguments; InvalidArgument for ranks that
    /// cannot be a set or are one already. Errors are the same on all ranks, and nothing has changed then.
    Result<std::int32_t> add(std::span<const int> ranks);
    /// Collective over all ranks of the job. Operations that are pending in the set fail. Errors are as in add().
    Status remove(std::int32_t id);
    /// Collective over these ranks, which include this one, and no others. There may be several such sets of the same
    /// ranks. Returns its number, which is the same on its members and means nothing on other ranks.
    Result<std::int32_t> add_among(std::span<const int> ranks);
    /// For a set made by add_among(): this rank leaves it. Does not wait.
    Status leave(std::int32_t id);

    /// The set for an operation of this rank; InvalidArgument if there is no such set or this rank is not a member. The
    /// set stays as long as the pointer is held; operations on a removed set are refused.
    [[nodiscard]] Result<std::shared_ptr<ProcessSet>> find(std::int32_t id) const;
    /// InvalidArgument if there is no such set.
    [[nodiscard]] Result<SetIdentity> identity(std::int32_t id) const;
    /// The set of these ranks, in any order, that all ranks of the job have made; InvalidArgument if there is none.
    [[nodiscard]] Result<std::int32_t> id_of(std::vector<int> ranks) const;
    /// The numbers of all sets, ascending, the world's 0 first.
    [[nodiscard]] std::vector<std::int32_t> ids() const;

    /// The number that the next set would get here: neither it nor a higher one was used in this job. Waits for threads
    /// that add or remove sets.
    [[nodiscard]] std::int32_t next_id();

    /// A thread that adds or removes sets holds this lock. While it does, joined() returns all sets of which this rank
    /// is a member, except the world.
    [[nodiscard]] std::mutex& changing() { return changing_; }
    [[nodiscard]] std::vector<std::shared_ptr<ProcessSet>> joined() const;
    /// Call it with the lock: the job has ended, and its sets do not change any more.
    void end() { ended_ = true; }
    /// NotInitialized after end(). Call it with the lock.
    [[nodiscard]] Status check_going() const;

private:
    struct Known {
        SetIdentity identity;
        std::shared_ptr<ProcessSet> set;  // null if this rank is not a member
        bool of_members = false;          // only its members made it
    };
    struct Joined;

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
    std::int32_t next_id_;     // under changing_; neither it nor a higher one was used by a set of this rank
    std::vector<Known> left_;  // under changing_; other members may still be in these sets
    bool ended_ = false;       // under changing_
    mutable std::mutex mutex_;
    std::map<std::int32_t, Known> known_;
};

}  // namespace rueda::core
