// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/negotiation/arrivals.hpp"
#include "core/negotiation/calling.hpp"
#include "core/negotiation/direct.hpp"
#include "core/negotiation/joining.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/registrar.hpp"
#include "tests/support/explorer/explorer.hpp"

namespace rueda::core::test {

using explorer::Exploration;
using explorer::explore;
using explorer::ExploredAtomics;
using explorer::ExploredPlain;
using explorer::Failure;
using explorer::Options;
using Orders = explorer::Memory;
using Entry = Log<ExploredAtomics>::Entry;

inline constexpr std::array<std::string_view, 4> kNames = {"a", "b", "c", "d"};
inline constexpr std::uint32_t kMostMembers = 3;

inline Metadata vector_of(std::int64_t elements) {
    Metadata metadata;
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::allreduce);
    metadata.dtype = static_cast<std::uint8_t>(DType::float32);
    metadata.ndim = 1;
    metadata.shape[0] = elements;
    return metadata;
}

/// Steps of the protocol that a test can change. In ShippedSteps these members are constants. Here they are variables,
/// so that a test can choose a wrong order of the steps.
struct Steps {
    bool called_before_append = ShippedSteps::called_before_append;
    std::memory_order end_of_announcements = ShippedSteps::end_of_announcements;
};

/// The shared memory of one process set. Every explored schedule begins with new memory.
class ExploredSet {
public:
    explicit ExploredSet(const NegotiationExtent& extent)
        : block_(static_cast<std::byte*>(std::aligned_alloc(kPage, NegotiationMemory<ExploredAtomics>::bytes(extent))),
                 std::free),
          placed_(std::size_t{2} * extent.slots * extent.members),
          memory(initialised(block_.get(), extent)),
          log(memory) {
        explorer::label(&memory.header().requests, "requests");
        explorer::label(&memory.header().shut_down, "shut_down");
        for (std::uint32_t slot = 0; slot < extent.slots; ++slot) {
            explorer::label(&memory.arrivals(slot).count, "arrivals", static_cast<int>(slot));
        }
        for (std::uint64_t position = 0; position < std::min(extent.log_entries(), 8U); ++position) {
            explorer::label(&memory.entry(position).sequence, "sequence", static_cast<int>(position));
            explorer::label(&memory.entry(position).end, "end", static_cast<int>(position));
        }
    }

    /// Returns all log entries. Call this function only after all threads have ended.
    [[nodiscard]] std::vector<Entry> entries() const {
        std::vector<Entry> all;
        const std::uint64_t end = log.end(0);
        for (std::uint64_t position = 0; position < end; ++position) {
            RUEDA_EXPLORER_REQUIRE(log.is_published(position));
            all.push_back(log.read(position));
        }
        return all;
    }
    [[nodiscard]] std::size_t count(EntryKind kind) const {
        const std::vector<Entry> all = entries();
        return static_cast<std::size_t>(
            std::count_if(all.begin(), all.end(), [=](const Entry& entry) { return entry.kind == kind; }));
    }

private:
    static constexpr std::size_t kPage = 4096;

    static NegotiationMemory<ExploredAtomics> initialised(std::byte* block, const NegotiationExtent& extent) {
        std::memset(block, 0, NegotiationMemory<ExploredAtomics>::bytes(extent));
        NegotiationMemory<ExploredAtomics>::initialise(block, extent);
        return {block, extent};
    }

    std::unique_ptr<std::byte, decltype(&std::free)> block_;
    std::vector<ExploredPlain<std::uint32_t>> placed_;

public:
    NegotiationMemory<ExploredAtomics> memory;
    const Log<ExploredAtomics> log;  ///< used only for reading; each appending thread has its own Log
    /// Stands for the content of an announcement in its place (the memory of this announcement). The race detector
    /// cannot see the plain members of a place, so the tests access this variable whenever the shipped code accesses
    /// those members.
    [[nodiscard]] ExploredPlain<std::uint32_t>& placed(std::uint32_t slot, std::uint32_t rank,
                                                       std::uint64_t generation) {
        return placed_[static_cast<std::size_t>(&memory.place(slot, rank, generation) - &memory.place(0, 0, 0))];
    }
    /// Stands for the content of a full announcement in a mailbox record. The indices are the name, the rank, and the
    /// operation's number modulo 2.
    std::array<std::array<std::array<ExploredPlain<std::uint32_t>, 2>, kMostMembers>, kNames.size()> mailed;
    /// Whether a test contains joins. Without joins, the test does not read the joined ranks, because these reads would
    /// lengthen the search.
    bool somebody_joins = false;
    Steps steps;
    /// Stands for the registrar's tables. This variable is written whenever the tables grow.
    ExploredPlain<std::uint32_t> tables;
};

