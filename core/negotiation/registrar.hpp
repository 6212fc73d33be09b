// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/calling.hpp"
#include "core/negotiation/foreign.hpp"
#include "core/negotiation/impossible.hpp"
#include "core/negotiation/layout.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/refusals.hpp"

namespace rueda::core {

/// Receives the events of one host that need an answer from other hosts. In a set on several hosts, the host's
/// registrar reports these events to this class, which belongs to the host's leader
/// (docs/design/0002-several-hosts.md). Threads: only the registrar.
class Superior {
public:
    virtual ~Superior() = default;
    /// Called when all members of the host have announced `generation` (a use of `slot`). `changed` is true if some
    /// members announced metadata that differ from the metadata to which the slot is bound. The members announce
    /// nothing more in the slot until the leader calls append_calls() or append_refusal().
    virtual Status complete(std::uint32_t slot, std::uint64_t generation, bool changed) = 0;
    /// Called when the slot has lost its name.
    virtual void retired(std::uint32_t slot) = 0;
    /// Called when a member of this host has shut down. After the first shutdown on any host, the leader calls
    /// close_to_calls().
    virtual void shutting_down(std::uint32_t member) = 0;
    /// Called when all members of the host have shut down. When all hosts have reported this, the leader calls close().
    virtual void closed() = 0;
    /// Called when all members of the host have joined, and none of them has a pending operation. When all hosts have
    /// reported this, the leader calls end_joins().
    virtual void settled() = 0;
};

/// The sequential part of the negotiation: it gives slots to names, compares metadata, and ends the set. A slot is
/// *bound* to a name until the registrar *retires* the slot. A retired slot belongs to no name, and its number is used
/// again later. The registrar is not a thread but a role. If a rank posts a request while no rank is the registrar,
/// this rank takes the role until all requests are handled (docs/design/0001-negotiation.md, "The registrar").
///
/// Other processes write the data in the arena. The registrar therefore copies the data, checks the copy, and uses the
/// copy.
///
/// Threads: any thread of a rank, under the rank's enqueue lock (the mutex under which a rank announces operations).
/// Only one registrar at a time accesses the tables in the arena; `SetHeader::requests` (acq_rel) orders one registrar
/// after another.
template <class Atomics>
class Registrar {
public:
    using Memory = NegotiationMemory<Atomics>;
    using Record = MailboxRecord<Atomics>;

    /// The registrar works on memory in the arena. It gets everything else that it needs through these functions.
    struct Environment {
        /// Asks whether the tables may use `bytes` more bytes of memory. The registrar calls this before it uses the
        /// memory.
        std::function<Status(std::uint64_t bytes)> may_grow = [](std::uint64_t) { return Status(); };
        /// Returns the member's number in the job.
        std::function<std::int32_t(std::uint32_t member)> rank_of = [](std::uint32_t member) {
            return static_cast<std::int32_t>(member);
        };
    };

    Registrar(Memory memory, std::uint32_t rank, Environment environment)
        : memory_(memory),
          log_(memory, rank),
          refusals_(memory),
          rank_(rank),
          environment_(std::move(environment)),
          leader_serves_(memory.extent().has_leader()),
          no_memory_(ErrorCode::resource_exhausted, "a rank has no memory left to say what went wrong") {}

    /// Returns a free record of this rank's mailbox, or null. If the mailbox is full, the caller must try again after
    /// members have read more of the log. The result is also null if is_damaged().
    [[nodiscard]] Record* next_record() {
        const auto& mailbox = memory_.mailbox(rank_);
        const std::uint64_t posted = mailbox.posted.load(std::memory_order_relaxed);
        const std::uint64_t taken = mailbox.taken.load(std::memory_order_acquire);
        // The log has space for an answer to every record of every mailbox. A record becomes free only when all members
        // have read the log entry that answers it. So the log always has free entries for the answers.
        std::uint64_t unread = 0;
        if (posted - handed_back_ > memory_.extent().mailbox_records || taken - handed_back_ > posted - handed_back_) {
            is_damaged_ = true;
            await_readers(0);
            return nullptr;
        }
        for (; handed_back_ != taken; ++handed_back_) {
            const std::uint64_t answered_before =
                copy_once(memory_.mailbox_record(rank_, handed_back_).answered_before);
            if (answered_before != 0 && answered_before > all_have_read()) {
                unread = answered_before;
                break;
            }
        }
        const bool full = posted - handed_back_ >= memory_.extent().mailbox_records;
        await_readers(full ? unread : 0);
        return full ? nullptr : &memory_.mailbox_record(rank_, posted);
    }

    /// Whether this rank has found an impossible state in its mailbox or in the log. Only a faulty rank can cause such
    /// a state.
    [[nodiscard]] bool is_damaged() const { return is_damaged_ || log_.is_damaged(); }
    [[nodiscard]] Status damage() const {
        return failure(ErrorCode::internal,
                       "the {} is damaged: rank {} finds no room in it, which cannot happen if all ranks are correct",
                       is_damaged_ ? "mailbox" : "log", environment_.rank_of(rank_));
    }

