// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/several_hosts.hpp"

#include <algorithm>
#include <utility>

#include "collectives/hierarchical/hierarchical_options.hpp"
#include "core/hosts/host_tree.hpp"

namespace rueda::core {

std::optional<OtherHosts> other_hosts(const base::Config& config, const collectives::LocalGroup& group,
                                      collectives::Transport* transport) {
    if (group.host_count == 1) {
        return std::nullopt;
    }
    return OtherHosts{group,
                      *transport,
                      {.small_bytes = collectives::small_bytes_for(static_cast<std::uint32_t>(group.host_count),
                                                                   config.doubling_limit_bytes),
                       .network_chunk_bytes = config.network_chunk_bytes}};
}

SeveralHosts::SeveralHosts(const base::Config& config, std::shared_ptr<collectives::Arena> arena,
                           collectives::Communicator& communicator, const OtherHosts& others, const SetView& view,
                           const PartsForHosts& parts)
    : view_(view),
      announcer_(parts.announcer),
      joined_(parts.joined),
      ends_(parts.ends),
      waking_(parts.waking),
      group_(others.group),
      transport_(others.transport),
      communicator_(communicator),
      messages_wake_(transport_.wakes(collectives::Transport::Channel::control)) {
    if (group_.is_leader()) {
        leader_ = std::make_unique<Leader>(config, group_, std::move(arena), view.memory, announcer_.registrar(),
                                           announcer_.enqueue_mutex(), transport_);
        if (view.identity.is_world()) {
            leader_->report_messages();
        }
    }
}

collectives::Task* SeveralHosts::exchange_splits(CalledBatch& batch) {
    if (!collectives::has_splits(batch.operation()) || !communicator_.exchanges_splits()) {
        return nullptr;
    }
    const CalledBatch::Splits splits = batch.begin_splits();
    return &communicator_.start_splits(splits.to, splits.from);
}

void SeveralHosts::look_at_communicator() {
    if (const Status& failed = communicator_.failed(); !failed.is_ok()) {
        raise(failed);
    }
}

bool SeveralHosts::turn(bool asks_others, bool is_executing) {
    if (asks_others && !is_executing && (leader_ == nullptr || messages_wake_)) {
        turn_transport();
    }
    return leader_ != nullptr && (asks_others || leader_->has_work()) && turn_leader();
}

bool SeveralHosts::turn_leader() {
    const Result<Leader::Moved> moved = leader_->turn();
    if (!moved.is_ok()) {
        raise(moved.status());
        return true;
    }
    if (moved.value().log) {
        waking_.announced_more(Urgency::driving);
    }
    if (moved.value().served) {
        // A joined member can see a new name only after the leader has handled the request with the name. The rank that
        // posted the request also woke the joined members, but perhaps too early.
        joined_.tell_of_posts();
    }
    if (moved.value().anything) {
        announcer_.retry_numbers_later();
    }
    return moved.value().anything;
}

/// Calls MPI so that it makes progress, because MPI may still hold messages of this rank's last task. A leader that no
/// message wakes polls MPI all the time, so it need not call this function.
void SeveralHosts::turn_transport() {
    if (ends_.has_aborted()) {
        return;
    }
    if (leader_ != nullptr) {
        // A leader that spins checks its sockets in every turn. It calls MPI less often, because each call delays the
        // next check of the sockets, and MPI does not need so many calls. A thread that sleeps between its turns calls
        // MPI in each turn.
        const std::int64_t now = base::monotonic_ns();
        if (now - drove_transport_ns_ < kTransportPauseNs) {
            return;
        }
        drove_transport_ns_ = now;
    }
    if (const Status moved = transport_.progress(); !moved.is_ok()) {
        raise(moved);
    }
}

void SeveralHosts::send_until(std::int64_t time_ns) {
    sending_until_ns_.store(std::max(sending_until_ns(), time_ns), std::memory_order_relaxed);
}

void SeveralHosts::take_back_receives() {
    if (leader_ == nullptr || ends_.has_aborted()) {
        return;
    }
    if (const Status taken = leader_->take_back_receives(); !taken.is_ok()) {
        raise(taken);
    }
}

void SeveralHosts::leave(const Status& reason) noexcept {
    if (leader_ != nullptr) {
        leader_->end(reason);
    } else if (is_deputy(group_)) {
        tell_neighbours(transport_, group_, collectives::Transport::Channel::end_reason, reason);
    }
    communicator_.abandon();
    transport_.abandon();
}

std::vector<std::int32_t> SeveralHosts::ranks_elsewhere() const {
    const std::vector<int>& ranks = view_.identity.ranks;
    std::vector<std::int32_t> elsewhere;
    for (std::size_t member = 0; member < ranks.size(); ++member) {
        if (group_.host_of[member] != group_.host_index) {
            elsewhere.push_back(ranks[member]);
        }
    }
    return elsewhere;
}

/// Handles a failure of the network between hosts. If the job has already ended, another rank has already reported why.
void SeveralHosts::raise(const Status& failure) {
    if (!ends_.has_aborted()) {
        ends_.raise(explain_ ? explain_(failure) : failure);
    }
}

}  // namespace rueda::core