/// The possible ends of an announcement.
enum class Ending { called, mismatch, failed, refused, exhausted };

/// One rank, used by one thread. It announces and reads the log like ProcessSet, but moves no data.
class Rank {
public:
    struct Event {
        Ending ending;
        std::size_t name;
        std::uint32_t operation;  ///< the operation's number among those with this name, from 0
        [[nodiscard]] bool operator==(const Event&) const = default;
    };

    Rank(ExploredSet& set, std::uint32_t rank)
        : set_(set),
          rank_(rank),
          log_(set.memory, rank),
          registrar_(set.memory, rank, {.may_grow = [&set](std::uint64_t) {
                         set.tables.write(set.tables.read() + 1);
                         return Status();
                     }}) {}

    /// Returns false if no announcement was made because some rank has shut down.
    bool announce(std::size_t name, const Metadata& metadata = vector_of(3)) {
        return announce(name, metadata, /*directly=*/false);
    }
    /// Announces directly if the name has a slot.
    bool announce_directly(std::size_t name) { return announce(name, vector_of(3), /*directly=*/true); }

    void join() { set_joined(set_.memory, rank_); }
    /// Does what a joined rank does in a set of two ranks: if the other rank has announced the name, and the name has a
    /// slot, announces the name without data. Returns whether this rank announced.
    bool stand_in(std::size_t name) {
        Tensor& tensor = tensors_[name];
        if (tensor.pending || tensor.slot == kNoSlot ||
            !(has_new_arrivals(set_.memory, tensor.slot, tensor.counted) ||
              has_stamped(set_.memory, tensor.slot, 1 - rank_, tensor.generation + 1)) ||
            !is_away(set_.memory, rank_)) {
            return false;
        }
        tensor.pending = true;
        ++tensor.operations;
        ++announced;
        ++tensor.generation;
        set_.placed(tensor.slot, rank_, tensor.generation).write(value_of(name, rank_, tensor.operations - 1));
        fill(set_.memory.place(tensor.slot, rank_, tensor.generation), tensor, tensor.generation, false,
             Place<ExploredAtomics>::kJoined);
        count(name, /*changed=*/false);
        return true;
    }

    void shut_down() {
        shut_down_posted_ = true;
        MailboxRecord<ExploredAtomics>& record = next_record();
        record.kind = static_cast<std::uint32_t>(RequestKind::shut_down);
        post();
    }

    /// Handles the next entry of the log, if there is one. Returns whether the rank made progress.
    bool turn() {
        if (registrar_.holds_announcements()) {
            ++waited;
            finish(registrar_.retry());
        }
        if (direct_ != kNone && turn_direct() != DirectState::waiting) {
            return true;
        }
        if (closed || !set_.log.is_published(next_)) {
            return false;
        }
        const Entry entry = set_.log.read(next_);
        if (entry.kind == EntryKind::retire && direct_ != kNone && tensors_[direct_].slot == entry.slot &&
            turn_direct(next_) == DirectState::waiting) {
            return false;
        }
        handle(entry);
        ++next_;
        if (ends_announcements(entry.kind)) {
            end_announcements(set_.memory, rank_, next_, set_.steps);
        } else {
            advance_cursor(set_.memory, rank_, next_);
        }
        return true;
    }
    template <class Done>
    void run_until(Done&& done) {
        while (!done()) {
            if (!turn()) {
                ExploredAtomics::pause();
            }
        }
    }
    /// Handles log entries until every announcement of this rank has ended.
    void run() {
        run_until([this] { return events.size() == announced; });
    }
    void run_until_closed() {
        run_until([this] { return closed; });
    }

    [[nodiscard]] std::uint32_t slot_of(std::size_t name) const { return tensors_[name].slot; }

