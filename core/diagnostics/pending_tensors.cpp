// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/pending_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/log.hpp"

namespace rueda::core {
namespace {

using Memory = NegotiationMemory<base::StdAtomics>;
using Label = SlotLabel<base::StdAtomics>;

constexpr const char* kJoinName = "join()";

bool all_ready(const Memory& memory, const PendingTensor& tensor) {
    return tensor.ready_mask == all_members(memory.extent().members);
}

void add_announcement(const Memory& memory, PendingTensor& tensor, std::uint32_t member, std::int64_t announced_ns) {
    tensor.since_ns = tensor.ready_mask == 0 ? announced_ns : std::min(tensor.since_ns, announced_ns);
    tensor.last_ns = std::max(tensor.last_ns, announced_ns);
    tensor.ready_mask |= std::uint64_t{1} << member;
    if (memory.extent().call_sites != 0) {
        tensor.sites.resize(memory.extent().members);
    }
}

/// Returns the members that have announced `id.generation`, and the time since which they wait. Returns nothing if no
/// member has announced it.
std::optional<PendingTensor> read_places(const Memory& memory, const PendingTensor::Id& id) {
    PendingTensor tensor;
    tensor.id = id;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        const auto& place = memory.place(id.slot, member, id.generation);
        if (place.stamp.load(std::memory_order_acquire) != id.generation + 1) {
            continue;
        }
        add_announcement(memory, tensor, member, place.announced_ns.load(std::memory_order_relaxed));
        if (memory.extent().call_sites != 0) {
            tensor.sites[member] = read_site(memory.site(id.slot, member, id.generation).read());
        }
    }
    return tensor.ready_mask == 0 ? std::nullopt : std::optional(tensor);
}

/// Whether the slot's counter shows that some members have announced the operation and others have not.
bool is_incomplete(const Memory& memory, std::uint64_t word) {
    return !ArrivalCount::is_retired(word) && ArrivalCount::arrivals(word) % memory.extent().members != 0;
}

/// An entry of the log that a member has claimed and not published. Until it is published, no later entry can be read.
struct Hole {
    std::uint64_t position = 0;
    std::uint32_t member = 0;
};
std::optional<Hole> find_hole(const Memory& memory) {
    const Log<base::StdAtomics> log(memory);
    std::uint64_t position = 0;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        position = std::max(position, memory.cursor(member).position.load(std::memory_order_acquire));
    }
    // A member's cursor is the position up to which the member has read the log. All entries before a cursor are
    // published, so the search begins at the largest cursor.
    for (std::uint32_t looked = 0; looked < memory.extent().log_entries() && log.is_published(position); ++looked) {
        ++position;
    }
    const std::optional<std::uint32_t> member = log.claimant(position);
    return member ? std::optional(Hole{position, *member}) : std::nullopt;
}

/// Finds the slots whose operation was ended by a log entry that some member has not read yet. The log is read only
/// once, even if the caller asks for many slots: the search for a slot continues where the previous search stopped. The
/// number of entries that are read is limited to the size of the log, because another process may have written a wrong
/// number into a cursor.
class Answers {
public:
    explicit Answers(const Memory& memory)
        : memory_(memory), has_answer_(memory.extent().slots, false), left_(memory.extent().log_entries()) {
        position_ = memory.cursor(0).position.load(std::memory_order_acquire);
        for (std::uint32_t member = 1; member < memory.extent().members; ++member) {
            position_ = std::min(position_, memory.cursor(member).position.load(std::memory_order_acquire));
        }
    }

