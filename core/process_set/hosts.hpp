// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/selection/make_communicator.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/process_set/several_hosts.hpp"

namespace rueda::core {

/// Class Hosts uses this class for a process set on one host. Most of its functions do nothing, because the ranks
/// append to the log themselves. See class Hosts for the functions.
class OneHost {
public:
    [[nodiscard]] collectives::Task* exchange_splits(CalledBatch& /*batch*/) const { return nullptr; }
    void look_at_communicator() const {}
    void note_batch() const {}
    bool turn(bool /*asks_others*/, bool /*is_executing*/) const { return false; }
    [[nodiscard]] bool has_work() const { return false; }
    [[nodiscard]] bool has_to_poll() const { return false; }
    [[nodiscard]] bool have_left() const { return true; }
    [[nodiscard]] std::int64_t sending_until_ns() const { return 0; }
    void send_until(std::int64_t /*time_ns*/) const {}
    void take_back_receives() const {}
    void leave(const Status& /*reason*/) const noexcept {}
    [[nodiscard]] std::optional<StallMonitor::Finding> find_stall(StallMonitor& monitor, std::int64_t now_ns) const {
        return monitor.tick(now_ns);
    }
    [[nodiscard]] bool reports_stalls(const StallMonitor& monitor, std::int64_t now_ns) const {
        return monitor.is_reporter(now_ns);
    }
    [[nodiscard]] std::vector<std::int32_t> ranks_elsewhere() const { return {}; }
    void explain_failures_with(const std::function<Status(const Status& failure)>& /*explain*/) const {}
};

/// How a process set exchanges decisions and data with other hosts. Callers need not know whether there are other
/// hosts. The class holds a variant instead of using virtual functions, because the shortest path of an operation calls
/// it (docs/design/0014-process-set.md).
///
/// Threads: the thread that drives progress, unless a comment says otherwise.
class Hosts {
    template <class F>
    decltype(auto) ask(F&& f) {
        SeveralHosts* several = std::get_if<SeveralHosts>(&hosts_);
        return several != nullptr ? f(*several) : f(*std::get_if<OneHost>(&hosts_));
    }
    template <class F>
    decltype(auto) ask(F&& f) const {
        const SeveralHosts* several = std::get_if<SeveralHosts>(&hosts_);
        return several != nullptr ? f(*several) : f(*std::get_if<OneHost>(&hosts_));
    }

public:
    /// An empty `others` means that all members are on this host.
    Hosts(const base::Config& config, const std::shared_ptr<collectives::Arena>& arena,
          const std::optional<OtherHosts>& others, const SetView& view, const PartsForHosts& parts)
        : communicator_(collectives::make_communicator(arena, others)) {
        if (others) {
            hosts_.emplace<SeveralHosts>(config, arena, *communicator_, *others, view, parts);
        } else {
            hosts_.emplace<OneHost>();
        }
    }

    [[nodiscard]] collectives::Communicator& communicator() { return *communicator_; }
    /// Returns the task in which ranks of several hosts tell each other how many rows of `batch` they send. Returns
    /// null if no such exchange is needed.
    [[nodiscard]] collectives::Task* exchange_splits(CalledBatch& batch) {
        return ask([&](auto& hosts) { return hosts.exchange_splits(batch); });
    }
    /// Call this while a task makes no progress. Ends the job if the task's communicator has failed.
    void look_at_communicator() {
        ask([](auto& hosts) { hosts.look_at_communicator(); });
    }
    /// Call this when no further batch will run. On one host, the function frees the communicator. On several hosts,
    /// MPI may still use the communicator's memory, so it is kept.
    void release_memory() {
        if (std::holds_alternative<OneHost>(hosts_)) {
            communicator_.reset();
        }
    }
    /// Call this when a task has ended. The data that the task sent may still be inside the transport for some time.
    void note_batch() {
        ask([](auto& hosts) { hosts.note_batch(); });
    }

    /// Does the work that is possible now. If `asks_others` is false, handles only what ranks of this host have posted.
    /// `is_executing` is true if a task is in progress; a task handles its messages itself. Returns true if anything
    /// was done.
    bool turn(bool asks_others, bool is_executing) {
        return ask([&](auto& hosts) { return hosts.turn(asks_others, is_executing); });
    }
    /// Whether ranks of this host have posted requests for the other hosts. Any thread.
    [[nodiscard]] bool has_work() const {
        return ask([](const auto& hosts) { return hosts.has_work(); });
    }
    /// Whether this rank must poll, because messages from other hosts wake no thread. Any thread.
    [[nodiscard]] bool has_to_poll() const {
        return ask([](const auto& hosts) { return hosts.has_to_poll(); });
    }
    /// Returns true once no other host needs this rank any more. May be called only for a closed set.
    [[nodiscard]] bool have_left() const {
        return ask([](const auto& hosts) { return hosts.have_left(); });
    }
    /// Makes this set call MPI until MPI has sent the last messages of `other`, a set that has been removed.
    void look_after_messages_of(const Hosts& other) {
        const std::int64_t until = other.ask([](const auto& hosts) { return hosts.sending_until_ns(); });
        ask([until](auto& hosts) { hosts.send_until(until); });
    }
    /// Cancels the receives of a set that is removed before the job ends. Call this after have_left().
    void take_back_receives() {
        ask([](auto& hosts) { hosts.take_back_receives(); });
    }
    /// Notifies the other hosts after an abort. Afterwards nothing is sent or received.
    void leave(const Status& reason) noexcept {
        ask([&](auto& hosts) { hosts.leave(reason); });
    }

    /// Returns the operations that make no progress. On one host, `monitor` finds them. On several hosts, the root of
    /// the tree finds them, and `monitor` is not used. The background thread calls this.
    [[nodiscard]] std::optional<StallMonitor::Finding> find_stall(StallMonitor& monitor, std::int64_t now_ns) {
        return ask([&](auto& hosts) { return hosts.find_stall(monitor, now_ns); });
    }
    /// Whether this rank prints what find_stall() finds. Any thread.
    [[nodiscard]] bool reports_stalls(const StallMonitor& monitor, std::int64_t now_ns) const {
        return ask([&](const auto& hosts) { return hosts.reports_stalls(monitor, now_ns); });
    }
    /// The members on other hosts, by their numbers in the job. Any thread.
    [[nodiscard]] std::vector<std::int32_t> ranks_elsewhere() const {
        return ask([](const auto& hosts) { return hosts.ranks_elsewhere(); });
    }
    /// See ProcessSet::explain_failures_with().
    void explain_failures_with(std::function<Status(const Status& failure)> explain) {
        ask([&](auto& hosts) { hosts.explain_failures_with(std::move(explain)); });
    }

private:
    std::unique_ptr<collectives::Communicator> communicator_;  // with one host, release_memory() makes it null
    std::variant<std::monostate, OneHost, SeveralHosts> hosts_;
};

}  // namespace rueda::core
