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

/// The process sets of a job beside the world: who is in which, and how they come and go
/// (docs/design/0004-process-sets.md).
///
/// Threads: any. Lock order: changing(), then the mutex of the table; nothing else is locked under that.
class ProcessSets {
public:
    /// Of the job. The references outlive this.
    struct Job {
        const base::Config& config;
        const collectives::LocalGroup& group;
        const std::shared_ptr<collectives::Arena>& arena;
        collectives::Transport* transport;  // null: one host
        ProcessSet& world;
        Engine& engine;
        std::atomic<std::uint32_t>& pending;  // see ProcessSet
        std::int32_t first_id = 1;            // of its sets: those of earlier jobs had lower ones
    };
    explicit ProcessSets(const Job& job);

    /// Collective over all ranks of the job, with the same ranks in any order. Returns the number of the new set, the
    /// same on all. Mismatch where ranks were asked for different things, InvalidArgument for ranks that cannot be a
    /// set or are one already: on all ranks alike, and nothing has changed then.
    Result<std::int32_t> add(std::span<const int> ranks);
    /// Collective over all ranks of the job. What is pending in the set fails. Failures as add().
    Status remove(std::int32_t id);
    /// Collective over these ranks, this one among them, and no others. There may be several such sets of the same
    /// ranks. Returns its number, the same on its members; to other ranks it says nothing.
    Result<std::int32_t> add_among(std::span<const int> ranks);
    /// Of a set made by add_among(): this rank takes no part any more. Waits for nobody.
    Status leave(std::int32_t id);

    /// For an operation of this rank; InvalidArgument if there is no such set, or this rank is not in it. It stays as
    /// long as it is held; operations on one that was removed are refused.
    [[nodiscard]] Result<std::shared_ptr<ProcessSet>> find(std::int32_t id) const;
    /// InvalidArgument if there is no such set.
    [[nodiscard]] Result<SetIdentity> identity(std::int32_t id) const;
    /// Of the set of these ranks, in any order, that all ranks of the job have made; InvalidArgument if there is none.
    [[nodiscard]] Result<std::int32_t> id_of(std::vector<int> ranks) const;
    /// Ascending, the world's 0 first.
    [[nodiscard]] std::vector<std::int32_t> ids() const;

    /// The number that the next set would have here: no set of this job has it, nor a higher one. Waits for who adds or
    /// removes sets.
    [[nodiscard]] std::int32_t next_id();

    /// Held by who adds or removes sets. Who holds it finds in joined() all that this rank is in, the world left out.
    [[nodiscard]] std::mutex& changing() { return changing_; }
    [[nodiscard]] std::vector<std::shared_ptr<ProcessSet>> joined() const;
    /// By who holds it: the job has ended, and its sets do not change any more.
    void end() { ended_ = true; }
    /// NotInitialized after end(). By who holds it.
    [[nodiscard]] Status check_going() const;

private:
    struct Known {
        SetIdentity identity;
        std::shared_ptr<ProcessSet> set;  // null: this rank is no member
        bool of_members = false;          // made by them alone
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
    std::int32_t next_id_;     // under changing_; no set of this rank has had it, nor a higher one
    std::vector<Known> left_;  // under changing_; other members may still be in them
    bool ended_ = false;       // under changing_
    mutable std::mutex mutex_;
    std::map<std::int32_t, Known> known_;
};

}  // namespace rueda::core