    /// Publishes the record that next_record() returned. If no rank is the registrar, this rank becomes the registrar
    /// and handles all requests. Returns the number of appended log entries. If the result is a failure, the caller
    /// must end the Runtime. Throws nothing, because other ranks already see the record.
    Result<std::uint64_t> post() noexcept {
        auto& mailbox = memory_.mailbox(rank_);
        set_step(memory_, rank_, ProtocolStep::kPosting);
        mailbox.posted.store(mailbox.posted.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        return request();
    }

    // The functions from report_to() to close() are for sets on several hosts. In such a set, only the leader is the
    // registrar and appends to the log (docs/design/0002-several-hosts.md).

    void report_to(Superior& superior) { superior_ = &superior; }
    /// Whether there are requests. This is the last check of a leader before it sleeps. The load is seq_cst, and pairs
    /// with the add in request(): either the leader sees the request, or the requesting rank sees that the leader
    /// sleeps and wakes it.
    [[nodiscard]] bool has_requests() const { return memory_.header().requests.load(std::memory_order_seq_cst) != 0; }
    /// Whether requests wait for the host's leader. If so, the caller must wake the leader.
    [[nodiscard]] bool waits_for_leader() const { return leader_serves_ && has_requests(); }
    /// Handles all requests; in a set with a leader, only the leader does this. Returns the number of appended log
    /// entries. If the result is a failure, the caller must end the Runtime.
    Result<std::uint64_t> serve() noexcept {
        appended_ = 0;
        return has_requests() || is_damaged() ? run_to_end() : Result<std::uint64_t>(std::uint64_t{0});
    }

    /// An operation that all ranks of the host have announced, and that the leader appends to the log.
    struct Call {
        std::uint32_t slot = kNoSlot;
        bool changed = false;          ///< the argument `changed` of Superior::complete() for this operation
        std::uint32_t attachment = 0;  ///< see LogEntry::attachment
        std::uint32_t uncounted = 0;   ///< see LogEntry::uncounted
    };
    /// Appends `calls` as one batch. `calls` must not be empty. Returns the log position after the batch.
    std::uint64_t append_calls(std::span<const Call> calls) {
        batch_.clear();
        for (const Call& call : calls) {
            const bool first = memory_.record(call.slot).state == static_cast<std::uint32_t>(SlotState::first_sight);
            if (first) {
                set_state(call.slot, SlotState::bound);
            }
            const EntryKind kind = first          ? EntryKind::first_call
                                   : call.changed ? EntryKind::changed_call
                                                  : EntryKind::call;
            // This function does not fill in `fusion` and `bytes`. They only help to choose the end of a batch, and the
            // end of this batch is known already.
            batch_.push_back({kind, call.slot, 0, 0, Fusion::alone, 0, call.attachment, call.uncounted});
            note_called(call.slot);
        }
        const std::uint64_t begin = log_.append_batch(batch_);
        for (std::size_t i = 0; i < calls.size(); ++i) {
            memory_.arrivals(calls[i].slot).last_called.store(begin + i, std::memory_order_relaxed);
            if (batch_[i].kind == EntryKind::changed_call && calls[i].slot >= memory_.extent().unnamed_slots) {
                retire(calls[i].slot, begin + i);
            }
        }
        return begin + calls.size();
    }
    /// Appends the refusal of an operation that all ranks of the host have announced. Returns the log position after
    /// the entry. `kind` is one of these:
    /// - `disagreed`: the ranks' metadata differ, or the operation is impossible; `code` is the error.
    /// - `lacks_joined`: the operation needs data of ranks that have joined.
    std::uint64_t append_refusal(EntryKind kind, std::uint32_t slot, std::uint32_t attachment, ErrorCode code) {
        const bool named = slot >= memory_.extent().unnamed_slots;
        note_called(slot);
        if (named) {
            // The slot's state must change before the entry is appended, because a joined member looks for new names as
            // soon as it has read the entry.
            set_state(slot, SlotState::retired);
        }
        const std::uint64_t position =
            append({kind, slot, static_cast<std::uint32_t>(code), 0, Fusion::alone, 0, attachment});
        if (named) {
            retire(slot, position);
        }
        return position + 1;
    }
    /// Asks the members to announce the operation whose name is in the attachment (the data that the log entry refers
    /// to). Other hosts have announced this operation, and all members of this host have joined. `slot` is the slot of
    /// an unnamed operation, or kNoSlot. Returns the log position after the entry.
    std::uint64_t append_wanted(std::uint32_t slot, std::uint32_t attachment) {
        return append({EntryKind::wanted, slot, 0, 0, Fusion::alone, 0, attachment}) + 1;
    }
    /// Ends the joins. Call this when all ranks of the set have joined, and all announced operations have been called.
    /// `last` is the rank that joined last. Returns the log position after the entry.
    std::uint64_t end_joins(std::uint32_t last) {
        SetHeader<Atomics>& header = memory_.header();
        // The store to `last_joined` may be relaxed, because a member joins again only after it has read the entry that
        // is appended below.
        header.last_joined.store(0, std::memory_order_relaxed);
        // The store to `joined` is seq_cst, and pairs with is_away(): a joined member that finds an announcement checks
        // `joined`, to know whether it must announce the operation too. An announcement after this store counts as made
        // after the join.
        header.joined.store(0, std::memory_order_seq_cst);
        std::atomic_ref(header.settled_members).store(0, std::memory_order_relaxed);
        return append({EntryKind::all_joined, kNoSlot, last}) + 1;
    }
    /// Ends the calls of operations, because a rank has shut down; `rank` is its number in the job. Operations that
    /// were not called before will never be called.
    void close_to_calls(std::int32_t rank) {
        SetHeader<Atomics>& header = memory_.header();
        header.closing = 1;
        // The store to `first_shut_down` may be relaxed, because the store to `shut_down` below publishes it.
        header.first_shut_down.store(rank, std::memory_order_relaxed);
        header.shut_down.store(~std::uint64_t{0}, std::memory_order_release);
        append({EntryKind::closing});
        fail_incomplete_slots();
    }
    /// Closes the set, because all ranks of the job have shut down.
    void close() {
        memory_.header().closed = 1;
        append({EntryKind::closed});
    }
    /// Returns the log position up to which all members have read.
    [[nodiscard]] std::uint64_t all_have_read() const {
        std::uint64_t position = ~std::uint64_t{0};
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            position = std::min(position, memory_.cursor(member).position.load(std::memory_order_acquire));
        }
        return position;
    }

    /// Returns the log position that all members must have read before this rank can continue; 0 if the rank does not
    /// wait. A rank waits because its mailbox is full, or because a new name needs a slot number that members still
    /// use. A member reads the log even if it has no pending operation, but if it sleeps, it must be woken first.
    [[nodiscard]] std::uint64_t waits_for_readers() const { return std::max(numbers_wait_for_, answers_wait_for_); }

    /// Whether announcements wait for a free slot number. If so, retry() must be called from time to time.
    [[nodiscard]] bool holds_announcements() const { return numbers_wait_for_ != 0; }

