// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Announces what callers submit, in the slot of a name or without a name (docs/design/0001-negotiation.md).
#include "base/shared_memory/prefetch.hpp"
#include "base/system/clock.hpp"
#include "collectives/operation.hpp"
#include "collectives/rows.hpp"
#include "core/negotiation/claims.hpp"
#include "core/operations/groups.hpp"
#include "core/operations/requests.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/termination/memory_guard.hpp"

namespace rueda::core {

Status Announcer::submit(TensorEntry* known, std::string_view name, const Request& request, Completion& completion,
                         Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    return all_or_nothing([&]() -> Status {
        const bool is_unnamed = known == nullptr && name.empty();
        const std::string_view shown = known != nullptr ? std::string_view(known->name) : name;
        if (Status open = check_open(shown); !open.is_ok()) [[unlikely]] {
            // This rank made a call that the other ranks, which have shut down, did not make. The error names this
            // call.
            return is_unnamed && open.code() == ErrorCode::aborted && !failed_.has_value()
                       ? failure(open.code(), "{}: {}", describe_unnamed(unnamed_calls_ + unnamed_waiting_.size() + 1),
                                 open.message())
                       : open;
        }
        if (is_unnamed) {
            announce_unnamed(request, completion, urgency);
            return {};
        }
        TensorEntry& entry = known != nullptr ? *known : table_.entry(name);
        RUEDA_RETURN_IF_FAILED(check_free(entry));
        ask_for(entry, request);
        start(entry, completion, urgency);
        return {};
    });
}

Status Announcer::submit(TensorEntry* known, std::string_view name, const Arguments& arguments,
                         const rueda_options& options, Completion& completion, Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    return all_or_nothing([&]() -> Status {
        const Membership set = view_.membership();
        const std::string_view shown = known != nullptr ? std::string_view(known->name) : name;
        if (Status open = check_open(shown); !open.is_ok()) [[unlikely]] {
            // If an argument of the operation is wrong, every rank must report this, even if the job has ended.
            // Otherwise only the first rank would report the mistake, and the other ranks would only report that the
            // job has ended.
            Request request;
            const Status made = make_request(arguments, set, options, request);
            return made.is_ok() ? open : naming_tensor(shown, made);
        }
        TensorEntry& entry = known != nullptr ? *known : table_.entry(name);
        if (urgency != Urgency::background || !table_.expects(entry)) {
            prefetch(entry);
        }
        const bool is_pending = entry.pending.load(std::memory_order_acquire);
        if (is_pending || !repeats(entry.request, arguments, set, options)) {
            RUEDA_RETURN_IF_FAILED(check_free(entry));
            Request request;
            if (Status made = make_request(arguments, set, options, request); !made.is_ok()) {
                table_.forget_if_unused(entry);
                return naming_tensor(shown, made);
            }
            ask_for(entry, request);
        } else {
            entry.of_group = false;  // an earlier operation with this name may have been a member of a group
        }
        if (memory_.extent().call_sites != 0) [[unlikely]] {
            entry.request.source_file = options.source_file;
            entry.request.source_line = options.source_line;
        }
        start(entry, completion, urgency);
        return {};
    });
}

bool Announcer::has_pending_members(const TensorEntry& entry) {
    const Request& last = entry.request;
    for (std::int64_t i = 0; is_size_of_group(last.metadata) && i < last.first_dimension; ++i) {
        const TensorEntry* const member = table_.find(
            name_of_member(entry.name, static_cast<std::size_t>(i), static_cast<std::size_t>(last.first_dimension)));
        if (member != nullptr && member->of_group && member->pending.load(std::memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

/// Fails if an operation with the name of `entry` is pending on this rank. If the name belongs to a group, also fails
/// if a member of the group is pending.
Status Announcer::check_free(const TensorEntry& entry) {
    if (!entry.pending.load(std::memory_order_acquire) && !has_pending_members(entry)) {
        return {};
    }
    return failure(ErrorCode::duplicate_name,
                   "tensor '{}': {} with this name is still pending on this rank; wait for it, or use another name",
                   entry.name, is_size_of_group(entry.request.metadata) ? "a group" : "an operation");
}

void Announcer::ask_for(TensorEntry& entry, const Request& request) const {
    entry.ask_for(request);
    Metadata& metadata = entry.request.metadata;
    if (compression_ != Compression::none && request.asked_compression == RUEDA_COMPRESSION_NONE &&
        may_compress(metadata)) {
        metadata.compression = static_cast<std::uint16_t>(compression_);
    }
}

/// Prefetches what the next announcement will use, while this announcement is made.
void Announcer::look_ahead(TensorEntry& entry) {
    TensorEntry* const next = table_.expect_after(entry);
    if (next == nullptr) {
        return;
    }
    prefetch(*next);
    if (TensorEntry* const next_but_one = table_.with_ticket(next->followed_by)) {
        next_but_one->prefetch();
    }
}

void Announcer::start(TensorEntry& entry, Completion& completion, Urgency urgency) noexcept {
    // A blocking call waits for its operation, so a prefetch for the next call would gain nothing.
    if (urgency == Urgency::background) {
        look_ahead(entry);
    }
    begin_pending(entry, completion);
    // This function counts and records the operation. A thread that holds the progress lock counts and records the
    // operation after announce(), because no other thread can complete the operation meanwhile. A thread without the
    // lock must do so before announce().
    if (urgency != Urgency::driving) {
        recording_.submitted(entry, recording_.number(), entry.generation + 1, urgency != Urgency::background);
        ends_.count_one();
    }
    announce(entry, urgency);
    if (urgency == Urgency::driving && !direct_.is_at_once()) {
        ends_.count_one();
    }
}

void Announcer::hold(TensorEntry& entry, Completion& completion) noexcept {
    begin_pending(entry, completion);
    recording_.submitted(entry, recording_.number(), entry.generation + 1, /*is_blocking=*/false);
    ends_.count_one();
    entry.is_held = true;
    entry.next = nullptr;
}

void Announcer::begin_pending(TensorEntry& entry, Completion& completion) noexcept {
    entry.completion = &completion;
    entry.stands_in = false;
    entry.submitted_ns = base::coarse_monotonic_ns();
    entry.pending.store(true, std::memory_order_relaxed);
    if (notes_memory()) [[unlikely]] {
        note_memory(entry);
    }
    if (inspects_) [[unlikely]] {
        inspection_.inspect(entry);
    }
}

/// Records which memory of the caller Rueda uses until the operation has ended.
void Announcer::note_memory(const TensorEntry& entry) const {
    const Request& request = entry.request;
    const auto operation = static_cast<collectives::Operation>(request.metadata.operation);
    const bool variable_rows = collectives::has_variable_rows(operation);
    std::int64_t written = request.output_rows.value_or(variable_rows ? 0 : 1);
    if (operation == collectives::Operation::reducescatter) {
        written = collectives::rows_of_member(request.first_dimension, view_.set_rank, view_.set_size).count;
    }
    note_pending(entry, variable_rows ? static_cast<std::uint64_t>(request.first_dimension) : 1,
                 static_cast<std::uint64_t>(written));
}

/// Prefetches the cache lines that the announcement will write, and the lines of other ranks that this rank will read.
/// Other cores used these lines last. If all lines are prefetched together, before the checks, this rank waits once and
/// not several times.
void Announcer::prefetch(const TensorEntry& entry) const {
    if (entry.slot == kNoSlot) {
        return;
    }
    const std::uint64_t generation = entry.generation + 1;
    // The line of the counter is prefetched only if the last announcement in the slot was not direct. A direct
    // announcement does not use the counter, and it is probably followed by another direct announcement. So after a
    // direct announcement, the line need not move to this core.
    //
    // The flag is read from the last announcement, and not from private memory. If a cache line needs 500 ns for a
    // round trip between the cores, a blocking allreduce of 4 bytes takes 0.48 µs with this read, and 0.52 µs without
    // it.
    const bool directly =
        (memory_.place(entry.slot, view_.rank, entry.generation).flags & Place<Atomics>::kDirect) != 0;
    if (!directly) {
        base::prefetch_to_write(&memory_.arrivals(entry.slot));
    }
    base::prefetch_to_write(&memory_.place(entry.slot, view_.rank, generation));
    if (!directly && memory_.extent().members <= kInlineMembers) {
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            __builtin_prefetch(&memory_.place(entry.slot, member, generation), 0);
        }
    }
}

void Announcer::announce(TensorEntry& entry, Urgency urgency) noexcept {
    const auto record_if_driving = [&](std::uint64_t generation) {
        if (urgency == Urgency::driving) {
            recording_.submitted(entry, recording_.number(), generation, /*is_blocking=*/true);
        }
    };
    if (entry.slot == kNoSlot) {
        record_if_driving(0);
        announce_in_full(entry);
        return;
    }
    entry.known_to_agree = entry.known_to_agree || agree(entry.agreed, entry.request.metadata);
    const bool changed = !entry.known_to_agree;
    ++entry.generation;
    Place<Atomics>& place = memory_.place(entry.slot, view_.rank, entry.generation);
    const bool travels = writer_.fill(place, entry, entry.generation, changed);
    writer_.fill_splits(place, entry);
    writer_.write_site(entry);
    if (travels && !changed && direct_.may_begin(entry, urgency)) {
        direct_.announce(entry, place, urgency);  // finish_at_once() records it
        return;
    }
    record_if_driving(entry.generation);
    begin_arrival(memory_, view_.rank, entry.slot);
    // True if another member may have announced the operation directly, and wait for this announcement.
    const bool is_awaited = direct_.others_may_use(entry);
    AnnouncementWriter::publish(place, entry, entry.generation,
                                is_awaited ? std::memory_order_seq_cst : std::memory_order_release);
    if (is_awaited) {
        waking_.ring_direct_waiters(entry.slot, entry.generation);
    }
    count_arrival(entry, changed, urgency);
}

DirectState Announcer::turn_direct(std::uint64_t last_position) {
    const DirectState found = direct_.turn(last_position);
    if (found == DirectState::withdrawn) {
        const std::lock_guard lock(enqueue_mutex_);
        TensorEntry& entry = direct_.withdraw();
        begin_arrival(memory_, view_.rank, entry.slot);
        count_arrival(entry, /*changed=*/false, Urgency::background);
    }
    return found;
}

/// Counts the announcement of `entry`. The caller must have called begin_arrival(); this function calls end_arrival().
void Announcer::count_arrival(TensorEntry& entry, bool changed, Urgency urgency) {
    const Counted counted = count_announcement(
        memory_, log_, {.slot = entry.slot, .counted = ++entry.counted, .changed = changed},
        /*arrived=*/[&] { joined_.tell(entry); }, /*ready_call=*/[&] { return ready_call(entry, urgency); });
    after_counting(entry, counted, urgency);
    end_arrival(memory_, view_.rank);
}

void Announcer::announce_unnamed(const Request& request, Completion& completion, Urgency urgency) {
    if (!unnamed_waiting_.empty() || next_unnamed().pending.load(std::memory_order_acquire)) {
        unnamed_waiting_.push_back({request, &completion, base::coarse_monotonic_ns()});  // may throw
        ends_.count_one();
        deferred_.store(true, std::memory_order_seq_cst);
        return;
    }
    next_unnamed().request.splits.reserve(request.splits.size());  // may throw
    start_unnamed(request, completion, urgency);
}

TensorEntry& Announcer::take_next_unnamed() {
    TensorEntry& entry = next_unnamed();
    entry.generation = unnamed_calls_++ / memory_.extent().unnamed_slots;
    return entry;
}

/// Starts an operation without a name. This function must not throw, so the entry must already have memory for the
/// splits of the request.
void Announcer::start_unnamed(const Request& request, Completion& completion, Urgency urgency) noexcept {
    TensorEntry& entry = next_unnamed();
    ask_for(entry, request);
    entry.generation = unnamed_calls_++ / memory_.extent().unnamed_slots + 1;
    begin_pending(entry, completion);
    recording_.submitted(entry, recording_.number(), entry.generation, urgency != Urgency::background);
    ends_.count_one();
    Place<Atomics>& place = memory_.place(entry.slot, view_.rank, entry.generation);
    static_cast<void>(writer_.fill(place, entry, entry.generation, /*with_metadata=*/true));
    writer_.fill_splits(place, entry);
    writer_.write_site(entry);
    begin_arrival(memory_, view_.rank, entry.slot);
    AnnouncementWriter::publish(place, entry, entry.generation, std::memory_order_release);
    count_arrival(entry, /*changed=*/false, urgency);
}

/// Returns the log entry that calls the operation of `entry`. The rank that announces last appends this log entry.
/// Returns nothing if the registrar must compare the announcements first.
std::optional<ReadyCall<Announcer::Atomics>> Announcer::ready_call(const TensorEntry& entry, Urgency urgency) const {
    const bool unnamed = entry.slot < memory_.extent().unnamed_slots;
    if (caller_ == Caller::leader || joined_.any() ||
        (unnamed && (entry.request.is_refused || !signatures_agree(entry.slot, entry.generation)))) {
        return std::nullopt;
    }
    // A caller that is about to drive progress must not wait for more operations. So if a batch begins with this log
    // entry, the batch is closed at once.
    const std::uint64_t begins_batch_at = urgency != Urgency::background ? cursor_.position() : Log<Atomics>::kNowhere;
    return ReadyCall<Atomics>{
        {EntryKind::call, entry.slot, 0, 0, fusion_of(entry.request.metadata), entry.request.bytes()}, begins_batch_at};
}

void Announcer::after_counting(TensorEntry& entry, Counted counted, Urgency urgency) {
    switch (counted) {
        case Counted::waiting:
            return;
        case Counted::called:
            waking_.announced_more(urgency);
            return;
        case Counted::unresolved:
            resolve(entry);
            return;
        case Counted::log_full:
            ends_.raise(ErrorCode::internal,
                        fmt::format("tensor '{}': there is no room in the log to call it, which cannot happen if all "
                                    "ranks are correct",
                                    entry.name));
            return;
        case Counted::retired:
            // The slot of an unnamed operation is retired only after a shutdown.
            if (entry.slot < memory_.extent().unnamed_slots) {
                ends_.complete(entry, reasons_.shut_down(entry.name));
            } else if (entry.stands_in && !entry.asked_for) {
                // The slot is retired. This rank has joined and has no operation of this name itself, and no other host
                // asked for the name. So this rank forgets the name. If another rank announces the operation by name
                // later, this rank announces it again on behalf of the join.
                table_.unbind(entry);
                complete_and_forget(entry, {});
            } else {
                table_.unbind(entry);
                announce_in_full(entry);
            }
            return;
    }
}

bool Announcer::signatures_agree(std::uint32_t slot, std::uint64_t generation) const {
    const std::uint64_t mine = memory_.place(slot, view_.rank, generation).signature;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if (memory_.place(slot, member, generation).signature != mine) {
            return false;
        }
    }
    return true;
}

}  // namespace rueda::core