    std::vector<Event> events;  ///< the ends of announcements, in the order of the log
    std::size_t announced = 0;
    std::uint32_t resolves = 0;
    std::uint32_t sent_away = 0;  ///< the number of announcements in a slot that was already retired (taken back)
    std::uint32_t direct = 0;     ///< the number of operations that all members announced directly
    std::uint32_t withdrawn = 0;  ///< the number of direct announcements that were withdrawn and then counted
    std::uint32_t waited = 0;     ///< the number of calls of turn() in which an announcement waited for a slot number
    bool closed = false;

private:
    struct Tensor {
        std::uint32_t slot = kNoSlot;
        std::uint64_t generation = 0;
        std::uint64_t counted = 0;
        std::uint32_t ticket = 0;  ///< identifies a full announcement that was not answered yet
        std::uint32_t operations = 0;
        bool pending = false;
        Metadata metadata;
        Metadata agreed;
    };

    bool announce(std::size_t name, const Metadata& metadata, bool directly) {
        Tensor& tensor = tensors_[name];
        RUEDA_EXPLORER_REQUIRE(!tensor.pending);
        if (shut_down_posted_ || set_.memory.header().shut_down.load(std::memory_order_acquire) != 0) {
            return false;
        }
        tensor.pending = true;
        tensor.metadata = metadata;
        ++tensor.operations;
        ++announced;
        if (tensor.slot == kNoSlot) {
            announce_in_full(name);
            return true;
        }
        const bool changed = !agree(tensor.agreed, metadata);
        ++tensor.generation;
        set_.placed(tensor.slot, rank_, tensor.generation).write(value_of(name, rank_, tensor.operations - 1));
        Place<ExploredAtomics>& place = set_.memory.place(tensor.slot, rank_, tensor.generation);
        if (directly && !changed && direct_ == kNone) {
            direct_ = name;
            fill(place, tensor, tensor.generation, false, Place<ExploredAtomics>::kDirect);
            return true;
        }
        fill(place, tensor, tensor.generation, changed);
        count(name, changed);
        return true;
    }

    [[nodiscard]] static std::uint32_t value_of(std::size_t name, std::uint32_t rank, std::uint32_t operation) {
        return static_cast<std::uint32_t>(name + 1) * 10000 + rank * 100 + operation;
    }
    static void fill(Place<ExploredAtomics>& place, const Tensor& tensor, std::uint64_t generation, bool with_metadata,
                     std::uint32_t flags = 0, std::memory_order order = std::memory_order_seq_cst) {
        place.flags = flags | (with_metadata ? Place<ExploredAtomics>::kMetadata : 0U);
        place.metadata = tensor.metadata;
        // The stamp is the sign that the announcement was written. Members that announced directly look for it before
        // they sleep, so `order` must be seq_cst if there may be such members. AnnouncementWriter::publish() uses the
        // same memory order.
        place.stamp.store(generation + 1, order);
    }

    DirectState turn_direct(std::uint64_t last_position = kNoLastPosition) {
        const std::size_t name = direct_;
        Tensor& tensor = tensors_[name];
        const DirectState found =
            look_at_direct(set_.memory, tensor.slot, rank_, tensor.generation, std::min(last_position, closing_at_));
        if (found == DirectState::complete) {
            direct_ = kNone;
            ++direct;
            call(name, tensor.slot);
        } else if (found == DirectState::withdrawn) {
            direct_ = kNone;
            ++withdrawn;
            count(name, /*changed=*/false);
        }
        return found;
    }

    void count(std::size_t name, bool changed) {
        Tensor& tensor = tensors_[name];
        const auto ready_call = [&]() -> std::optional<ReadyCall<ExploredAtomics>> {
            if (set_.somebody_joins && set_.memory.header().joined.load(std::memory_order_acquire) != 0) {
                return std::nullopt;
            }
            return ReadyCall<ExploredAtomics>{.entry = {EntryKind::call, tensor.slot}};
        };
        const Counted counted = count_announcement(
            set_.memory, log_, {.slot = tensor.slot, .counted = ++tensor.counted, .changed = changed},
            /*arrived=*/[] {}, ready_call, set_.steps);
        switch (counted) {
            case Counted::waiting:
            case Counted::called:
                return;
            case Counted::unresolved:
                post_resolve(tensor);
                return;
            case Counted::retired:
                ++sent_away;
                tensor.slot = kNoSlot;
                announce_in_full(name);
                return;
            case Counted::log_full:
                explorer::explorer_fail("the log is full");
        }
    }

