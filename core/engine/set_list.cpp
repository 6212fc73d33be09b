// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/engine/set_list.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace rueda::core {
namespace {

/// Returns a number for the result of a turn. The larger the number, the sooner the engine must run the next turn.
int busyness(Turn turn) {
    switch (turn) {
        case Turn::advanced:
            return 4;
        case Turn::polling:
            return 3;
        case Turn::waiting:
            return 2;
        case Turn::holding:
            return 1;
        case Turn::idle:
            break;
    }
    return 0;
}

}  // namespace

Turn busier(Turn a, Turn b) { return busyness(a) > busyness(b) ? a : b; }

SetList::SetList(const StallSettings& settings, std::shared_ptr<ProcessSet> world,
                 std::shared_ptr<collectives::Arena> arena)
    : settings_(settings), world_(std::move(world)) {
    Entry entry = prepare(world_, std::move(arena));
    entry.front().stall_monitor->report_messages();
    add(entry);
}

SetList::Entry SetList::prepare(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena) const {
    Attended attended;
    attended.stall_monitor = std::make_unique<StallMonitor>(settings_, arena, set->memory());
    attended.batch_watch = std::make_unique<BatchWatch>(
        settings_, arena->blocks(), set->memory(), arena->rank(),
        [arena](std::uint32_t member) { return collectives::steps_of(arena->progress(member)); });
    attended.turn_questions = std::make_unique<TurnQuestions>(arena->blocks(), settings_.silence_limit_ns);
    attended.launch_watch = std::make_unique<LaunchWatch>(settings_, arena->blocks(), set->memory(), arena->rank());
    attended.set = std::move(set);
    attended.arena = std::move(arena);
    Entry entry;
    entry.push_back(std::move(attended));
    return entry;
}

void SetList::add(Entry& entry) noexcept {
    const std::lock_guard lock(mutex_);
    sets_.splice(sets_.end(), entry);
}

void SetList::remove(const ProcessSet& set) noexcept {
    const std::lock_guard lock(mutex_);
    sets_.remove_if([&set](const Attended& attended) { return attended.set.get() == &set; });
}

Turn SetList::step(bool urgent, bool asks_others) {
    Turn busiest = Turn::idle;
    for (Attended& attended : sets_) {
        attended.last = attended.set->step(urgent, asks_others);
        busiest = busier(attended.last, busiest);
    }
    return busiest;
}

template <class Has>
bool SetList::any(Has&& has) const {
    return std::any_of(sets_.begin(), sets_.end(), [&has](const Attended& attended) { return has(*attended.set); });
}

bool SetList::has_work() const {
    return any([](const ProcessSet& set) { return set.has_work(); });
}
bool SetList::has_unread() const {
    return any([](const ProcessSet& set) { return set.has_unread(); });
}
bool SetList::has_deferred() const {
    return any([](const ProcessSet& set) { return set.has_deferred(); });
}
bool SetList::has_to_poll() const {
    return any([](const ProcessSet& set) { return set.has_to_poll(); });
}

bool SetList::anybody_has_unread() const {
    const std::lock_guard lock(mutex_);
    // A thread that has released the progress lock may call this function even after the end of the job. The arenas are
    // then unmapped and must not be read.
    return !released_ && has_unread();
}

bool SetList::anybody_has_to_poll() const {
    const std::lock_guard lock(mutex_);
    return has_to_poll();
}

bool SetList::are_closed() const {
    const std::lock_guard lock(mutex_);
    return !any([](const ProcessSet& set) { return !set.closed(); });
}

bool SetList::have_left() const {
    const std::lock_guard lock(mutex_);
    return !any([](const ProcessSet& set) { return !set.has_left(); });
}

void SetList::begin_to_await_ends() {
    const std::lock_guard lock(mutex_);
    for (const Attended& attended : sets_) {
        if (attended.set != world_ && !attended.set->has_left()) {
            attended.set->begin_to_await_end(EndCall::shutdown);
        }
    }
}

std::optional<std::int64_t> SetList::hold_until_ns() const {
    std::optional<std::int64_t> first;
    for (const Attended& attended : sets_) {
        if (attended.last == Turn::holding) {
            first = std::min(first.value_or(attended.set->hold_until_ns()), attended.set->hold_until_ns());
        }
    }
    return first;
}

void SetList::take_decided_errors() noexcept {
    for (Attended& attended : sets_) {
        attended.set->take_decided_errors();
    }
}

/// Notifies the other hosts of an abort. The world (the set of all ranks) is first in the list. Its leaders reach every
/// host, so every host learns the reason from the world's message.
void SetList::leave_other_hosts(const Status& reason) noexcept {
    for (Attended& attended : sets_) {
        attended.set->leave_other_hosts(reason);
    }
}

void SetList::close_descriptors() {
    const std::lock_guard lock(mutex_);
    for (const Attended& attended : sets_) {
        if (attended.set != world_) {  // the resident heap closes the descriptor of the world's arena
            attended.arena->close_descriptor();
        }
    }
}

void SetList::release_memory() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    for (const Attended& attended : sets_) {
        attended.set->release_memory();
        if (attended.set != world_) {
            attended.arena->release({});
        }
    }
}

void SetList::fail_all(const Status& reason) noexcept {
    for (Attended& attended : sets_) {
        attended.set->fail_all(reason);
    }
}