    [[nodiscard]] bool has(std::uint32_t slot) {
        read_on();
        return has_answer_[slot];
    }
    [[nodiscard]] bool has(const std::string& name) {
        read_on();
        for (; named_ < slots_.size(); ++named_) {
            const Label& label = memory_.label(slots_[named_]);
            const Label::State state = label.state();
            if (state.state != SlotState::unused && state.state != SlotState::first_sight) {
                names_.insert(label.name(state));
            }
        }
        return names_.contains(name);
    }

private:
    void read_on() {
        const Log<base::StdAtomics> log(memory_);
        for (; left_ > 0; --left_, ++position_) {
            const auto entry = log.peek(position_);
            if (!entry) {
                return;
            }
            if (entry->slot < has_answer_.size() && entry->kind != EntryKind::retire && !has_answer_[entry->slot]) {
                has_answer_[entry->slot] = true;
                if (entry->slot >= memory_.extent().unnamed_slots) {
                    slots_.push_back(entry->slot);
                }
            }
        }
    }

    const Memory& memory_;
    std::vector<bool> has_answer_;      // by slot
    std::vector<std::uint32_t> slots_;  // the slots that were found, without those for unnamed operations
    std::size_t named_ = 0;             // the number of elements of `slots_` whose name was already read
    std::set<std::string> names_;
    std::uint64_t position_ = 0;
    std::uint32_t left_;
};

/// Returns true if all members have announced the operation, but the log has no call of it yet. Either the member that
/// announced last has not written the call, or the call comes after an entry that is not published.
bool is_uncalled(const Memory& memory, std::uint32_t slot, std::uint64_t word, const std::optional<Hole>& hole,
                 Answers& answers) {
    const auto& arrivals = memory.arrivals(slot);
    if (ArrivalCount::is_retired(word) || ArrivalCount::arrivals(word) == 0 || is_incomplete(memory, word)) {
        return false;
    }
    if (hole && arrivals.last_called.load(std::memory_order_relaxed) > hole->position) {
        return true;
    }
    return arrivals.called.load(std::memory_order_acquire) != ArrivalCount::arrivals(word) && !answers.has(slot);
}

/// Returns the last generation (use of the slot, counted from 0) that any member has announced. Returns 0 if no member
/// has announced any. With each announcement, a member also stores the generation, which is called its stamp. This
/// function reads these stamps, because the slot's counter does not include direct announcements.
std::uint64_t newest_generation(const Memory& memory, std::uint32_t slot) {
    std::uint64_t stamp = 1;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        for (std::uint64_t parity = 0; parity < 2; ++parity) {
            stamp = std::max(stamp, memory.place(slot, member, parity).stamp.load(std::memory_order_acquire));
        }
    }
    return stamp - 1;
}

/// Returns the members whose last direct announcement (not counted in the slot) was in this slot. That announcement may
/// still be pending.
std::uint64_t went_directly(const Memory& memory, std::uint32_t slot) {
    std::uint64_t members = 0;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        const bool here = memory.cursor(member).direct.load(std::memory_order_acquire) == slot + 1;
        members |= std::uint64_t{here ? 1U : 0U} << member;
    }
    return members;
}

std::uint64_t members_in_step(const Memory& memory, std::uint32_t step) {
    std::uint64_t members = 0;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        members |= std::uint64_t{step_of(memory, member) == step ? 1U : 0U} << member;
    }
    return members;
}

std::optional<PendingTensor> look_at_unnamed(const Memory& memory, std::uint32_t slot, const std::optional<Hole>& hole,
                                             Answers& answers) {
    const auto& count = memory.arrivals(slot).count;
    const std::uint64_t word = count.load(std::memory_order_acquire);
    const bool incomplete = is_incomplete(memory, word);
    if (!incomplete && !is_uncalled(memory, slot, word, hole, answers)) {
        return std::nullopt;
    }
    const std::uint64_t generation = ArrivalCount::arrivals(word) / memory.extent().members + (incomplete ? 1 : 0);
    std::optional<PendingTensor> tensor = read_places(memory, {slot, 0, generation});
    if (!tensor || count.load(std::memory_order_acquire) != word) {
        return std::nullopt;
    }
    tensor->call = (generation - 1) * memory.extent().unnamed_slots + slot + 1;
    return tensor;
}