    void post_resolve(const Tensor& tensor) {
        ++resolves;
        MailboxRecord<ExploredAtomics>& record = next_record();
        record.kind = static_cast<std::uint32_t>(RequestKind::resolve);
        record.slot = tensor.slot;
        record.generation = tensor.generation;
        record.counted = tensor.counted;
        post();
    }

    void announce_in_full(std::size_t name) {
        Tensor& tensor = tensors_[name];
        if (set_.memory.header().shut_down.load(std::memory_order_acquire) != 0) {
            end(name, Ending::refused);
            return;
        }
        tensor.ticket = ++tickets_;
        const std::uint32_t operation = tensor.operations - 1;
        set_.mailed[name][rank_][operation & 1].write(value_of(name, rank_, operation));
        MailboxRecord<ExploredAtomics>& record = next_record();
        record.kind = static_cast<std::uint32_t>(RequestKind::announce);
        record.ticket = tensor.ticket;
        record.name_bytes = static_cast<std::uint32_t>(kNames[name].size());
        record.name_hash = name;
        std::memcpy(record.name, kNames[name].data(), kNames[name].size());
        fill(record.place, tensor, 0, /*with_metadata=*/true, 0, std::memory_order_release);
        post();
    }

    [[nodiscard]] MailboxRecord<ExploredAtomics>& next_record() {
        MailboxRecord<ExploredAtomics>* record = registrar_.next_record();
        RUEDA_EXPLORER_REQUIRE(record != nullptr);  // the mailboxes of these tests never become full
        return *record;
    }
    void post() { finish(registrar_.post()); }
    static void finish(const Result<std::uint64_t>& posted) {
        if (!posted.is_ok()) {
            explorer::explorer_fail(posted.status().message());
        }
    }

    void handle(const Entry& entry) {
        switch (entry.kind) {
            case EntryKind::call:
                call(bound_to(entry.slot), entry.slot);
                return;
            case EntryKind::first_call: {
                const std::size_t name = announced_in(entry.slot);
                Tensor& tensor = tensors_[name];
                tensor.slot = entry.slot;
                tensor.generation = 0;
                tensor.counted = 0;
                tensor.ticket = 0;
                tensor.agreed = set_.memory.record(entry.slot).metadata;
                call(name, kNoSlot);
                return;
            }
            case EntryKind::changed_call: {
                const std::size_t name = bound_to(entry.slot);
                tensors_[name].slot = kNoSlot;
                call(name, entry.slot);
                return;
            }
            case EntryKind::mismatch:
            case EntryKind::disagreed:
            case EntryKind::lacks_joined:
                end_unbound(entry.slot, Ending::mismatch);
                return;
            case EntryKind::failed:
                if (find_bound(entry.slot) != kNone || find_announced(entry.slot) != kNone) {
                    end_unbound(entry.slot, Ending::failed);
                }
                return;
            case EntryKind::retire:
                if (const std::size_t name = find_bound(entry.slot); name != kNone) {
                    RUEDA_EXPLORER_REQUIRE(!tensors_[name].pending);
                    tensors_[name].slot = kNoSlot;
                }
                return;
            case EntryKind::refused:
            case EntryKind::exhausted:
                for (std::size_t name = 0; entry.rank == rank_ && name < kNames.size(); ++name) {
                    if (tensors_[name].ticket == entry.ticket) {
                        end(name, entry.kind == EntryKind::refused ? Ending::refused : Ending::exhausted);
                    }
                }
                return;
            case EntryKind::closing:
                closing_at_ = next_;
                return;
            case EntryKind::all_joined:
            case EntryKind::wanted:
                return;
            case EntryKind::closed:
                if (direct_ != kNone && turn_direct() == DirectState::waiting) {
                    end(std::exchange(direct_, kNone), Ending::failed);
                }
                closed = true;
                return;
        }
    }

