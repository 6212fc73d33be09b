// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Direct announcements (docs/design/0001-negotiation.md): blocking operations whose inputs travel with the
// announcement.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "collectives/rows.hpp"
#include "core/process_set/process_set.hpp"
#include "core/termination/memory_guard.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

using collectives::has_variable_rows;
using collectives::Operation;

namespace {

std::array<std::int64_t, kInlineMembers> rows_of(const std::array<collectives::Location, kInlineMembers>& of) {
    std::array<std::int64_t, kInlineMembers> rows{};
    std::transform(of.begin(), of.end(), rows.begin(),
                   [](const collectives::Location& location) { return location.first_dimension; });
    return rows;
}

}  // namespace

/// Whether an announcement may be direct: its input must travel with it, and its metadata must be as agreed. The caller
/// itself must be about to look at the other members' places, because no other thread would. Under the enqueue lock.
bool ProcessSet::may_go_direct(const TensorEntry& entry, Urgency urgency) const {
    return urgency != Urgency::background && entry.request.count > 0 && !extent_.is_led() &&
           direct_.load(std::memory_order_relaxed) == nullptr && !anybody_has_joined() &&
           !checks_;  // checks use the log, because all ranks must count the same operations
}

void ProcessSet::announce_directly(TensorEntry& entry, Place<Atomics>& place, Urgency urgency) {
    place.flags |= PlaceFlags::kDirect;
    if (auto& last = memory_.cursor(rank_).direct; last.load(std::memory_order_relaxed) != entry.slot + 1) {
        last.store(entry.slot + 1, std::memory_order_release);  // partner: the stall monitor
    }
    if (urgency == Urgency::driving) {
        at_once_ = &entry;
        // for this thread, or passed on with the right to drive progress
        direct_.store(&entry, std::memory_order_relaxed);
    } else {
        // Comes before the stamp. The thread that drives progress may be asleep as a blocked caller; it finds this when
        // it is woken below. seq_cst, because that thread first says that it sleeps and then looks.
        direct_.store(&entry, std::memory_order_seq_cst);
    }
    AnnouncementWriter::publish(place, entry, entry.generation, std::memory_order_seq_cst);
    waking_.announced_more(urgency);
    tell_joined(entry);
}

bool ProcessSet::finish_at_once(int looks) {
    TensorEntry* entry = std::exchange(at_once_, nullptr);
    if (entry == nullptr) {
        return false;
    }
    // If this rank has other work, the engine must be driven. Otherwise no thread would drive progress during a loop of
    // such calls.
    DirectState found = has_work() ? DirectState::withdrawn : DirectState::waiting;
    for (int look = 0; look < looks && found == DirectState::waiting; ++look) {
        found = look_at_direct(memory_, entry->slot, rank_, entry->generation);
    }
    if (found == DirectState::complete && execute_direct(*entry)) {
        direct_.store(nullptr, std::memory_order_relaxed);
        Completion& completion = *entry->completion;
        note_finished(*entry);
        const bool has_result = has_variable_rows(static_cast<Operation>(entry->request.metadata.operation));
        if (notes_memory()) [[unlikely]] {
            note_ended(*entry);
        }
        entry->pending.store(false, std::memory_order_release);  // partner: the next submit of this name
        if (has_result) {
            completion.complete_one({});
        }
        return true;
    }
    pending_.fetch_add(1, std::memory_order_seq_cst);
    return false;
}

/// Whether another member might have announced directly what this rank counts. Whether an input travels depends on
/// where it lies, and on its number of rows if ranks may have different ones.
bool ProcessSet::others_may_go_direct(const TensorEntry& entry) const {
    const auto operation = static_cast<Operation>(entry.agreed.operation);
    return extent_.members <= kInlineMembers && !extent_.is_led() && operation != Operation::barrier &&
           (collectives::may_differ_in_rows(operation) ||
            memory_.payload(entry.slot, rank_, entry.generation, bytes_of(entry.agreed)) != nullptr);
}

/// Looks whether the operation that was announced directly can go on. There must be one.
DirectState ProcessSet::turn_direct(std::uint64_t last_position) {
    TensorEntry& entry = *direct_.load(std::memory_order_relaxed);  // the caller has checked that there is one
    const DirectState found =
        look_at_direct(memory_, entry.slot, rank_, entry.generation, std::min(last_position, closing_at_));
    if (found == DirectState::complete) {
        finish_direct(entry);
    } else if (found == DirectState::withdrawn) {
        withdraw_direct(entry);
    }
    return found;
}

