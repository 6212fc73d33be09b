// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_sets/process_sets.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "collectives/set_transport.hpp"
#include "collectives/wire.hpp"
#include "core/hosts/leader_connections.hpp"
#include "core/operations/requests.hpp"
#include "core/process_sets/member_exchange.hpp"
#include "core/process_sets/set_changes.hpp"
#include "core/setup/set_up_group.hpp"

namespace rueda::core {

using collectives::Bytes;

/// Everything that a set needs. This object lives as long as a thread holds the set. `set` is declared last, so it is
/// destroyed first.
struct ProcessSets::Joined {
    collectives::LocalGroup group;
    std::unique_ptr<collectives::SetTransport> transport;
    std::shared_ptr<collectives::Arena> arena;
    std::unique_ptr<ProcessSet> set;
};

ProcessSets::ProcessSets(const Job& job) : job_(job), next_id_(job.first_id) {
    known_[0] = {job.world.identity(), nullptr, false};
}

Result<std::int32_t> ProcessSets::add(std::span<const int> ranks) {
    const std::lock_guard changing(changing_);
    RUEDA_RETURN_IF_FAILED(check_going());
    SetIdentity identity{0, {ranks.begin(), ranks.end()}};
    std::sort(identity.ranks.begin(), identity.ranks.end());
    const JobExchange all = [this](std::span<const std::byte> mine) { return exchange(mine); };
    const Result<std::int32_t> id = agree(all, encode(SetChange::add, identity.ranks), "add_process_set");
    RUEDA_RETURN_IF_FAILED(id.status());
    identity.id = id.value();
    RUEDA_RETURN_IF_FAILED(check_ranks(identity.ranks, "add_process_set"));
    RUEDA_RETURN_IF_FAILED(check_new(identity));
    return set_up(identity, all, /*of_members=*/false);
}

Result<std::int32_t> ProcessSets::add_among(std::span<const int> ranks) {
    constexpr const char* kFunction = "add_process_set_among";
    const std::lock_guard changing(changing_);
    RUEDA_RETURN_IF_FAILED(check_going());
    let_go_of_closed();
    SetIdentity identity{0, {ranks.begin(), ranks.end()}};
    std::sort(identity.ranks.begin(), identity.ranks.end());
    RUEDA_RETURN_IF_FAILED(check_ranks(identity.ranks, kFunction));
    if (!identity.member_of(job_.group.rank)) {
        return failure(ErrorCode::invalid_argument,
                       "{} may be called only by the members of the new set, and rank {} is not one of {}", kFunction,
                       job_.group.rank, base::format_ranks(identity.ranks));
    }
    const JobExchange members = MemberExchange(job_.engine, identity.ranks, job_.group.rank, job_.group.size);
    const Result<std::int32_t> id = agree(members, encode(SetChange::add_among, identity.ranks), kFunction);
    RUEDA_RETURN_IF_FAILED(id.status());
    identity.id = id.value();
    RUEDA_RETURN_IF_FAILED(check_number(identity));
    return set_up(identity, members, /*of_members=*/true);
}

Status ProcessSets::check_going() const {
    return ended_ ? Status(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank") : Status();
}

/// Creates the set on whose members the ranks have agreed, and makes it visible on this rank.
Result<std::int32_t> ProcessSets::set_up(const SetIdentity& identity, const JobExchange& exchange, bool of_members) {
    next_id_ = identity.id + 1;
    std::map<std::int32_t, Known> made;
    try {
        // The table's entry is allocated before the engine gets the set. If the allocation came later and failed, the
        // set would be missing in the table and would never be shut down.
        Known& known = made[identity.id];
        known = {identity, nullptr, of_members};
        RUEDA_RETURN_IF_FAILED(join(identity, exchange, known.set));
    } catch (const std::bad_alloc&) {
        end_job(identity, "there is no memory left");  // ends the job, because the other ranks wait for this rank's
                                                       // next step
        throw;
    }
    const std::lock_guard lock(mutex_);
    known_.merge(made);
    count_shared();
    return identity.id;
}

/// Counts the sets for shared_count(). Call this after each change of the table, with the table's mutex held.
void ProcessSets::count_shared() noexcept {
    const auto count = std::count_if(known_.begin(), known_.end(), [](const auto& entry) {
        return entry.second.set != nullptr && entry.second.identity.ranks.size() > 1;
    });
    shared_count_.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
}

Status ProcessSets::remove(std::int32_t id) {
    const std::lock_guard changing(changing_);
    RUEDA_RETURN_IF_FAILED(check_going());
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = known_.find(id); known != known_.end() && known->second.of_members) {
            return failure(
                ErrorCode::invalid_argument,
                "{} was made by add_process_set_among: each of its members must leave it with leave_process_set",
                known->second.identity.describe());
        }
    }
    const JobExchange all = [this](std::span<const std::byte> mine) { return exchange(mine); };
    RUEDA_RETURN_IF_FAILED(agree(all, encode(SetChange::remove, std::span(&id, 1)), "remove_process_set").status());
    if (id == 0) {
        return {ErrorCode::invalid_argument, "process set 0 is the world, which cannot be removed"};
    }
    Known removed;
    {
        const std::lock_guard lock(mutex_);
        const auto known = known_.find(id);
        if (known == known_.end()) {
            return failure(ErrorCode::invalid_argument, "there is no process set {} to remove", id);
        }
        removed = std::move(known->second);
        known_.erase(known);
        count_shared();
    }
    if (removed.set == nullptr) {
        return {};
    }
    RUEDA_RETURN_IF_FAILED(job_.engine.announce_shutdown(*removed.set, EndCall::remove));
    RUEDA_RETURN_IF_FAILED(job_.engine.wait_until_closed(*removed.set));
    job_.engine.remove(*removed.set,
                       failure(ErrorCode::invalid_argument, "{} has been removed", removed.identity.describe()));
    return job_.engine.aborted() ? job_.engine.abort_reason() : Status();
}