    /// Handles the waiting announcements if all members have read the log far enough. Returns the number of appended
    /// log entries. If the result is a failure, the caller must end the Runtime.
    Result<std::uint64_t> retry() noexcept {
        if (numbers_wait_for_ == 0 || all_have_read() < numbers_wait_for_) {
            return std::uint64_t{0};
        }
        numbers_wait_for_ = 0;
        set_step(memory_, rank_, ProtocolStep::kPosting);
        return request();
    }

private:
    // The value of a removed entry in a name bucket. 0 means an empty bucket; other values are slot + 1.
    static constexpr std::uint32_t kTombstone = 0xFFFFFFFF;
    // the maximum number of slots that one call of reclaim() retires; this limits how long one announcement is delayed
    static constexpr std::uint32_t kReclaimAtOnce = 16;
    // The maximum number of slots that reclaim() checks when make_room() calls it. This limit, too, keeps the delay of
    // an announcement short.
    static constexpr std::uint32_t kLookAtOnce = 128;

    enum class Handled { done, waits };

    /// A request to the registrar, copied from the mailbox.
    struct Request {
        RequestKind kind;
        std::uint32_t ticket;
        std::uint32_t slot;
        std::uint32_t name_bytes;
        std::uint64_t generation;
        std::uint64_t counted;
        std::uint64_t name_hash;
        std::array<char, RUEDA_MAX_NAME + 1> text;
        PlaceContent place;
        // the rows for each member; only for an alltoall or a scatter
        std::array<std::int64_t, base::kMaxLocalRanks> splits;
        std::array<char, kSiteBytes> site;  // for announce

        explicit Request(const Record& record)
            : kind(static_cast<RequestKind>(copy_once(record.kind))),
              ticket(copy_once(record.ticket)),
              slot(copy_once(record.slot)),
              name_bytes(copy_once(record.name_bytes)),
              generation(copy_once(record.generation)),
              counted(copy_once(record.counted)),
              name_hash(copy_once(record.name_hash)) {
            if (kind != RequestKind::announce) {
                return;
            }
            if (name_bytes <= RUEDA_MAX_NAME) {
                std::memcpy(text.data(), record.name, name_bytes);
            }
            place = record.place.content();
            site = copy_once(record.site);
            if (has_splits()) {
                std::memcpy(splits.data(), record.splits, sizeof(record.splits));
            }
        }
        [[nodiscard]] bool has_splits() const {
            return collectives::has_splits(static_cast<collectives::Operation>(place.metadata.operation));
        }
        /// The name of the tensor. Valid only if the request is an announcement.
        [[nodiscard]] std::string_view name() const { return {text.data(), name_bytes}; }
    };

    /// Counts a new request, and handles all requests if this rank becomes the registrar. The caller must have called
    /// set_step() with kPosting; this function ends that step.
    Result<std::uint64_t> request() noexcept {
        appended_ = 0;
        if (leader_serves_) {
            // This add is seq_cst, and pairs with has_requests(). Either a leader that is about to sleep sees this
            // request, or the caller sees that the leader sleeps and wakes it.
            memory_.header().requests.fetch_add(1, std::memory_order_seq_cst);
        } else if (memory_.header().requests.fetch_add(1, std::memory_order_acq_rel) == 0) {
            return run_to_end();
        }
        set_step(memory_, rank_, ProtocolStep::kNone);
        return appended_;
    }

    Result<std::uint64_t> run_to_end() noexcept {
        set_step(memory_, rank_, ProtocolStep::kRegistrar);
        Result<std::uint64_t> appended = run_and_count();
        set_step(memory_, rank_, ProtocolStep::kNone);
        return appended;
    }

    Result<std::uint64_t> run_and_count() noexcept {
        try {
            RUEDA_RETURN_IF_FAILED(run());
            if (is_damaged()) {
                return damage();
            }
        } catch (const std::bad_alloc&) {
            // Memory has run out. run() allocates memory only for the text of a failure, and for a report to the
            // leader.
            return no_memory_;
        }
        return appended_;
    }