/// Returns which generation (use of the slot) of a named slot may be pending, to judge by the slot's state and
/// arrivals. Returns nothing if no generation can be pending. If the slot is retired while a direct announcement is
/// pending in it, this announcement stays pending until all members have read the retirement.
std::optional<std::uint64_t> generation_to_look_at(const Memory& memory, std::uint32_t slot, SlotState state,
                                                   std::uint64_t word, bool direct, bool uncalled) {
    if ((state == SlotState::first_sight && !ArrivalCount::is_retired(word)) || state == SlotState::answering) {
        return 0;
    }
    if (!(state == SlotState::bound && (uncalled || is_incomplete(memory, word))) &&
        !(direct && (state == SlotState::bound || state == SlotState::retired))) {
        return std::nullopt;
    }
    const std::uint64_t newest = newest_generation(memory, slot);
    return newest > 0 ? std::optional(newest) : std::nullopt;
}

std::optional<PendingTensor> look_at_named(const Memory& memory, std::uint32_t slot, const std::optional<Hole>& hole,
                                           Answers& answers) {
    const auto& count = memory.arrivals(slot).count;
    const std::uint64_t first_look = count.load(std::memory_order_acquire);
    const std::uint64_t direct = went_directly(memory, slot);
    const bool uncalled = is_uncalled(memory, slot, first_look, hole, answers);
    const bool all_arrived = first_look != 0 && ArrivalCount::arrivals(first_look) % memory.extent().members == 0;
    if (direct == 0 && !uncalled && (ArrivalCount::is_retired(first_look) || all_arrived)) {
        return std::nullopt;  // Nothing can be pending in this slot, so its label (its state and name) need not be
                              // read. Most slots end here.
    }
    const Label& label = memory.label(slot);
    const Label::State state = label.state();
    const std::uint64_t word = count.load(std::memory_order_acquire);
    const auto generation = generation_to_look_at(memory, slot, state.state, word, direct != 0, uncalled);
    if (!generation) {
        return std::nullopt;
    }
    std::optional<PendingTensor> tensor = read_places(memory, {slot, state.use, *generation});
    if (!tensor) {
        return std::nullopt;
    }
    tensor->name = label.name(state);
    const bool moved = tensor->name.empty() || label.state() != state ||
                       count.load(std::memory_order_acquire) != word ||
                       (*generation > 0 && newest_generation(memory, slot) != *generation);
    if (moved) {
        return std::nullopt;
    }
    if (all_ready(memory, *tensor)) {
        // All members have announced the operation. A direct announcement does not count in the slot. If all
        // announcements are direct, each member completes the operation as soon as it reads them. If at least one
        // announcement counts in the slot, the operation is called only when all of them count there. A member whose
        // announcement is still direct then delays the operation.
        const bool to_be_counted = state.state == SlotState::bound && is_incomplete(memory, word);
        tensor->unfinished_mask = to_be_counted ? direct : 0;
        const bool is_open = to_be_counted || uncalled || *generation == 0;
        return is_open && !(*generation == 0 && answers.has(slot)) ? tensor : std::nullopt;
    }
    return tensor;
}

/// Returns the ranks that wait in join(), as one entry. The age of the entry is the time since the last announcement of
/// any tensor: as long as the other ranks announce tensors, no rank is late. If all ranks of this host have joined,
/// they wait for the other hosts. If the set has no members on other hosts, they wait for the ranks that have not ended
/// their earlier operations.
std::optional<PendingTensor> look_at_joins(const Memory& memory, bool with_other_hosts) {
    auto& header = memory.header();
    const std::uint64_t joined = header.joined.load(std::memory_order_acquire);
    if (joined == 0) {
        return std::nullopt;
    }
    const std::uint64_t all = all_members(memory.extent().members);
    const std::int64_t since = header.announced_ns.load(std::memory_order_relaxed);
    PendingTensor joins;
    joins.id = {kNoSlot, 0, static_cast<std::uint64_t>(since)};
    joins.name = kJoinName;
    joins.since_ns = since;
    joins.last_ns = since;
    joins.ready_mask = joined & all;
    if (joins.ready_mask == all && !with_other_hosts) {
        joins.unfinished_mask = all & ~std::atomic_ref(header.settled_members).load(std::memory_order_acquire);
    }
    for (std::uint32_t member = 0; memory.extent().call_sites != 0 && member < memory.extent().members; ++member) {
        const bool here = (joined >> member & 1) != 0;
        joins.sites.push_back(here ? read_site(memory.join_site(member).read()) : std::string());
    }
    return joins;
}