Status ProcessSets::leave(std::int32_t id) {
    const std::lock_guard changing(changing_);
    RUEDA_RETURN_IF_FAILED(check_going());
    {
        const std::lock_guard lock(mutex_);
        const auto known = known_.find(id);
        if (known == known_.end() || !known->second.of_members) {
            return failure(ErrorCode::invalid_argument,
                           "leave_process_set: process set {} was not made by add_process_set_among on this rank", id);
        }
        left_.push_back(std::move(known->second));
        known_.erase(known);
        count_shared();
    }
    ProcessSet& set = *left_.back().set;
    Status announced = job_.engine.announce_shutdown(set, EndCall::leave);
    set.end_to_await_end();  // leave() does not wait for the other members, because they may leave the set much later
    RUEDA_RETURN_IF_FAILED(announced);
    let_go_of_closed();
    return {};
}

/// `left_` lists the process sets that this rank has left. Removes each of them that the other members have left, too.
/// The remaining process sets end with the job.
void ProcessSets::let_go_of_closed() {
    std::erase_if(left_, [this](const Known& left) {
        if (!left.set->has_left()) {
            return false;
        }
        job_.engine.remove(*left.set, failure(ErrorCode::invalid_argument, "{} has been left by all its members",
                                              left.identity.describe()));
        return true;
    });
}

Result<std::shared_ptr<ProcessSet>> ProcessSets::find(std::int32_t id) const {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(id);
    if (known == known_.end()) {
        return failure(
            ErrorCode::invalid_argument,
            "there is no process set {}: it was removed, or is of an earlier job, or add_process_set has not "
            "returned it",
            id);
    }
    if (known->second.set == nullptr) {
        return failure(ErrorCode::invalid_argument, "rank {} is not a member of {}", job_.group.rank,
                       known->second.identity.describe());
    }
    return known->second.set;
}

Result<SetIdentity> ProcessSets::identity(std::int32_t id) const {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(id);
    if (known == known_.end()) {
        return failure(ErrorCode::invalid_argument, "there is no process set {}", id);
    }
    return known->second.identity;
}

Result<std::int32_t> ProcessSets::id_of(std::vector<int> ranks) const {
    std::sort(ranks.begin(), ranks.end());
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(known_.begin(), known_.end(), [&ranks](const auto& entry) {
        return !entry.second.of_members && entry.second.identity.ranks == ranks;
    });
    if (known == known_.end()) {
        return failure(ErrorCode::invalid_argument,
                       "init: this job has begun already, without a process set of {}: make it with add_process_set",
                       base::format_ranks(ranks));
    }
    return known->first;
}

std::int32_t ProcessSets::next_id() {
    const std::lock_guard changing(changing_);
    return next_id_;
}