    /// Handles all requests that are posted before `requests` is set back to 0. If no slot number is free for an
    /// announcement, it waits until all members have read more of the log. The next registrar then handles it. If no
    /// other rank becomes the registrar, this rank handles it in retry().
    Status run() {
        auto& requests = memory_.header().requests;
        std::uint64_t seen = 1;
        do {
            numbers_wait_for_ = 0;
            tell_numbers_wait_for(0);
            for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
                RUEDA_RETURN_IF_FAILED(empty_mailbox(member));
            }
        } while (!requests.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_acquire));
        return {};
    }

    // await_readers() and tell_numbers_wait_for() store data for the stall monitor. Their release stores pair with the
    // acquire loads of the monitor in pending_tensors().

    /// Records the log position that all members must read before this rank's mailbox has a free record.
    void await_readers(std::uint64_t position) {
        if (answers_wait_for_ != position) {
            answers_wait_for_ = position;
            std::atomic_ref(memory_.mailbox(rank_).reads_awaited).store(position, std::memory_order_release);
        }
    }
    /// Records the log position that all members must read before waiting announcements can get a slot number.
    void tell_numbers_wait_for(std::uint64_t position) {
        SetHeader<Atomics>& header = memory_.header();
        if (copy_once(header.numbers_wait_for) != position) {
            std::atomic_ref(header.numbers_wait_with).store(rank_ + 1, std::memory_order_relaxed);
            std::atomic_ref(header.numbers_wait_for).store(position, std::memory_order_release);
        }
    }

    Status empty_mailbox(std::uint32_t member) {
        auto& mailbox = memory_.mailbox(member);
        std::uint64_t taken = mailbox.taken.load(std::memory_order_relaxed);
        for (;;) {
            const std::uint64_t posted = mailbox.posted.load(std::memory_order_acquire);
            if (posted == taken) {
                return {};
            }
            if (posted - taken > memory_.extent().mailbox_records) {
                return failure(ErrorCode::internal, "rank {} says that it posted {} requests after {} were handled",
                               member, posted, taken);
            }
            Record& record = memory_.mailbox_record(member, taken);
            answered_before_ = 0;
            Result<Handled> handled = handle(member, Request(record));
            RUEDA_RETURN_IF_FAILED(handled.status());
            if (handled.value() == Handled::waits) {
                return {};  // the member's later requests must wait too, so that their order is kept
            }
            record.answered_before = answered_before_;
            // The store to `taken` is a release, and pairs with next_record(), which reads `taken` before
            // `answered_before`.
            mailbox.taken.store(++taken, std::memory_order_release);
        }
    }

    Result<Handled> handle(std::uint32_t member, const Request& request) {
        switch (request.kind) {
            case RequestKind::announce:
                return announce(member, request);
            case RequestKind::resolve:
                RUEDA_RETURN_IF_FAILED(resolve(member, request));
                return Handled::done;
            case RequestKind::shut_down:
                shut_down(member);
                return Handled::done;
            case RequestKind::settle:
                RUEDA_RETURN_IF_FAILED(settle(member));
                return Handled::done;
        }
        return failure(ErrorCode::internal, "rank {} posted a request of unknown kind {}", member,
                       static_cast<std::uint32_t>(request.kind));
    }

    Result<Handled> announce(std::uint32_t member, const Request& request) {
        if (request.name_bytes == 0 || request.name_bytes > RUEDA_MAX_NAME || !is_plausible(request.place.metadata)) {
            return failure(ErrorCode::internal,
                           "rank {} announced a tensor with a name of {} bytes or metadata that no "
                           "working rank writes",
                           member, request.name_bytes);
        }
        if (memory_.header().closing != 0) {
            answer({EntryKind::refused, kNoSlot, member, request.ticket});
            return Handled::done;
        }
        // This check must come before find(), because a slot with this name may belong to a later operation than the
        // refused one.
        if (const auto slots = settle_refusal(request.name(), member)) {
            answer({EntryKind::exhausted, kNoSlot, member, request.ticket, Fusion::alone, *slots});
            return Handled::done;
        }
        std::uint32_t slot = find(request.name(), request.name_hash);
        // If a rank has joined, it announces a name only after another rank has announced it. On several hosts, the
        // other rank may be on another host. So this check is only done in a set on one host.
        if (slot == kNoSlot && superior_ == nullptr && has_joined(request.place.flags)) {
            return failure(ErrorCode::internal,
                           "rank {} has joined, and announced '{}', which no other rank has announced", member,
                           request.name());
        }
        if (slot == kNoSlot) {
            Result<Room> room = make_room();
            RUEDA_RETURN_IF_FAILED(room.status());
            if (room.value() == Room::later) {
                return Handled::waits;
            }
            if (room.value() == Room::none) {
                return refuse(member, request);
            }
            Result<std::uint32_t> taken = take_slot();
            RUEDA_RETURN_IF_FAILED(taken.status());
            slot = taken.value();
            open(slot, request);
        }
        SlotRecord& page = memory_.record(slot);
        const std::uint64_t bit = std::uint64_t{1} << member;
        if (page.state != static_cast<std::uint32_t>(SlotState::first_sight) || (page.arrived & bit) != 0) {
            return failure(ErrorCode::internal, "rank {} announced '{}' in full, but its slot {} is in state {}",
                           member, request.name(), slot, page.state);
        }
        page.arrived |= bit;
        if (memory_.extent().call_sites != 0) {
            // The call site must be written first: the stamp that is written with the announcement's data publishes
            // both.
            memory_.site(slot, member, 0).write(request.site);
        }
        memory_.place(slot, member, 0).write(request.place);
        if (request.has_splits() && memory_.extent().has_splits()) {
            std::copy_n(request.splits.begin(), memory_.extent().members, memory_.splits(slot, member, 0));
        }
        if (std::popcount(page.arrived) == static_cast<int>(memory_.extent().members)) {
            RUEDA_RETURN_IF_FAILED(complete_first_sight(slot));
        }
        return Handled::done;
    }

    /// Refuses an announcement for which no slot is free. The operation then fails on each member as soon as the member
    /// announces the name. Other operations are not affected.
    Result<Handled> refuse(std::uint32_t member, const Request& request) {
        const std::uint32_t slots = memory_.header().slot_limit;
        if (superior_ != nullptr) {
            return out_of_slots(member, request.name(), slots);
        }
        if (!refusals_.add(refusal_key(request.name()), member, slots)) {
            return failure(ErrorCode::resource_exhausted,
                           "all {} slots for tensor names are taken by pending tensors, and {} more names were refused "
                           "on some ranks and not yet announced on others: start fewer operations at a time, or raise "
                           "RUEDA_SLOTS_MAX",
                           memory_.extent().for_names(slots), memory_.extent().refusals());
        }
        const std::uint64_t position =
            answer({EntryKind::exhausted, kNoSlot, member, request.ticket, Fusion::alone, slots});
        // The registrar skips the search for idle slots until the log has grown beyond `nothing_idle_at`. This refusal
        // adds an entry to the log, but makes no slot idle. So `nothing_idle_at` moves past this entry, and the next
        // search is skipped, too.
        std::uint64_t& nothing_idle_at = memory_.header().nothing_idle_at;
        nothing_idle_at += nothing_idle_at == position ? 1 : 0;
        return Handled::done;
    }

    /// On several hosts, a missing slot ends the job: ranks of other hosts may have a slot for the name, and would wait
    /// for this host for ever (docs/design/0002-several-hosts.md, "When a host runs out of slots").
    Status out_of_slots(std::uint32_t member, std::string_view name, std::uint32_t slots) const {
        const std::uint32_t most = memory_.extent().slots;
        // True if the setting allows more slots, but grow() could not get memory for them.
        const bool may_be_more = slots < most;
        return failure(ErrorCode::resource_exhausted,
                       "rank {}, tensor '{}': all {} slots for tensor names of its host are taken by pending tensors, "
                       "{}RUEDA_SLOTS_MAX is {}; the job ends, because other hosts may have a slot for this name: "
                       "start fewer operations at a time, or {}",
                       environment_.rank_of(member), name, memory_.extent().for_names(slots),
                       may_be_more ? "there is no memory for more, and " : "and ", memory_.extent().for_names(most),
                       may_be_more ? "give the host more memory"
                                   : "set RUEDA_SLOTS_MAX to more, as ruedarun -x RUEDA_SLOTS_MAX=VALUE does");
    }

    std::optional<std::uint32_t> settle_refusal(std::string_view name, std::uint32_t member) {
        return refusals_.empty() ? std::nullopt : refusals_.settle(refusal_key(name), member);
    }

    void open(std::uint32_t slot, const Request& request) {
        const std::string_view name = request.name();
        SlotRecord& page = memory_.record(slot);
        forget_stamps(slot);
        page.state = static_cast<std::uint32_t>(SlotState::first_sight);
        page.arrived = 0;
        page.metadata = request.place.metadata;
        page.name_hash = request.name_hash;
        page.name_bytes = static_cast<std::uint32_t>(name.size());
        std::copy(name.begin(), name.end(), page.name);
        memory_.label(slot).open(name);
        insert(slot);
    }

    /// Clears the stamps of all announcements that were made in an earlier use of the slot number, because the new
    /// generations start at 0 again. The stall monitor sees the cleared stamps before it sees the new name in the
    /// slot's label.
    void forget_stamps(std::uint32_t slot) {
        if (memory_.label(slot).state().use == 0) {
            return;  // the slot was never used
        }
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            memory_.place(slot, member, 0).stamp.store(0, std::memory_order_relaxed);
            memory_.place(slot, member, 1).stamp.store(0, std::memory_order_relaxed);
        }
    }

    void set_state(std::uint32_t slot, SlotState state) {
        memory_.record(slot).state = static_cast<std::uint32_t>(state);
        memory_.label(slot).set(state);
    }

    Status complete_first_sight(std::uint32_t slot) {
        if (superior_ != nullptr) {
            return superior_->complete(slot, 0, false);
        }
        Result<std::optional<Metadata>> agreed = compare(slot, 0);
        RUEDA_RETURN_IF_FAILED(agreed.status());
        if (!can_be_called(agreed.value())) {
            end_first_sight(slot, EntryKind::mismatch);
        } else if (lacks_joined(slot, 0, *agreed.value())) {
            end_first_sight(slot, EntryKind::lacks_joined);
        } else {
            memory_.record(slot).state = static_cast<std::uint32_t>(SlotState::bound);
            memory_.label(slot).set(SlotState::answering);
            append_call(EntryKind::first_call, slot, *agreed.value());
            memory_.label(slot).set(SlotState::bound);
        }
        return {};
    }

    /// Retires a slot whose first operation fails, for example with a mismatch. The label must change before the entry
    /// is appended, because a joined member looks for new names as soon as it has read the entry. The label gets its
    /// final state only after the append, because the stall monitor must find the announcements until the entry is
    /// there.
    void end_first_sight(std::uint32_t slot, EntryKind kind) {
        memory_.record(slot).state = static_cast<std::uint32_t>(SlotState::retired);
        memory_.label(slot).set(SlotState::answering);
        retire(slot, append({kind, slot}));
    }

    /// Handles a request of the member that announced last. This member posts the request if some member's metadata
    /// changed, if a member has joined, or if the tensor has no name. All members have announced the operation.
    Status resolve(std::uint32_t asking, const Request& request) {
        const std::uint32_t slot = request.slot;
        if (superior_ != nullptr && memory_.header().closing != 0) {
            return {};  // All members had announced the operation, but then close_to_calls() ended it with an error.
        }
        if (slot >= memory_.extent().slots ||
            memory_.record(slot).state != static_cast<std::uint32_t>(SlotState::bound)) {
            return failure(ErrorCode::internal, "rank {} asked to compare slot {}, which is not bound", asking, slot);
        }
        const std::uint64_t word = memory_.arrivals(slot).count.load(std::memory_order_acquire);
        const std::uint64_t arrivals = ArrivalCount::arrivals(word);
        if (request.counted == 0 || arrivals != request.counted * memory_.extent().members) {
            return failure(ErrorCode::internal,
                           "rank {} asked to compare generation {} of slot {}, in which {} announcements were counted",
                           asking, request.generation, slot, arrivals);
        }
        if (superior_ != nullptr) {
            if (request.generation != request.counted) {
                return failure(ErrorCode::internal, "rank {} asked to compare generation {} of slot {}, of {} counted",
                               asking, request.generation, slot, request.counted);
            }
            return superior_->complete(slot, request.generation, ArrivalCount::any_changed(word));
        }
        const bool named = slot >= memory_.extent().unnamed_slots;
        Result<std::optional<Metadata>> agreed = compare(slot, request.generation);
        RUEDA_RETURN_IF_FAILED(agreed.status());
        const bool callable = can_be_called(agreed.value());
        const bool lacks = callable && lacks_joined(slot, request.generation, *agreed.value());
        if (callable && !lacks && !(named && ArrivalCount::any_changed(word))) {
            // No metadata changed. The member that announced last did not append the call itself, because a member has
            // joined or the tensor has no name.
            ++appended_;
            core::append_call(memory_, log_, call_entry(EntryKind::call, slot, *agreed.value()), arrivals);
            return {};
        }
        const std::uint64_t position = lacks      ? append({EntryKind::lacks_joined, slot})
                                       : callable ? append_call(EntryKind::changed_call, slot, *agreed.value())
                                                  : append({EntryKind::mismatch, slot});
        if (named) {
            retire(slot, position);
        } else {
            // The operation ended with an error. Its announcements count as called.
            memory_.arrivals(slot).called.store(arrivals, std::memory_order_release);
        }
        return {};
    }

    /// Handles a report of `member`. It says that all members have joined, and that `member` has no pending operation.
    /// When all members have reported this, every announced operation has ended. Then the join ends
    /// (docs/design/0005-join.md).
    Status settle(std::uint32_t member) {
        SetHeader<Atomics>& header = memory_.header();
        if (header.closing != 0) {
            return {};  // the *closing* entry in the log has already ended the joins
        }
        const std::uint64_t all = all_members(memory_.extent().members);
        // This acquire load pairs with the seq_cst stores of the members in set_joined().
        if (header.joined.load(std::memory_order_acquire) != all) {
            return failure(ErrorCode::internal, "rank {} has nothing left to do, but not all ranks have joined",
                           member);
        }
        const std::uint64_t settled = header.settled_members | std::uint64_t{1} << member;
        std::atomic_ref(header.settled_members).store(settled, std::memory_order_relaxed);
        if (settled != all) {
            return {};
        }
        if (superior_ != nullptr) {
            superior_->settled();
            return {};
        }
        refusals_.clear();
        const std::uint32_t last = header.last_joined.load(std::memory_order_relaxed);
        if (last == 0 || last > memory_.extent().members) {
            return failure(ErrorCode::internal, "all ranks have joined, and {} of {} was the last", last,
                           memory_.extent().members);
        }
        answered_before_ = end_joins(last - 1);
        return {};
    }

    /// Whether the operation needs data of a member that has joined.
    [[nodiscard]] bool lacks_joined(std::uint32_t slot, std::uint64_t generation, const Metadata& metadata) const {
        if (goes_on_without_joined(static_cast<collectives::Operation>(metadata.operation))) {
            return false;
        }
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            if (has_joined(copy_once(memory_.place(slot, member, generation).flags))) {
                return true;
            }
        }
        return false;
    }

    /// Whether the members agree, and the operation is possible.
    [[nodiscard]] static bool can_be_called(const std::optional<Metadata>& agreed) {
        return agreed && is_possible(*agreed);
    }

    /// Returns the metadata of the members that have not joined, if these members agree; otherwise nothing. All members
    /// must have announced the generation (the use of the slot).
    Result<std::optional<Metadata>> compare(std::uint32_t slot, std::uint64_t generation) const {
        std::optional<Metadata> agreed;
        bool all_agree = true;
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            if (has_joined(copy_once(memory_.place(slot, member, generation).flags))) {
                continue;
            }
            const Metadata metadata = announced_metadata(memory_, slot, member, generation);
            if (!is_plausible(metadata)) {
                return failure(ErrorCode::internal,
                               "rank {} announced metadata that no working rank writes, in slot {}", member, slot);
            }
            all_agree = all_agree && (!agreed || agree(*agreed, metadata));
            agreed = agreed ? agreed : metadata;
        }
        if (!agreed) {
            return failure(ErrorCode::internal, "slot {} is complete, and all its ranks have joined", slot);
        }
        return all_agree ? agreed : std::nullopt;
    }