/// Counts the direct announcement after all, because some member counts this generation, or has left. The log then says
/// how the operation ends. If the slot is retired, the arrival shows it.
void ProcessSet::withdraw_direct(TensorEntry& entry) {
    const std::lock_guard lock(enqueue_mutex_);
    direct_.store(nullptr, std::memory_order_relaxed);
    begin_arrival(memory_, rank_, entry.slot);
    count_arrival(entry, /*changed=*/false, Urgency::background);
}

void ProcessSet::finish_direct(TensorEntry& entry) {
    if (execute_direct(entry)) {
        direct_.store(nullptr, std::memory_order_relaxed);
        complete(entry, {});
    }
}

/// Returns false if a member announced something other than it had agreed to, or if there is no memory to go on; the
/// job then ends.
bool ProcessSet::execute_direct(TensorEntry& entry) {
    try {
        const Status executed = combine_direct(entry);
        if (!executed.is_ok()) [[unlikely]] {
            raise(executed.code(), executed.message());
            return false;
        }
    } catch (const std::bad_alloc&) {
        raise(ErrorCode::resource_exhausted, no_memory_to_go_on_);
        return false;
    }
    if (rank_ == 0) {
        note_use(entry);
    }
    return true;
}

Status ProcessSet::combine_direct(TensorEntry& entry) {
    switch (static_cast<Operation>(entry.request.metadata.operation)) {
        case Operation::allreduce:
        case Operation::broadcast:
        case Operation::reduce:
            return reduce_or_copy_direct(entry);
        case Operation::allgather:
        case Operation::gather:
            return gather_direct(entry);
        case Operation::reducescatter:
            return scatter_direct(entry);
        case Operation::alltoall:
        case Operation::scatter:
            return exchange_direct(entry);
        case Operation::barrier:
        case Operation::join:
        case Operation::group:  // has no elements
            break;
    }
    return failure(ErrorCode::internal, "'{}' was announced directly", entry.name);
}

/// Records the use, because the log does not show that the slot is in use. It is a hint for the search for unused
/// slots.
void ProcessSet::note_use(const TensorEntry& entry) {
    auto& last_called = memory_.arrivals(entry.slot).last_called;
    if (const std::uint64_t next = next_.load(std::memory_order_relaxed);
        last_called.load(std::memory_order_relaxed) < next) {
        last_called.store(next, std::memory_order_relaxed);
    }
}

Status ProcessSet::reduce_or_copy_direct(const TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t bytes = request.bytes();
    const auto operation = static_cast<Operation>(request.metadata.operation);
    const bool reduces = operation != Operation::broadcast;
    const auto root = static_cast<std::uint32_t>(request.metadata.root);
    if (operation == Operation::reduce && rank_ != root) {
        return {};
    }
    Payloads payloads;
    // the announced copy is the same; reading the input leaves the copy's cache lines with the ranks that read them
    payloads[rank_] = request.input;
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (member == rank_ || (!reduces && member != root)) {
            continue;
        }
        payloads[member] = memory_.payload(entry.slot, member, entry.generation, bytes);
        const Place<Atomics>& place = memory_.place(entry.slot, member, entry.generation);
        if (const std::uint32_t announced = copy_once(place.payload_bytes);
            announced != bytes || payloads[member] == nullptr) [[unlikely]] {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a payload of {} bytes for {}",
                           entry.name, job_rank_of(member), announced, bytes);
        }
    }
    if (reduces) {
        reduce_payloads(request, payloads, request.output, request.count);
    } else if (rank_ != root || request.input != request.output) {
        std::memcpy(request.output, payloads[root], bytes);
    }
    return {};
}

/// For an operation of variable size. This rank's payload and row count are taken from the caller's request, because
/// other ranks can write to its place.
Status ProcessSet::locate_payloads(const TensorEntry& entry, Locations& of) const {
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (member == rank_) {
            of[member].payload = entry.request.input;
            of[member].first_dimension = entry.request.first_dimension;
            continue;
        }
        RUEDA_RETURN_IF_FAILED(announced_.locate(entry, entry.slot, member, of[member]));
        if (of[member].payload == nullptr) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced directly, and without a payload",
                           entry.name, job_rank_of(member));
        }
    }
    return {};
}