StallReport SetList::account_of_world(std::int64_t now_ns) const {
    const std::lock_guard lock(mutex_);
    // After release_memory(), the world's ProcessSet still exists, but its arena does not.
    return released_ ? StallReport() : sets_.front().stall_monitor->account(now_ns);
}

bool SetList::reports_stalls_of_world(std::int64_t now_ns) const {
    const std::lock_guard lock(mutex_);
    return !released_ && world_->reports_stalls(*sets_.front().stall_monitor, now_ns);
}

WaitReport SetList::account_of(const Completion& completion, std::int64_t now_ns) const {
    WaitReport report;
    const std::lock_guard lock(mutex_);
    if (released_) {  // after the release, the arenas are unmapped and all operations have ended
        return report;
    }
    for (const Attended& attended : sets_) {
        const std::vector<AwaitedTensor> awaited = attended.set->awaited_by(completion);
        if (awaited.empty()) {
            continue;
        }
        // A call of join() is pending in several sets, with the same completion. The report of the first of these sets
        // is enough.
        report = attended.stall_monitor->account_of(awaited, now_ns);
        report.elsewhere = attended.set->ranks_elsewhere();
        break;
    }
    return report;
}

/// Adds a finding with the set's title. This function must not fail, because the monitor returns a finding only once.
/// If there is no memory for the title, adds the finding without it. `findings` must have capacity for two more
/// elements.
void SetList::add(const ProcessSet& set, StallMonitor::Finding found, std::vector<Finding>& findings) noexcept {
    Finding finding{std::move(found.text),     found.shut_down,
                    std::move(found.report),   {},
                    std::move(found.ends_job), std::move(found.record_because)};
    try {
        const std::string title = set.title();
        for (std::string* text : {&found.report_before, &finding.text}) {
            text->insert(0, text->empty() ? std::string() : title);
        }
        finding.process_set = set.identity().is_world() ? std::string() : set.identity().describe();
    } catch (const std::bad_alloc&) {
        static_cast<void>(finding);
    }
    if (!found.report_before.empty()) {
        findings.push_back({std::move(found.report_before), false});
    }
    findings.push_back(std::move(finding));
}

BatchWatch::Source SetList::source_for(Attended& attended, std::int64_t now_ns) {
    BatchWatch::Source source;
    source.ranks = [&attended, now_ns] { return attended.stall_monitor->account(now_ns).missing_ranks; };
    source.elsewhere = [&attended] { return attended.set->ranks_elsewhere(); };
    source.add_stacks = [&attended, now_ns](std::span<StallReport::Rank> ranks) {
        return attended.stall_monitor->add_stacks_of_executing(ranks, now_ns);
    };
    source.counts = [&attended](std::uint32_t member) {
        const collectives::Progress& progress = attended.arena->progress(member);
        // relaxed, as in steps_of()
        return BatchWatch::Counts{.staged = progress.staged.load(std::memory_order_relaxed),
                                  .reduced = progress.reduced.load(std::memory_order_relaxed),
                                  .resident = progress.resident.load(std::memory_order_relaxed)};
    };
    source.turns = [&attended, now_ns](std::uint64_t members) {
        if (members == 0) {
            attended.turn_questions->end_round();
        }
        return attended.turn_questions->ask(members, now_ns);
    };
    source.chunks = [&attended](std::uint64_t position) {
        const bool are_known = attended.chunks && attended.chunks->position == position;
        return are_known ? attended.chunks->chunks : std::nullopt;
    };
    return source;
}

void SetList::note_chunks() {
    const std::lock_guard lock(mutex_);
    if (released_) {
        return;
    }
    for (Attended& attended : sets_) {
        attended.chunks = attended.set->chunks_in_progress();
    }
}

/// `findings` must have capacity for two more elements.
void SetList::look_at(Attended& attended, std::int64_t now_ns, std::vector<Finding>& findings) {
    ProcessSet& set = *attended.set;
    attended.stall_monitor->date_last_finished(now_ns);
    if (auto found = set.find_stall(*attended.stall_monitor, now_ns)) {
        add(set, std::move(*found), findings);
        return;
    }
    if (auto standstill = attended.batch_watch->tick(now_ns, source_for(attended, now_ns))) {
        add(set, std::move(*standstill), findings);
        return;
    }
    const LaunchWatch::Source source{
        .oldest = [&set] { return set.oldest_launched(); },
        .ranks = [&attended, now_ns] { return attended.stall_monitor->account(now_ns).missing_ranks; },
        .elsewhere = [&set] { return set.ranks_elsewhere(); }};
    if (auto hangs = attended.launch_watch->tick(now_ns, source)) {
        add(set, std::move(*hangs), findings);
    }
}

std::vector<SetList::Finding> SetList::look(std::int64_t now_ns) {
    std::vector<Finding> findings;
    const std::lock_guard lock(mutex_);
    findings.reserve(2 * sets_.size());
    for (Attended& attended : sets_) {
        try {
            look_at(attended, now_ns, findings);
        } catch (const std::bad_alloc&) {
            // No memory for this set. The next call of look() may find enough; the findings of the other sets are
            // reported now.
            static_cast<void>(now_ns);
        }
    }
    return findings;
}

}  // namespace rueda::core