    void end_unbound(std::uint32_t slot, Ending ending) {
        const std::size_t bound = find_bound(slot);
        const std::size_t name = bound != kNone ? bound : announced_in(slot);
        tensors_[name].slot = kNoSlot;
        direct_ = direct_ == name ? kNone : direct_;
        if (tensors_[name].pending) {
            end(name, ending);
        }
    }
    /// Executes an operation that the log calls. The announcements of all members must be complete and belong to this
    /// operation, even if some members are already further in the log. When the log calls a name for the first time,
    /// `slot` is kNoSlot, and the announcements are in the mailboxes. In later calls, the announcements are in `slot`.
    void call(std::size_t name, std::uint32_t slot) {
        const std::uint32_t operation = tensors_[name].operations - 1;
        for (std::uint32_t member = 0; member < set_.memory.extent().members; ++member) {
            const auto& found = slot == kNoSlot ? set_.mailed[name][member][operation & 1]
                                                : set_.placed(slot, member, tensors_[name].generation);
            RUEDA_EXPLORER_REQUIRE(found.read() == value_of(name, member, operation));
        }
        end(name, Ending::called);
    }
    void end(std::size_t name, Ending ending) {
        Tensor& tensor = tensors_[name];
        RUEDA_EXPLORER_REQUIRE(tensor.pending);
        tensor.pending = false;
        tensor.ticket = 0;
        events.push_back({ending, name, tensor.operations - 1});
    }

    static constexpr std::size_t kNone = kNames.size();
    [[nodiscard]] std::size_t find_bound(std::uint32_t slot) const {
        std::size_t name = 0;
        while (name < kNone && tensors_[name].slot != slot) {
            ++name;
        }
        return name;
    }
    [[nodiscard]] std::size_t find_announced(std::uint32_t slot) const {
        const SlotRecord& record = set_.memory.record(slot);
        std::size_t name = 0;
        while (name < kNone &&
               (tensors_[name].ticket == 0 || std::string_view(record.name, record.name_bytes) != kNames[name])) {
            ++name;
        }
        return name;
    }
    [[nodiscard]] std::size_t bound_to(std::uint32_t slot) const {
        const std::size_t name = find_bound(slot);
        RUEDA_EXPLORER_REQUIRE(name != kNone);
        return name;
    }
    [[nodiscard]] std::size_t announced_in(std::uint32_t slot) const {
        const std::size_t name = find_announced(slot);
        RUEDA_EXPLORER_REQUIRE(name != kNone);
        return name;
    }

    ExploredSet& set_;
    std::uint32_t rank_;
    Log<ExploredAtomics> log_;
    Registrar<ExploredAtomics> registrar_;
    std::array<Tensor, kNames.size()> tensors_;
    std::uint64_t next_ = 0;
    std::uint32_t tickets_ = 0;
    std::uint64_t closing_at_ = kNoLastPosition;
    std::size_t direct_ = kNone;  ///< the name that this rank has announced directly; kNone if no such announcement is
                                  ///< pending
    bool shut_down_posted_ = false;
};

/// An ExploredSet and its ranks. A test uses one thread for each rank.
template <std::uint32_t members>
struct RanksOf : ExploredSet {
    explicit RanksOf(const NegotiationExtent& extent) : ExploredSet(extent) {
        ranks.reserve(members);
        for (std::uint32_t rank = 0; rank < members; ++rank) {
            ranks.emplace_back(*this, rank);
        }
    }
    /// Binds the name to a slot before the threads start.
    void bind(std::size_t name) {
        for (Rank& rank : ranks) {
            rank.announce(name);
        }
        for (Rank& rank : ranks) {
            rank.run();
        }
    }
    /// Checks after all threads have ended: the registrar has no more work, and every announcement has ended exactly
    /// once.
    void require_all_ended() const {
        RUEDA_EXPLORER_REQUIRE(memory.header().requests.load() == 0);
        for (std::uint32_t rank = 0; rank < members; ++rank) {
            RUEDA_EXPLORER_REQUIRE(memory.mailbox(rank).taken.load() == memory.mailbox(rank).posted.load());
            RUEDA_EXPLORER_REQUIRE(ranks[rank].events.size() == ranks[rank].announced);
        }
    }
    void require_same_history() const {
        for (const Rank& rank : ranks) {
            RUEDA_EXPLORER_REQUIRE(rank.events == ranks.front().events);
        }
    }

    std::vector<Rank> ranks;
};

}  // namespace rueda::core::test