Status ProcessSet::gather_direct(TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t row_bytes = request.bytes();
    Locations of;
    RUEDA_RETURN_IF_FAILED(locate_payloads(entry, of));
    const auto rows = rows_of(of);
    const std::span<const std::int64_t> of_all = std::span(rows).first(extent_.members);
    const bool to_root = static_cast<Operation>(request.metadata.operation) == Operation::gather;
    Result<std::byte*> output = to_root ? outputs_.on_root(entry, of_all) : outputs_.of_gathered(entry, of_all);
    RUEDA_RETURN_IF_FAILED(output.status());
    std::byte* next = output.value();
    for (std::uint32_t member = 0; member < extent_.members && next != nullptr; ++member) {
        const std::uint64_t bytes = static_cast<std::uint64_t>(of[member].first_dimension) * row_bytes;
        ops::copy(next, of[member].payload, bytes);
        next += bytes;
    }
    return {};
}

Status ProcessSet::scatter_direct(TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t row_bytes = request.bytes();
    Locations of;
    RUEDA_RETURN_IF_FAILED(locate_payloads(entry, of));
    const auto rows = rows_of(of);
    RUEDA_RETURN_IF_FAILED(announced_.check_rows(entry, std::span(rows).first(extent_.members)));
    Result<std::byte*> output = outputs_.of_share(entry);
    RUEDA_RETURN_IF_FAILED(output.status());
    const collectives::Rows share = collectives::rows_of_member(request.first_dimension, rank_, extent_.members);
    if (share.count > 0) {
        Payloads payloads{};
        for (std::uint32_t member = 0; member < extent_.members; ++member) {
            payloads[member] = of[member].payload + static_cast<std::uint64_t>(share.begin) * row_bytes;
        }
        reduce_payloads(request, payloads, output.value(), static_cast<std::uint64_t>(share.count) * request.count);
    }
    return {};
}

Status ProcessSet::exchange_direct(TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t row_bytes = request.bytes();
    const std::uint32_t members = extent_.members;
    Locations of;
    RUEDA_RETURN_IF_FAILED(locate_payloads(entry, of));
    const Result<std::int64_t> rows =
        announced_.read_splits(entry, entry.slot, std::span(of).first(members), direct_splits_);
    RUEDA_RETURN_IF_FAILED(rows.status());
    RUEDA_RETURN_IF_FAILED(announced_.check_source(entry));
    Result<std::byte*> output = outputs_.of_all(entry, rows.value(), 0);
    RUEDA_RETURN_IF_FAILED(output.status());
    std::byte* next = output.value();
    for (std::uint32_t member = 0; member < members && next != nullptr; ++member) {
        const std::span<const std::int64_t> splits =
            std::span(direct_splits_).subspan(std::size_t{member} * members, members);
        std::uint64_t rows_before = 0;
        for (const std::int64_t split : splits.first(rank_)) {
            rows_before += static_cast<std::uint64_t>(split);
        }
        const std::uint64_t bytes = static_cast<std::uint64_t>(splits[rank_]) * row_bytes;
        ops::copy(next, of[member].payload + rows_before * row_bytes, bytes);
        next += bytes;
    }
    return {};
}

/// Handles the retirement, at `position`, of the slot that the direct announcement uses. The operation stays valid for
/// members that have already announced it directly. But some members may have read this entry before they announced,
/// and will announce the operation in full. Until it is known which case holds, the slot must not be used again, so
/// this rank does not read on. It is known at the latest when all other members have reached `position`. Returns true
/// if this rank must still wait.
bool ProcessSet::direct_holds_retirement(std::uint64_t position, std::uint32_t slot) {
    TensorEntry* entry = direct_.load(std::memory_order_acquire);
    if (entry == nullptr || entry->slot != slot || turn_direct(position) != DirectState::waiting) {
        return false;
    }
    if (rung_for_retirement_ != position) {
        rung_for_retirement_ = position;
        waking_.ring_behind(position + 1);  // they may be asleep with nothing pending
    }
    return true;
}

/// Moves past `position`, after which this rank announces nothing more in one slot, or in any slot. Members that wait
/// for such an announcement in vain are woken. If this rank has a direct announcement of its own, it may also need the
/// others to read this entry.
void ProcessSet::pass_and_tell(std::uint64_t position) {
    next_.store(position + 1, std::memory_order_relaxed);
    end_announcements(memory_, rank_, position + 1);
    waking_.announced_more(Urgency::background);
    if (direct_.load(std::memory_order_relaxed) != nullptr) {
        waking_.ring_behind(position + 1);
    }
}

}  // namespace rueda::core