/// Collects everything that is pending. Operations with a name are found by their name. The announcements of a name may
/// be in a slot, in mailboxes, or in the private memory of a member whose mailbox is full.
class Collection {
public:
    explicit Collection(const Memory& memory)
        : memory_(memory), is_one_of_hosts_(memory.extent().has_leader()), hole_(find_hole(memory)), answers_(memory) {}

    void look_at_slots() {
        const std::uint32_t slots =
            std::min(memory_.header().high_slot.load(std::memory_order_acquire), memory_.extent().slots);
        for (std::uint32_t slot = 0; slot < slots; ++slot) {
            const bool unnamed = slot < memory_.extent().unnamed_slots;
            if (auto tensor = unnamed ? look_at_unnamed(memory_, slot, hole_, answers_)
                                      : look_at_named(memory_, slot, hole_, answers_)) {
                tensor->unfinished_mask |= members_in_step(memory_, slot + 1) & tensor->ready_mask;
                pending_.push_back(std::move(*tensor));
            }
        }
    }
    void look_at_mailboxes() {
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            look_at_mailbox(member);
        }
    }
    /// Returns what is pending. With `with_other_hosts`, the result also contains operations that wait only for other
    /// hosts.
    std::vector<PendingTensor> finish(bool with_other_hosts) && {
        // If all ranks have joined and another operation is pending, the ranks wait for that operation and not for the
        // join. So the join is not listed.
        if (auto joins = look_at_joins(memory_, is_one_of_hosts_);
            joins && (pending_.empty() || is_one_of_hosts_ || !all_ready(memory_, *joins))) {
            pending_.push_back(std::move(*joins));
        }
        for (PendingTensor& tensor : pending_) {
            explain(tensor);
            // A join or an operation without a name needs no space in a mailbox.
            tensor.unseen_mask = tensor.name.empty() || is_join(tensor) ? 0 : unseen_ & ~tensor.ready_mask;
        }
        // On several hosts, an operation waits for other hosts when all members of this host have announced it. The
        // leader reports such operations.
        std::erase_if(pending_, [this, with_other_hosts](const PendingTensor& tensor) {
            return is_one_of_hosts_ && !with_other_hosts && !is_join(tensor) && all_ready(memory_, tensor) &&
                   (tensor.unfinished_mask | tensor.unread_mask) == 0;
        });
        // The end of the set is returned even if all members of this host have announced it, because any of them may
        // delay it.
        if (auto end = look_at_end(memory_)) {
            pending_.push_back(std::move(*end));
        }
        std::stable_sort(pending_.begin(), pending_.end(),
                         [](const PendingTensor& a, const PendingTensor& b) { return a.since_ns < b.since_ns; });
        return std::move(pending_);
    }

    /// Finds out what delays the registrar's work.
    [[nodiscard]] Obstacles obstacles() const {
        if (hole_) {
            return {.unfinished_mask = std::uint64_t{1} << hole_->member};
        }
        auto& header = memory_.header();
        const std::uint64_t awaited = std::atomic_ref(header.numbers_wait_for).load(std::memory_order_acquire);
        if (awaited == 0) {
            return {.unfinished_mask = members_in_step(memory_, ProtocolStep::kRegistrar)};
        }
        // The registrar's work is paused until all members have read the log up to `awaited`. After that, the member
        // that was the registrar last continues the work.
        const std::uint32_t with = std::atomic_ref(header.numbers_wait_with).load(std::memory_order_relaxed);
        const std::uint64_t unread = behind(awaited);
        const bool is_turn = unread == 0 && with > 0 && with <= memory_.extent().members;
        return {.unfinished_mask = is_turn ? std::uint64_t{1} << (with - 1) : 0, .unread_mask = unread};
    }
    /// Returns the reasons why the member's mailbox stays full.
    [[nodiscard]] Obstacles obstacles_to_room(std::uint32_t member) const {
        const std::uint64_t unread = behind(reads_awaited(member));
        return unread != 0 ? Obstacles{.unread_mask = unread} : obstacles();
    }

