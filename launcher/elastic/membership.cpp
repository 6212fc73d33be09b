// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/elastic/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/launcher_notification.hpp"

namespace rueda::launcher {

namespace {

using Change = base::LauncherNotification::SlotChange;

/// A host gets no new worker for at least this time after a failure there, even if the user chose a shorter time.
/// Without this limit, ruedarun would start a program that cannot run again and again, and would have no time to react
/// to signals.
constexpr std::chrono::milliseconds kLeastCooldown{100};

double elastic_seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void Membership::set_slots(std::vector<Host> hosts, TimePoint now) {
    hosts_ = std::move(hosts);
    settle(now);
}

void Membership::waits(int worker, TimePoint now) {
    const auto found = alive_.find(worker);
    if (over_ || found == alive_.end() || found->second.waits) {
        return;
    }
    const bool was_pending = is_pending();
    found->second.waits = true;
    if (generation_ >= 0 && !was_pending && is_pending()) {
        pending_since_ = now;
    }
    settle(now);
}

void Membership::ended(std::span<const Ended> together, TimePoint now) {
    for (const Ended& one : together) {
        note_end(one.worker, one.how, now);
    }
    settle(now);
}

void Membership::ended(int worker, Ending how, TimePoint now) {
    const Ended one{worker, how};
    ended(std::span(&one, 1), now);
}

void Membership::note_end(int worker, Ending how, TimePoint now) {
    const auto found = alive_.find(worker);
    if (over_ || found == alive_.end()) {
        return;  // it was dismissed
    }
    const Worker gone = found->second;
    alive_.erase(found);
    ended_before_first_ += generation_ < 0 ? 1 : 0;
    has_finished_before_first_ = has_finished_before_first_ || (generation_ < 0 && how == Ending::well);
    if (how == Ending::well) {
        finished_members_ += gone.rank >= 0 ? 1 : 0;
    } else {
        lost_members_ += gone.rank >= 0 ? 1 : 0;
        ++failed_workers_;
    }
    if (how == Ending::failed) {
        note_failure(gone.host, now);
    }
}

void Membership::advance(TimePoint now) {
    if (!over_ && is_pending() && now >= pending_since_ + plan_.timeout) {
        give_up_waiting(now);
    }
    settle(now);
}

/// The cooldown of a host (the time during which it gets no new worker) doubles with each failure. After a single
/// failure the host may be fine; after many failures it is probably broken. If a worker fails during the cooldown, the
/// cooldown begins anew with the same length. When a host is lost, all its workers fail, and these failures together
/// count as one.
void Membership::note_failure(const std::string& host, TimePoint now) {
    // 2^20 s is above the longest cooldown that a user can set (1e6 s). Many more doublings would overflow the number.
    constexpr int kMostDoublings = 20;
    Failures& failures = failures_[host];
    failures.count += now < failures.blocked_until ? 0 : 1;
    const std::chrono::milliseconds time = plan_.cooldown_least * (1LL << std::min(failures.count - 1, kMostDoublings));
    failures.blocked_until = now + std::max(std::min(time, plan_.cooldown_most), kLeastCooldown);
}

void Membership::settle(TimePoint now) {
    if (over_ || end_if_over()) {
        return;
    }
    dismiss_newcomers_without_slots();
    if (generation_ < 0) {
        // The first generation waits for all workers that can be started. Each later generation waits only for the
        // members of the previous generation that still live.
        start_workers(now);
    }
    form_if_ready(false);
    if (!over_) {
        start_workers(now);
        tell_members();
    }
}

bool Membership::end_if_over() {
    const int members = count([](const Worker& worker) { return worker.rank >= 0; });
    if (generation_ >= 0 && members == 0) {
        end(lost_members_ == 0, "no rank is left");
    } else if (generation_ < 0 && ended_before_first_ > 0 && alive_.empty() && failed_workers_ == 0) {
        end(true, "");
    } else if (generation_ < 0 && failed_workers_ > 0 && static_cast<int>(alive_.size()) < plan_.least) {
        // Before the first generation, a worker that failed is not replaced. Otherwise a program that always fails at
        // its start would be started again and again.
        end(false, fmt::format("{} of at least {} ranks could start", alive_.size(), plan_.least));
    }
    return over_;
}

void Membership::end(bool success, std::string reason) {
    over_ = true;
    if (success) {
        while (!alive_.empty()) {
            dismiss(alive_.begin()->first, "the job has ended well before this worker could join it");
        }
    }
    actions_.emplace_back(End{success, std::move(reason)});
}

void Membership::dismiss(int worker, const std::string& reason) {
    alive_.erase(worker);
    actions_.emplace_back(Dismiss{worker, reason});
}

void Membership::dismiss_newcomers_without_slots() {
    for (auto entry = alive_.rbegin(); entry != alive_.rend();) {
        const auto& [worker, facts] = *entry;
        if (facts.rank < 0 && workers_on(facts.host) > slots_of(facts.host)) {
            dismiss(worker, "its host has no slot for it any more");
            entry = alive_.rbegin();
        } else {
            ++entry;
        }
    }
}

void Membership::start_workers(TimePoint now) {
    for (const Host& host : hosts_) {
        const auto failures = failures_.find(host.name);
        if (failures != failures_.end() && now < failures->second.blocked_until) {
            continue;
        }
        while (workers_on(host.name) < host.slots && static_cast<int>(alive_.size()) < wanted()) {
            alive_[next_worker_].host = host.name;
            actions_.emplace_back(Start{next_worker_, host.name});
            ++next_worker_;
        }
    }
}

/// Returns how many workers the job should have now.
int Membership::wanted() const {
    if (generation_ < 0) {
        // If a worker has ended successfully before the first generation, the program does not call init(). So no more
        // workers are needed.
        return has_finished_before_first_ ? 0 : plan_.first - ended_before_first_;
    }
    // When one member has finished the training, the others will finish soon, so no more workers are needed. This does
    // not hold if a member has failed and the remaining members wait for the next generation.
    const bool is_finishing = finished_members_ > 0 && !is_pending();
    return may_reset() && !is_finishing ? plan_.most : 0;
}

bool Membership::may_reset() const { return !plan_.resets || generation_ < *plan_.resets; }

/// Whether a generation has to be formed: there was none yet, or the current one is over and its members wait for the
/// next one.
bool Membership::is_pending() const {
    return generation_ < 0 || count([](const Worker& worker) { return worker.rank >= 0 && worker.waits; }) > 0;
}

bool Membership::is_ready_to_form() const {
    const bool is_first = generation_ < 0;
    return is_pending() && !alive_.empty() &&
           count([&](const Worker& worker) { return (is_first || worker.rank >= 0) && !worker.waits; }) == 0;
}

/// If `is_first_late` is true, the first generation is formed without the workers that have not called init() in time.
void Membership::form_if_ready(bool is_first_late) {
    if (!is_first_late && !is_ready_to_form()) {
        return;
    }
    if (!may_reset()) {
        end(false, fmt::format("it has had {} new generations, and --reset-limit allows no more", generation_));
        return;
    }
    const std::vector<int> kept = keep_within_slots(candidates());
    if (static_cast<int>(kept.size()) >= plan_.least) {
        form(kept);
    }
}

/// Returns the workers that wait for the next generation. First come the members of the current generation, in the
/// order of their ranks, so that rank 0 has the state of the training. Then come the newcomers.
std::vector<int> Membership::candidates() const {
    std::vector<int> pool;
    for (const auto& [worker, facts] : alive_) {
        if (facts.waits) {
            pool.push_back(worker);
        }
    }
    std::stable_sort(pool.begin(), pool.end(), [this](int left, int right) {
        const auto key = [this](int worker) {
            const int rank = alive_.at(worker).rank;
            return std::pair(rank < 0, rank);
        };
        return key(left) < key(right);
    });
    return pool;
}

/// Chooses the members of the next generation from the workers that wait. Workers are left out if their host has no
/// slot for them any more, or if there would be too many workers. But the result has at least `plan_.least` workers if
/// so many wait. It also contains at least one member of the previous generation, because otherwise the state of the
/// training would be lost.
std::vector<int> Membership::keep_within_slots(const std::vector<int>& pool) const {
    std::vector<int> kept;
    std::vector<int> others;
    std::map<std::string, int> used;
    for (const int worker : pool) {
        const std::string& host = alive_.at(worker).host;
        const bool fits = used[host] < slots_of(host) && static_cast<int>(kept.size()) < plan_.most;
        used[host] += fits ? 1 : 0;
        (fits ? kept : others).push_back(worker);
    }
    const auto is_member = [this](int worker) { return alive_.at(worker).rank >= 0; };
    if (!others.empty() && is_member(others.front()) && std::none_of(kept.begin(), kept.end(), is_member)) {
        kept.resize(std::min(kept.size(), static_cast<std::size_t>(plan_.most) - 1));
        kept.push_back(others.front());
        others.erase(others.begin());
    }
    for (const int worker : others) {
        if (static_cast<int>(kept.size()) < plan_.least) {
            kept.push_back(worker);
        }
    }
    std::sort(kept.begin(), kept.end(), [&](int left, int right) {
        return std::find(pool.begin(), pool.end(), left) < std::find(pool.begin(), pool.end(), right);
    });
    return kept;
}

void Membership::form(const std::vector<int>& kept) {
    ++generation_;
    Form formed{generation_, {}};
    std::vector<int> left_out;
    for (auto& [worker, facts] : alive_) {
        if (facts.waits && std::find(kept.begin(), kept.end(), worker) == kept.end()) {
            left_out.push_back(worker);
        }
    }
    for (const int worker : left_out) {
        dismiss(worker, "its host has no slot for it any more");
    }
    for (std::size_t rank = 0; rank < kept.size(); ++rank) {
        Worker& facts = alive_.at(kept[rank]);
        facts = {facts.host, static_cast<int>(rank)};
        formed.members.push_back({kept[rank], facts.rank, facts.host});
    }
    lost_members_ = 0;
    finished_members_ = 0;
    actions_.emplace_back(std::move(formed));
}

/// Call this when the time to form the next generation is over. Kills the members that do not wait for the next
/// generation. If there are such members, the other workers wait for the same time again.
void Membership::give_up_waiting(TimePoint now) {
    if (kill_late_members()) {
        pending_since_ = now;
        return;
    }
    if (generation_ < 0) {
        form_if_ready(true);
    }
    if (!over_ && is_pending()) {
        end(false, fmt::format("after {:g} s (--elastic-timeout) there are {} of at least {} ranks",
                               elastic_seconds(plan_.timeout), candidates().size(), plan_.least));
    }
}

/// Kills the members that do not wait for the next generation. Returns whether there are any. A member that was already
/// killed, but has not ended yet, does not count.
bool Membership::kill_late_members() {
    bool has_late = false;
    for (auto& [worker, facts] : alive_) {
        if (facts.rank >= 0 && !facts.waits && !std::exchange(facts.is_killed, true)) {
            has_late = true;
            actions_.emplace_back(
                Kill{worker, fmt::format("it did not come to the next generation within {:g} s (--elastic-timeout)",
                                         elastic_seconds(plan_.timeout))});
        }
    }
    return has_late;
}

/// Tells the members of a running generation that newcomers wait to become members, or that slots were removed.
void Membership::tell_members() {
    if (is_pending() || !may_reset()) {
        return;
    }
    const int members = count([](const Worker& worker) { return worker.rank >= 0; });
    const bool has_newcomers = count([](const Worker& worker) { return worker.rank < 0 && worker.waits; }) > 0;
    int surplus = 0;
    for (const Host& host : hosts_) {
        const int here = count([&](const Worker& worker) { return worker.rank >= 0 && worker.host == host.name; });
        surplus += std::max(0, here - host.slots);
    }
    surplus += count([&](const Worker& worker) { return worker.rank >= 0 && slots_of(worker.host) == 0; });
    const bool can_shrink = surplus > 0 && members > plan_.least;
    int changes = 0;
    if (has_newcomers && members < plan_.most) {
        changes |= Change::kSlotsAdded;
    }
    if (can_shrink) {
        changes |= Change::kSlotsRemoved;
    }
    for (auto& [worker, facts] : alive_) {
        const int news = facts.rank >= 0 ? changes & ~facts.told : 0;
        if (news != 0) {
            facts.told |= news;
            actions_.emplace_back(Tell{worker, news});
        }
    }
}

std::vector<Membership::Action> Membership::take_actions() { return std::exchange(actions_, {}); }

std::optional<Membership::TimePoint> Membership::deadline() const {
    std::optional<TimePoint> soonest;
    const auto take = [&](TimePoint time) { soonest = soonest ? std::min(*soonest, time) : time; };
    if (over_) {
        return soonest;
    }
    if (is_pending()) {
        take(pending_since_ + plan_.timeout);
    }
    for (const Host& host : hosts_) {
        const auto failures = failures_.find(host.name);
        if (failures != failures_.end() && workers_on(host.name) < host.slots &&
            static_cast<int>(alive_.size()) < wanted()) {
            take(failures->second.blocked_until);
        }
    }
    return soonest;
}

int Membership::rank_of(int worker) const {
    const auto found = alive_.find(worker);
    return found == alive_.end() ? -1 : found->second.rank;
}

std::vector<int> Membership::workers() const {
    std::vector<int> workers;
    for (const auto& [worker, facts] : alive_) {
        workers.push_back(worker);
    }
    return workers;
}

int Membership::slots_of(const std::string& host) const {
    const auto found =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& entry) { return entry.name == host; });
    return found == hosts_.end() ? 0 : found->slots;
}

int Membership::workers_on(const std::string& host) const {
    return count([&](const Worker& worker) { return worker.host == host; });
}

template <class Condition>
int Membership::count(Condition&& condition) const {
    return static_cast<int>(
        std::count_if(alive_.begin(), alive_.end(), [&](const auto& entry) { return condition(entry.second); }));
}

}  // namespace rueda::launcher