std::vector<std::int32_t> ProcessSets::ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::int32_t> all;
    for (const auto& [id, known] : known_) {
        all.push_back(id);
    }
    return all;
}

std::vector<std::shared_ptr<ProcessSet>> ProcessSets::joined() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<ProcessSet>> sets;
    for (const auto& [id, known] : known_) {
        if (known.set != nullptr) {
            sets.push_back(known.set);
        }
    }
    return sets;
}

Result<std::vector<Bytes>> ProcessSets::exchange(std::span<const std::byte> mine) {
    collectives::WireWriter writer;
    writer.number(static_cast<std::uint32_t>(mine.size()));
    writer.append(mine);
    Bytes bytes = std::move(writer).take();
    const std::int64_t length = static_cast<std::int64_t>(bytes.size());
    const rueda_options options = RUEDA_OPTIONS_INIT;
    Request request;
    RUEDA_RETURN_IF_FAILED(make_allgather({bytes.data(), &length, 1, RUEDA_UINT8}, nullptr, options, request));
    Completion completion;
    RUEDA_RETURN_IF_FAILED(job_.engine.run(
        job_.world, [&](Urgency urgency) { return job_.world.submit(kSetChangeName, request, completion, urgency); },
        completion));
    const Completion::Output& all = completion.output();
    return split_by_rank({all.memory.get(), static_cast<std::size_t>(all.shape.front())}, job_.group.size);
}

void ProcessSets::end_job(const SetIdentity& identity, const std::string& why) const {
    job_.engine.raise(ErrorCode::aborted, fmt::format("rank {} could not go on with setting up {}: {}", job_.group.rank,
                                                      identity.describe(), why));
}

/// Checks that all ranks request the same change. Returns the number for the next set. No rank has used this number
/// before.
Result<std::int32_t> ProcessSets::agree(const JobExchange& exchange, std::span<const std::byte> mine,
                                        const char* function) {
    collectives::WireWriter writer;
    writer.number(next_id_);
    writer.append(mine);
    const Result<std::vector<Bytes>> all = exchange(std::move(writer).take());
    if (!all.is_ok()) {
        return Status(all.status().code(), fmt::format("{}: {}", function, all.status().message()));
    }
    std::map<Bytes, std::vector<std::int32_t>> ranks_of;
    std::int32_t next = next_id_;
    for (std::size_t rank = 0; rank < all.value().size(); ++rank) {
        if (all.value()[rank].empty()) {
            continue;  // `rank` takes no part in the exchange
        }
        collectives::WireReader reader(all.value()[rank]);
        next = std::max(next, reader.number<std::int32_t>());
        const auto asked = std::span(all.value()[rank]).subspan(reader.intact() ? sizeof next : 0);
        ranks_of[Bytes(asked.begin(), asked.end())].push_back(static_cast<std::int32_t>(rank));
    }
    if (ranks_of.size() == 1) {
        return next;
    }
    std::string who;
    for (const auto& [bytes, ranks] : ranks_of) {
        who += fmt::format("{}{}: {}", who.empty() ? "" : "; ", base::format_ranks(ranks), describe_set_change(bytes));
    }
    return failure(ErrorCode::mismatch, "the ranks ask for different changes of the process sets: {}", who);
}

Status ProcessSets::check_ranks(const std::vector<int>& ranks, const char* function) const {
    if (ranks.empty()) {
        return failure(ErrorCode::invalid_argument, "{} needs at least one rank", function);
    }
    if (ranks.front() < 0 || ranks.back() >= job_.group.size) {
        return failure(ErrorCode::invalid_argument, "{}: there is no rank {}; expected 0 to {}", function,
                       ranks.front() < 0 ? ranks.front() : ranks.back(), job_.group.size - 1);
    }
    if (const auto twice = std::adjacent_find(ranks.begin(), ranks.end()); twice != ranks.end()) {
        return failure(ErrorCode::invalid_argument, "{} names rank {} twice", function, *twice);
    }
    return {};
}

/// The number of the set among the sets of this job, from 1. Messages between hosts identify the set by this number.
std::uint32_t ProcessSets::number_in_job(const SetIdentity& identity) const {
    return static_cast<std::uint32_t>(identity.id) - static_cast<std::uint32_t>(job_.first_id) + 1;
}

