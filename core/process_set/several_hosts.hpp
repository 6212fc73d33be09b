// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "base/system/clock.hpp"
#include "collectives/communicator.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/selection/make_communicator.hpp"
#include "collectives/transport.hpp"
#include "core/hosts/leader.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/batches/called_batch.hpp"
#include "core/process_set/common/joined_members.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/waking.hpp"

namespace rueda::core {

using collectives::OtherHosts;

/// Describes the other hosts of the group. The result is empty if all members are on one host.
[[nodiscard]] std::optional<OtherHosts> other_hosts(const base::Config& config, const collectives::LocalGroup& group,
                                                    collectives::Transport* transport);

/// The parts of the set that SeveralHosts uses. They must outlive the object.
struct PartsForHosts {
    Announcer& announcer;
    const JoinedMembers& joined;
    OperationEnds& ends;
    const Waking& waking;
};

/// A process set on several hosts (docs/design/0002-several-hosts.md). The leaders of the hosts form a tree that
/// decides what is called. The ranks exchange the data of batches in messages. See class Hosts for the functions.
class SeveralHosts {
public:
    SeveralHosts(const base::Config& config, std::shared_ptr<collectives::Arena> arena,
                 collectives::Communicator& communicator, const OtherHosts& others, const SetView& view,
                 const PartsForHosts& parts);

    [[nodiscard]] collectives::Task* exchange_splits(CalledBatch& batch);
    void look_at_communicator();
    void note_batch() { sending_until_ns_.store(base::coarse_monotonic_ns() + kSendingNs, std::memory_order_relaxed); }

    bool turn(bool asks_others, bool is_executing);
    [[nodiscard]] bool has_work() const { return leader_ != nullptr && leader_->has_work(); }
    [[nodiscard]] bool has_to_poll() const {
        return (leader_ != nullptr && !messages_wake_ && !leader_->has_left()) || is_sending();
    }
    [[nodiscard]] bool have_left() const { return leader_ == nullptr || leader_->has_left(); }
    [[nodiscard]] std::int64_t sending_until_ns() const { return sending_until_ns_.load(std::memory_order_relaxed); }
    void send_until(std::int64_t time_ns);
    void take_back_receives();
    void leave(const Status& reason) noexcept;

    [[nodiscard]] std::optional<StallMonitor::Finding> find_stall(StallMonitor& /*monitor*/, std::int64_t /*now_ns*/) {
        return leader_ != nullptr ? leader_->take_finding() : std::nullopt;
    }
    /// The leader at the root of the tree of hosts prints the reports.
    [[nodiscard]] bool reports_stalls(const StallMonitor& /*monitor*/, std::int64_t /*now_ns*/) const {
        return leader_ != nullptr && group_.host_index == 0;
    }
    [[nodiscard]] std::vector<std::int32_t> ranks_elsewhere() const;
    void explain_failures_with(std::function<Status(const Status& failure)> explain) { explain_ = std::move(explain); }

private:
    [[nodiscard]] bool is_sending() const {
        return (leader_ == nullptr || messages_wake_) &&
               base::coarse_monotonic_ns() < sending_until_ns_.load(std::memory_order_relaxed);
    }

    static constexpr std::int64_t kSendingNs = 1'000'000'000;
    /// Between two calls of MPI, a leader pauses at least for this time. The time is shorter than the shortest sleep of
    /// a thread that polls (20 µs), and longer than a few turns of a thread that spins.
    static constexpr std::int64_t kTransportPauseNs = 5'000;

    bool turn_leader();
    void turn_transport();
    void raise(const Status& failure);

    const SetView& view_;
    Announcer& announcer_;
    const JoinedMembers& joined_;
    OperationEnds& ends_;
    const Waking& waking_;
    const collectives::LocalGroup& group_;
    collectives::Transport& transport_;
    collectives::Communicator& communicator_;
    std::unique_ptr<Leader> leader_;  // only on the leaders
    // True if a message of another leader wakes this rank. The rank then need not poll for such messages.
    const bool messages_wake_;
    std::int64_t drove_transport_ns_ = 0;  // when a leader last called Transport::progress() in turn_transport()
    std::function<Status(const Status&)> explain_;  // may be empty
    /// Before this time, the rank polls for messages often, because it has sent messages that may still be inside MPI.
    /// After this time, the rank polls only when it drives progress for another reason.
    std::atomic<std::int64_t> sending_until_ns_{0};
};

}  // namespace rueda::core