private:
    /// Adds two kinds of announcements to the pending operations: the announcements in records that no registrar has
    /// handled, and the first announcement that found the mailbox full.
    void look_at_mailbox(std::uint32_t member) {
        auto& mailbox = memory_.mailbox(member);
        std::uint64_t index = mailbox.taken.load(std::memory_order_acquire);
        const std::uint64_t posted = mailbox.posted.load(std::memory_order_acquire);  // pairs with Registrar::post()
        for (std::uint32_t looked = 0; index < posted && looked < memory_.extent().mailbox_records; ++looked, ++index) {
            auto& record = memory_.mailbox_record(member, index);
            const std::string name = record.pending_name();
            const std::int64_t announced_ns = record.place.announced_ns.load(std::memory_order_relaxed);
            // A registrar first handles a record, and then marks it as taken. If the registrar is stopped between the
            // two steps, the record looks as if nobody had handled it.
            const bool is_answered = looked == 0 && !name.empty() && answers_.has(name);
            // A record is reused only after it was marked as taken.
            if (!name.empty() && !is_answered && mailbox.taken.load(std::memory_order_relaxed) <= index) {
                add(name, member, announced_ns);
            }
        }
        // Deferred announcements wait in the member's private memory, because the mailbox is full. The member publishes
        // the name of the first of them, which is read below. The names of further deferred announcements are not
        // visible here. The acquire load pairs with Announcer::tell_deferred_count().
        if (mailbox.deferred_count.load(std::memory_order_acquire) > 1) {
            unseen_ |= std::uint64_t{1} << member;
        }
        const auto deferred = mailbox.deferred.state();
        if (deferred.state == SlotState::first_sight) {
            const std::string name = mailbox.deferred.name(deferred);
            const std::int64_t announced_ns = mailbox.deferred_ns.load(std::memory_order_relaxed);
            if (!name.empty() && mailbox.deferred.state() == deferred) {
                add(name, member, announced_ns);
            }
        }
    }

    [[nodiscard]] static bool is_join(const PendingTensor& tensor) {
        return tensor.id.slot == kNoSlot && tensor.id.use == 0;
    }

    void add(const std::string& name, std::uint32_t member, std::int64_t announced_ns) {
        auto known = std::find_if(pending_.begin(), pending_.end(),
                                  [&name](const PendingTensor& tensor) { return tensor.name == name; });
        if (known == pending_.end()) {
            PendingTensor& fresh = pending_.emplace_back();
            fresh.id = {kNoSlot, static_cast<std::uint32_t>(std::hash<std::string>()(name)) | 1, 0};
            fresh.name = name;
            known = std::prev(pending_.end());
        }
        add_announcement(memory_, *known, member, announced_ns);
        waiting_records_.insert(name);
    }

    [[nodiscard]] std::uint64_t behind(std::uint64_t position) const {
        std::uint64_t members = 0;
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            const bool is_behind = memory_.cursor(member).position.load(std::memory_order_acquire) < position;
            members |= std::uint64_t{is_behind ? 1U : 0U} << member;
        }
        return members;
    }

    /// Finds the reasons why the operation makes no progress. Missing announcements are not among these reasons.
    void explain(PendingTensor& tensor) const {
        const bool all = all_ready(memory_, tensor);
        if (all) {
            tensor.since_ns = tensor.last_ns;
        }
        const bool waits_for_registrar = !tensor.name.empty() && waiting_records_.contains(tensor.name);
        if (tensor.unfinished_mask != 0 || !(waits_for_registrar || (all && !is_one_of_hosts_))) {
            return;
        }
        Obstacles found = obstacles();
        if ((found.unfinished_mask | found.unread_mask) == 0) {
            for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
                found.unread_mask |= behind(reads_awaited(member));
            }
            found.unfinished_mask = found.unread_mask == 0 ? members_in_step(memory_, ProtocolStep::kPosting) : 0;
        }
        tensor.unfinished_mask = found.unfinished_mask;
        tensor.unread_mask = found.unread_mask;
    }

    [[nodiscard]] std::uint64_t reads_awaited(std::uint32_t member) const {
        return std::atomic_ref(memory_.mailbox(member).reads_awaited).load(std::memory_order_acquire);
    }

    const Memory& memory_;
    const bool is_one_of_hosts_;  // true if the set has members on other hosts, for which this host may have to wait
    std::optional<Hole> hole_;
    std::vector<PendingTensor> pending_;
    Answers answers_;
    std::uint64_t unseen_ = 0;               // members with announcements that other members cannot see
    std::set<std::string> waiting_records_;  // names whose announcements no registrar has handled
};