Status ProcessSets::check_number(const SetIdentity& identity) const {
    return number_in_job(identity) < collectives::Transport::kMostSets
               ? Status()
               : failure(ErrorCode::resource_exhausted,
                         "a job can add {} process sets in its life; keep and reuse them",
                         collectives::Transport::kMostSets - 1);
}

/// Checks that the job may have one more set, and that no set of add() has the same ranks. Sets of add_among() do not
/// count, because only their members know them.
Status ProcessSets::check_new(const SetIdentity& identity) const {
    RUEDA_RETURN_IF_FAILED(check_number(identity));
    const std::lock_guard lock(mutex_);
    for (const auto& [id, known] : known_) {
        if (!known.of_members && known.identity.ranks == identity.ranks) {
            return failure(ErrorCode::invalid_argument,
                           "add_process_set: process set {} has the same ranks already ({})", id,
                           base::format_ranks(identity.ranks));
        }
    }
    return {};
}

/// Sets up the set together with the other members. If this rank is not a member, it only follows the members' steps,
/// and `set` stays empty.
Status ProcessSets::join(const SetIdentity& identity, const JobExchange& exchange, std::shared_ptr<ProcessSet>& set) {
    const JobExchange exchange_or_end = [this, &identity, &exchange](std::span<const std::byte> mine) {
        Result<std::vector<Bytes>> all = exchange(mine);
        // Perhaps only this rank knows of the failure, while the other ranks wait for its next step. So this rank ends
        // the job. This is not needed if the exchange failed because the job or a rank has ended: all ranks know that.
        if (!all.is_ok() && all.status().code() != ErrorCode::aborted &&
            all.status().code() != ErrorCode::not_initialized) {
            end_job(identity, all.status().message());
        }
        return all;
    };
    if (!identity.member_of(job_.group.rank)) {
        return SetUpPlane::follow(exchange_or_end, identity);
    }
    SetUpPlane plane(exchange_or_end, identity, job_.group.rank);
    Result<std::shared_ptr<Joined>> joined = make(identity, plane);
    Status status = joined.status();
    if (status.is_ok()) {
        status = plane.barrier();  // after this barrier, no member calls give_up() any more
    }
    if (!status.is_ok()) {
        plane.give_up(status);
        return {status.code(), fmt::format("{} could not be set up: {}", identity.describe(), status.message())};
    }
    set = std::shared_ptr<ProcessSet>(joined.value(), joined.value()->set.get());
    job_.engine.add(set, joined.value()->arena);
    status = plane.finish();
    if (!status.is_ok()) {
        job_.engine.remove(*set, status);
    }
    return status;
}

Result<std::shared_ptr<ProcessSets::Joined>> ProcessSets::make(const SetIdentity& identity, SetUpPlane& plane) const {
    // taken from the job's group, because these facts do not change during the job
    std::vector<collectives::RankFacts> facts;
    for (const int rank : identity.ranks) {
        facts.push_back(job_.group.facts[static_cast<std::size_t>(rank)]);
    }
    collectives::LocalGroup group = collectives::group_by_host(plane.rank(), std::move(facts));
    group.job_ranks = identity.ranks;
    Result<RankGroup> ranks = set_up_group(job_.config, plane, std::move(group), ResidentRoom::no);
    RUEDA_RETURN_IF_FAILED(ranks.status());
    auto joined = std::make_shared<Joined>();
    joined->group = std::move(ranks.value().group);
    joined->arena = std::move(ranks.value().attached.arena);
    // The numbers that the set's members on this host have in the job's arena.
    std::vector<std::uint32_t> members;
    for (const int member : joined->group.members) {
        const auto found =
            std::lower_bound(job_.group.members.begin(), job_.group.members.end(), joined->group.job_rank(member));
        members.push_back(static_cast<std::uint32_t>(found - job_.group.members.begin()));
    }
    joined->arena->join(job_.arena, members);
    if (joined->group.host_count > 1) {
        joined->transport =
            std::make_unique<collectives::SetTransport>(*job_.transport, identity.ranks, number_in_job(identity));
        if (job_.leaders != nullptr) {
            RUEDA_RETURN_IF_FAILED(
                connect_leaders_of_set(*job_.leaders, plane, joined->group, number_in_job(identity)));
        }
    }
    joined->set =
        std::make_unique<ProcessSet>(job_.config, identity, joined->arena, ranks.value().attached.extent,
                                     other_hosts(job_.config, joined->group, joined->transport.get()), job_.pending);
    return joined;
}

}  // namespace rueda::core
