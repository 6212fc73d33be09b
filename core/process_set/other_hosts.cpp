// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The side of a set on several hosts that is turned to the other hosts (docs/design/0002-several-hosts.md).
#include <algorithm>

#include "base/system/clock.hpp"
#include "core/hosts/host_tree.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

std::optional<OtherHosts> other_hosts(const base::Config& config, const collectives::LocalGroup& group,
                                      collectives::Transport* transport) {
    if (group.host_count == 1) {
        return std::nullopt;
    }
    return OtherHosts{group,
                      *transport,
                      {.small_bytes = config.doubling_limit_bytes,
                       .ring = config.ring,
                       .network_chunk_bytes = config.network_chunk_bytes}};
}

/// True: something came from other hosts, or went there.
bool ProcessSet::turn_leader() {
    const Result<Leader::Moved> moved = leader_->turn();
    if (!moved.is_ok()) {
        raise_network_failure(moved.status());
        return true;
    }
    if (moved.value().log) {
        waking_.announced_more(Urgency::driving);
    }
    if (moved.value().served) {
        tell_joined_of_posts();  // who posted told them as well; but only now is there a name to see
    }
    if (moved.value().anything) {
        retry_numbers_later();
    }
    return moved.value().anything;
}

/// What this rank's last task has sent may still lie in MPI, though the task is done; a leader asks for messages
/// always.
void ProcessSet::turn_transport() {
    if (arena_->blocks().abort().raised()) {
        return;
    }
    if (const Status moved = transport_->progress(); !moved.is_ok()) {
        raise_network_failure(moved);
    }
}

void ProcessSet::look_after_messages_of(const ProcessSet& other) {
    sending_until_ns_.store(std::max(sending_until_ns_.load(std::memory_order_relaxed),
                                     other.sending_until_ns_.load(std::memory_order_relaxed)),
                            std::memory_order_relaxed);
}

/// The registrar of a led set works in the leader's turn, not in a post: what it keeps there until all have read that
/// numbers are free is taken up by retry_deferred().
void ProcessSet::retry_numbers_later() {
    const std::lock_guard lock(enqueue_mutex_);
    if (registrar_.holds_announcements()) {
        deferred_.store(true, std::memory_order_seq_cst);
        waking_.ring_readers(registrar_.waits_for_readers());
    }
}

void ProcessSet::take_back_receives() {
    if (leader_ == nullptr || arena_->blocks().abort().raised()) {
        return;
    }
    if (const Status taken = leader_->take_back_receives(); !taken.is_ok()) {
        raise_network_failure(taken);
    }
}

void ProcessSet::leave_other_hosts(const Status& reason) noexcept {
    if (leader_ != nullptr) {
        leader_->end(reason);
    } else if (group_ != nullptr && is_deputy(*group_)) {
        tell_neighbours(*transport_, *group_, collectives::Transport::Channel::end_reason, reason);
    }
    communicator_->abandon();
    if (transport_ != nullptr) {
        transport_->abandon();
    }
}

void ProcessSet::raise_network_failure(const Status& failure) {
    if (arena_->blocks().abort().raised()) {
        return;  // by who saw it first, and explained it
    }
    const Status reason = explain_ ? explain_(failure) : failure;
    raise(reason.code(), reason.message());
}

}  // namespace rueda::core