public:
    /// Returns the metadata that `member` announced. All members must have announced the generation (the use of the
    /// slot). The result is a copy from shared memory, which the caller must check.
    [[nodiscard]] static Metadata announced_metadata(const Memory& memory, std::uint32_t slot, std::uint32_t member,
                                                     std::uint64_t generation) {
        const Place<Atomics>& place = memory.place(slot, member, generation);
        return copy_once((copy_once(place.flags) & Place<Atomics>::kMetadata) != 0 ? place.metadata
                                                                                   : memory.record(slot).metadata);
    }

    [[nodiscard]] static constexpr bool has_joined(std::uint32_t place_flags) {
        return (place_flags & Place<Atomics>::kJoined) != 0;
    }

private:
    std::uint64_t append(const typename Log<Atomics>::Entry& entry) {
        ++appended_;
        return log_.append(entry);
    }
    /// Appends an answer to a request. The request's mailbox record is free again only when all members have read the
    /// entry.
    std::uint64_t answer(const typename Log<Atomics>::Entry& entry) {
        const std::uint64_t position = append(entry);
        answered_before_ = position + 1;
        return position;
    }
    [[nodiscard]] static typename Log<Atomics>::Entry call_entry(EntryKind kind, std::uint32_t slot,
                                                                 const Metadata& metadata) {
        return {kind, slot, 0, 0, fusion_of(metadata), bytes_of(metadata)};
    }
    std::uint64_t append_call(EntryKind kind, std::uint32_t slot, const Metadata& metadata) {
        const std::uint64_t position = append(call_entry(kind, slot, metadata));
        memory_.arrivals(slot).last_called.store(position, std::memory_order_relaxed);
        return position;
    }

    void shut_down(std::uint32_t member) {
        SetHeader<Atomics>& header = memory_.header();
        const bool first = header.shut_down_members == 0;
        header.shut_down_members |= std::uint64_t{1} << member;
        const bool all = std::popcount(header.shut_down_members) == static_cast<int>(memory_.extent().members);
        if (superior_ != nullptr) {
            superior_->shutting_down(member);
            if (all) {
                superior_->closed();
            }
            return;
        }
        if (first) {
            header.closing = 1;
            // The store to `first_shut_down` may be relaxed, because the store to `shut_down` below publishes it.
            header.first_shut_down.store(environment_.rank_of(member), std::memory_order_relaxed);
        }
        // A rank reads `shut_down` before it announces. If a rank read it before the store below, its announcement
        // comes too late: the rank announces in a retired slot, or the registrar refuses the announcement.
        header.shut_down.store(header.shut_down_members, std::memory_order_release);
        if (first) {
            append({EntryKind::closing});
            fail_incomplete_slots();
        }
        if (all) {
            close();
        }
    }

    /// Closes every slot to further announcements, so that no operation can become complete. Appends a *failed* entry
    /// for each slot in which members wait.
    void fail_incomplete_slots() {
        const std::uint32_t high = high_slot();
        for (std::uint32_t slot = 0; slot < high; ++slot) {
            SlotRecord& page = memory_.record(slot);
            const auto state = static_cast<SlotState>(page.state);
            if (state != SlotState::bound && state != SlotState::first_sight) {
                continue;
            }
            const std::uint64_t word =
                memory_.arrivals(slot).count.fetch_or(ArrivalCount::kRetired, std::memory_order_acq_rel);
            const std::uint64_t arrivals = ArrivalCount::arrivals(word);
            // In a set on several hosts, all ranks of this host may have announced an operation that was not called
            // yet. Such an operation fails too.
            const bool uncalled =
                superior_ != nullptr && arrivals != memory_.arrivals(slot).called.load(std::memory_order_relaxed);
            if (state == SlotState::first_sight || arrivals % memory_.extent().members != 0 || uncalled) {
                const std::uint64_t position = append({EntryKind::failed, slot});
                if (slot >= memory_.extent().unnamed_slots) {
                    retire(slot, position);
                }
            }
        }
    }

    enum class Room {
        now,    ///< take_slot() can take a slot number now
        later,  ///< take_slot() can take a slot number after all members have read more of the log
        none,   ///< all slots have pending operations; waiting for one of them could deadlock
    };

    /// Makes a slot number available for a new name, if possible.
    Result<Room> make_room() {
        SetHeader<Atomics>& header = memory_.header();
        RUEDA_RETURN_IF_FAILED(check_tables());
        RUEDA_RETURN_IF_FAILED(reuse_passed_slots());
        if (available() <= header.slot_limit / 8 && available() > 0) {
            reclaim(header.slot_limit < memory_.extent().slots, kLookAtOnce);
        }
        if (available() > 0 || grow()) {
            return Room::now;
        }
        if (header.retired_count == 0) {
            reclaim_any();
        }
        if (header.retired_count == 0) {
            return Room::none;
        }
        // The slots become free in the order in which they were retired. So the announcements wait for the slot that
        // was retired first.
        const std::uint32_t oldest = oldest_retired();
        RUEDA_RETURN_IF_FAILED(check_named(oldest));
        numbers_wait_for_ = memory_.record(oldest).retired_at + 1;
        tell_numbers_wait_for(numbers_wait_for_);
        return Room::later;
    }

    /// Takes a slot number. make_room() must have returned Room::now.
    Result<std::uint32_t> take_slot() {
        SetHeader<Atomics>& header = memory_.header();
        if (const std::uint32_t free = copy_once(header.free_count); free > 0 && free <= memory_.extent().slots) {
            header.free_count = free - 1;
            const std::uint32_t slot = copy_once(memory_.free_slot(free - 1));
            RUEDA_RETURN_IF_FAILED(check_named(slot));
            return slot;
        }
        const std::uint32_t fresh = header.high_slot.load(std::memory_order_relaxed);
        RUEDA_RETURN_IF_FAILED(check_named(fresh));
        // The store to `high_slot` is a release, so a stall monitor that sees the new value also sees the slot.
        header.high_slot.store(fresh + 1, std::memory_order_release);
        return fresh;
    }

    /// Checks the tables, because another process may have changed them when it was the registrar.
    [[nodiscard]] Status check_tables() const {
        const SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t slots = memory_.extent().slots;
        if (header.free_count > slots || header.retired_count > slots || header.retired_first >= slots ||
            header.slot_limit > slots || header.high_slot.load(std::memory_order_relaxed) > slots) {
            return damaged_tables();
        }
        return {};
    }
    [[nodiscard]] Status damaged_tables() const {
        return failure(ErrorCode::internal, "the table of slots is damaged: {} free and {} retired, of {}",
                       memory_.header().free_count, memory_.header().retired_count, memory_.extent().slots);
    }
    [[nodiscard]] Status check_named(std::uint32_t slot) const {
        if (slot < memory_.extent().unnamed_slots || slot >= memory_.extent().slots) {
            return failure(ErrorCode::internal, "the table of slots is damaged: it has slot {}, of {}", slot,
                           memory_.extent().slots);
        }
        return {};
    }

    /// The lowest slot number that was never used. All higher numbers are unused too.
    [[nodiscard]] std::uint32_t high_slot() const {
        return std::min(memory_.header().high_slot.load(std::memory_order_relaxed), memory_.extent().slots);
    }
    /// The number of the slot that was retired first. Another process wrote it, so the caller must check it.
    [[nodiscard]] std::uint32_t oldest_retired() const {
        return copy_once(memory_.retired_slot(copy_once(memory_.header().retired_first) % memory_.extent().slots));
    }

    [[nodiscard]] std::uint32_t available() const {
        const SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t high = header.high_slot.load(std::memory_order_relaxed);
        return header.free_count + (header.slot_limit > high ? header.slot_limit - high : 0);
    }

    /// Raises the number of slots that may be used. Returns false if the maximum is reached, or if the memory is
    /// refused.
    bool grow() {
        SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t wanted = std::min(2 * header.slot_limit, memory_.extent().slots);
        if (wanted == header.slot_limit) {
            return false;
        }
        const std::uint64_t per_slot = sizeof(ArrivalWord<Atomics>) + sizeof(SlotRecord) + sizeof(SlotLabel<Atomics>) +
                                       2 * memory_.extent().members * sizeof(Place<Atomics>);
        try {
            if (!environment_.may_grow((wanted - header.slot_limit) * per_slot).is_ok()) {
                return false;
            }
        } catch (const std::bad_alloc&) {
            return false;  // may_grow() itself ran out of memory
        }
        header.slot_limit = wanted;
        return true;
    }

    /// Frees the numbers of retired slots. A number is freed when all members have read the log entry that retires the
    /// slot, because no member uses the number after that entry.
    Status reuse_passed_slots() {
        SetHeader<Atomics>& header = memory_.header();
        const std::uint64_t passed = all_have_read();
        while (header.retired_count > 0) {
            const std::uint32_t slot = oldest_retired();
            RUEDA_RETURN_IF_FAILED(check_named(slot));
            const std::uint32_t free = copy_once(header.free_count);
            if (free >= memory_.extent().slots) {
                return damaged_tables();
            }
            if (memory_.record(slot).retired_at >= passed) {
                return {};
            }
            set_state(slot, SlotState::unused);
            memory_.arrivals(slot).called.store(0, std::memory_order_relaxed);
            memory_.arrivals(slot).count.exchange(0, std::memory_order_acq_rel);
            memory_.free_slot(free) = slot;
            header.free_count = free + 1;
            header.retired_first = (header.retired_first + 1) % memory_.extent().slots;
            --header.retired_count;
        }
        return {};
    }

    /// Searches all bound slots, and retires those that are idle. When all slots are in use, the registrar calls this
    /// function for every new name. To save time, the function does not search again before the log has grown.
    void reclaim_any() {
        SetHeader<Atomics>& header = memory_.header();
        if (const std::uint64_t tail = log_.end(); header.nothing_idle_at != tail) {
            reclaim(/*only_idle=*/false, high_slot());
            header.nothing_idle_at = tail;
        }
    }

    /// Retires bound slots without pending operations. If `only_idle` is true, it retires only slots that were not used
    /// for a long time: since the last call in the slot, the log has grown by at least as many entries as there are
    /// slots. Checks up to `most` slots; the next call continues after the last checked slot.
    void reclaim(bool only_idle, std::uint32_t most) {
        SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t first = memory_.extent().unnamed_slots;
        const std::uint32_t high = high_slot();
        const std::uint64_t tail = log_.end();
        const std::uint32_t looks = std::min(high - std::min(high, first), most);
        std::uint32_t retired = 0;
        for (std::uint32_t looked = 0; looked < looks && retired < kReclaimAtOnce; ++looked) {
            const std::uint32_t hand = copy_once(header.clock_hand);
            const std::uint32_t slot = hand < high && hand + 1 < high ? std::max(hand + 1, first) : first;
            header.clock_hand = slot;
            if (memory_.record(slot).state != static_cast<std::uint32_t>(SlotState::bound)) {
                continue;
            }
            const std::uint64_t called = memory_.arrivals(slot).last_called.load(std::memory_order_relaxed);
            if (only_idle && called + header.slot_limit > tail) {
                continue;
            }
            if (close_to_arrivals(slot)) {
                retire(slot, append({EntryKind::retire, slot}));
                ++retired;
            }
        }
    }

    /// Closes the slot to further announcements, if no member's operation is pending in the slot. Returns whether the
    /// slot was closed.
    bool close_to_arrivals(std::uint32_t slot) {
        auto& count = memory_.arrivals(slot).count;
        std::uint64_t word = count.load(std::memory_order_acquire);
        // `count` grows with each announcement. `called` grows only when the call is in the log. So if they differ, an
        // operation is pending: not all members have announced it, or its call is not in the log yet. The acquire load
        // of `called` pairs with the release store in append_call().
        if (ArrivalCount::arrivals(word) != memory_.arrivals(slot).called.load(std::memory_order_acquire) ||
            ArrivalCount::any_changed(word) || ArrivalCount::is_retired(word)) {
            return false;
        }
        // If a member calls arrive() before this exchange, the exchange fails. If a member calls arrive() after this
        // exchange, arrive() sees the kRetired bit.
        return count.compare_exchange_strong(word, word | ArrivalCount::kRetired, std::memory_order_acq_rel,
                                             std::memory_order_relaxed);
    }

    /// Separates the name from `slot`. The number of the slot may be used again when all members have read the log past
    /// `position`.
    void retire(std::uint32_t slot, std::uint64_t position) {
        SetHeader<Atomics>& header = memory_.header();
        SlotRecord& page = memory_.record(slot);
        erase(slot);
        set_state(slot, SlotState::retired);
        page.retired_at = position;
        memory_.retired_slot((header.retired_first + header.retired_count++) % memory_.extent().slots) = slot;
        if (superior_ != nullptr) {
            superior_->retired(slot);
        }
    }
    /// Marks all announcements in the slot as called, although the call is appended only later. All members must have
    /// announced the operation. This order is safe only in sets with a leader, because there the same thread appends
    /// calls and retires slots.
    void note_called(std::uint32_t slot) {
        ArrivalWord<Atomics>& arrivals = memory_.arrivals(slot);
        arrivals.called.store(ArrivalCount::arrivals(arrivals.count.load(std::memory_order_acquire)),
                              std::memory_order_relaxed);
    }

    // The table of names uses open addressing with linear probing. The table's size limits all loops, so they end even
    // if the table is damaged.

    [[nodiscard]] std::uint32_t bucket_mask() const { return memory_.extent().name_buckets() - 1; }

    [[nodiscard]] std::uint32_t find(std::string_view name, std::uint64_t hash) const {
        std::uint32_t i = static_cast<std::uint32_t>(hash) & bucket_mask();
        for (std::uint32_t looked = 0; looked <= bucket_mask(); ++looked, i = (i + 1) & bucket_mask()) {
            const std::uint32_t bucket = copy_once(memory_.name_bucket(i));
            if (bucket == 0) {
                return kNoSlot;
            }
            if (bucket == kTombstone) {
                continue;
            }
            const SlotRecord& page = memory_.record((bucket - 1) % memory_.extent().slots);
            if (page.name_hash == hash && copy_once(page.name_bytes) == name.size() &&
                std::memcmp(page.name, name.data(), name.size()) == 0) {
                return (bucket - 1) % memory_.extent().slots;
            }
        }
        return kNoSlot;
    }
    void insert(std::uint32_t slot) {
        if (memory_.header().tombstones > memory_.extent().name_buckets() / 4) {
            rebuild_names();  // rebuild_names() also inserts `slot`, whose state is already first_sight
        } else {
            place_in_bucket(slot);
        }
    }
    void place_in_bucket(std::uint32_t slot) {
        std::uint32_t i = static_cast<std::uint32_t>(memory_.record(slot).name_hash) & bucket_mask();
        for (std::uint32_t looked = 0; looked < bucket_mask() && memory_.name_bucket(i) != 0; ++looked) {
            i = (i + 1) & bucket_mask();
        }
        memory_.name_bucket(i) = slot + 1;
    }
    void erase(std::uint32_t slot) {
        std::uint32_t i = static_cast<std::uint32_t>(memory_.record(slot).name_hash) & bucket_mask();
        for (std::uint32_t looked = 0; looked < bucket_mask() && memory_.name_bucket(i) != slot + 1; ++looked) {
            i = (i + 1) & bucket_mask();
        }
        memory_.name_bucket(i) = kTombstone;
        ++memory_.header().tombstones;
    }
    void rebuild_names() {
        for (std::uint32_t i = 0; i <= bucket_mask(); ++i) {
            memory_.name_bucket(i) = 0;
        }
        memory_.header().tombstones = 0;
        const std::uint32_t high = high_slot();
        for (std::uint32_t slot = memory_.extent().unnamed_slots; slot < high; ++slot) {
            const auto state = static_cast<SlotState>(memory_.record(slot).state);
            if (state == SlotState::bound || state == SlotState::first_sight) {
                place_in_bucket(slot);
            }
        }
    }

    Memory memory_;
    Log<Atomics> log_;
    Refusals<Atomics> refusals_;
    std::uint32_t rank_;
    Environment environment_;
    bool leader_serves_;  // true if the leader handles all requests, and the member that posts a request never does
    Superior* superior_ = nullptr;
    std::vector<typename Log<Atomics>::Entry> batch_;  // scratch space of append_calls()
    Status no_memory_;  // the error that is returned if memory runs out; it is allocated in advance
    bool is_damaged_ = false;
    std::uint64_t handed_back_ = 0;  // how many records of this rank's mailbox have become free again
    std::uint64_t answers_wait_for_ = 0;
    std::uint64_t numbers_wait_for_ = 0;
    std::uint64_t appended_ = 0;
    // the log position after the entry that answers the request in progress
    std::uint64_t answered_before_ = 0;
};

}  // namespace rueda::core