std::vector<PendingTensor> collect_pending(const Memory& memory, bool with_other_hosts) {
    Collection collection(memory);
    collection.look_at_slots();
    collection.look_at_mailboxes();
    return std::move(collection).finish(with_other_hosts);
}

}  // namespace

bool is_name_of_join(std::string_view name) { return name == kJoinName; }

std::vector<std::uint64_t> unnamed_started(const Memory& memory) {
    const std::uint32_t slots = memory.extent().unnamed_slots;
    std::vector<std::uint64_t> started(memory.extent().members, 0);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        // A rank announces a generation only after it has completed the previous generation. It cannot complete a
        // generation before all members have announced that generation. So all members have announced the previous
        // generation.
        const std::uint64_t newest = newest_generation(memory, slot);
        for (std::uint32_t member = 0; member < started.size(); ++member) {
            for (std::uint64_t generation = newest; generation > 0 && generation + 2 > newest; --generation) {
                const std::uint64_t stamp =
                    memory.place(slot, member, generation).stamp.load(std::memory_order_acquire);
                if (stamp == generation + 1) {
                    started[member] = std::max(started[member], (generation - 1) * slots + slot + 1);
                }
            }
        }
    }
    return started;
}

std::string describe_started(const StartedByRank& ranks) {
    if (ranks.size() < 2) {
        return {};
    }
    std::string text;
    for (auto more = ranks.rbegin(); more != ranks.rend(); ++more) {
        const char* const has = more->second.size() == 1 ? "has" : "have";
        text += text.empty() ? fmt::format("{} {} started {} unnamed operations", base::format_ranks(more->second), has,
                                           more->first)
                             : fmt::format(", {}: {}", base::format_ranks(more->second), more->first);
    }
    return "; " + text +
           "; they match by the order of the calls, so all ranks must make the same number: names or "
           "RUEDA_CALL_SITES=1 show which";
}

std::vector<PendingTensor> pending_tensors(const Memory& memory) {
    return collect_pending(memory, /*with_other_hosts=*/false);
}

std::vector<PendingTensor> pending_on_any_host(const Memory& memory) {
    return collect_pending(memory, /*with_other_hosts=*/true);
}

Obstacles obstacles_to_mailbox(const Memory& memory, std::uint32_t member) {
    return Collection(memory).obstacles_to_room(member);
}

bool is_announced_by_all(const Memory& memory, const std::string& name, std::uint32_t slot, std::uint64_t generation) {
    if (slot < memory.extent().slots) {
        const auto tensor = read_places(memory, {slot, 0, generation});
        return tensor && all_ready(memory, *tensor);
    }
    if (name == kJoinName) {
        const std::uint64_t all = all_members(memory.extent().members);
        return (memory.header().joined.load(std::memory_order_acquire) & all) == all;
    }
    return Answers(memory).has(name);
}

}  // namespace rueda::core
