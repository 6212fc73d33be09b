// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Entries of the log that call nothing: how what was announced ends all the same. Under the enqueue lock.
#include <algorithm>
#include <cstring>

#include "core/diagnostics/pending_tensors.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/impossible.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

void ProcessSet::handle_mismatch(std::uint32_t slot) {
    TensorEntry* entry = entry_of_slot(slot);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed)) {
        raise(ErrorCode::internal,
              fmt::format("the log reports a mismatch in slot {}, where rank {} has nothing pending", slot,
                          own_job_rank()));
        return;
    }
    const std::uint64_t generation = entry->slot == kNoSlot ? 0 : entry->generation;
    std::vector<MetadataOfRanks> by_rank;
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (announced_.stood_in(slot, member, generation)) {
            continue;
        }
        by_rank.push_back({Registrar<Atomics>::announced_metadata(memory_, slot, member, generation),
                           {static_cast<std::int32_t>(member)}});
        if (!is_plausible(by_rank.back().metadata)) {
            raise(ErrorCode::internal,
                  fmt::format("rank {} announced metadata that no working rank writes", job_rank_of(member)));
            return;
        }
    }
    if (by_rank.empty()) {
        raise(ErrorCode::internal,
              fmt::format("the log reports a mismatch in slot {}, in which all ranks have joined", slot));
        return;
    }
    const std::uint64_t call = entry->name.empty() ? call_of_unnamed(slot, generation) : 0;
    const RanksOfCount groups = groups_among(slot, generation, by_rank);
    const Status status = refusal_or_mismatch(entry->name, call, std::move(by_rank));
    // Of a refusal each rank's own line says enough.
    end_disagreed(*entry, slot,
                  status.code() == ErrorCode::mismatch
                      ? Status(status.code(), status.message() + announced_.called_from(slot, generation))
                      : status,
                  groups);
}

/// Where one means a group and another means something else by its name, those members would never end.
ProcessSet::RanksOfCount ProcessSet::groups_among(std::uint32_t slot, std::uint64_t generation,
                                                  std::span<const MetadataOfRanks> by_rank) const {
    RanksOfCount groups;
    for (const MetadataOfRanks& one : by_rank) {
        const auto member = static_cast<std::uint32_t>(one.ranks.front());
        const std::int64_t count = copy_once(memory_.place(slot, member, generation).first_dimension);
        if (is_size_of_group(one.metadata) && count > 0) {
            groups[count].push_back(job_rank_of(member));
        }
    }
    return groups;
}

/// What the members agree on none of them can do; or they do not agree. At least one.
Status ProcessSet::refusal_or_mismatch(std::string_view name, std::uint64_t call,
                                       std::vector<MetadataOfRanks> by_rank) const {
    const Metadata& first = by_rank.front().metadata;
    const bool all_agree = std::all_of(by_rank.begin(), by_rank.end(),
                                       [&](const MetadataOfRanks& one) { return agree(one.metadata, first); });
    if (all_agree && !is_possible(first)) {
        return refusal_of(name, call, first, identity_.ranks);
    }
    return call != 0 ? mismatch_of_unnamed(call, std::move(by_rank), identity_.ranks)
                     : mismatch_of(name, std::move(by_rank), identity_.ranks);
}

/// On several hosts: the root has found out who means what.
void ProcessSet::handle_disagreement(std::uint32_t slot, std::uint32_t attachment, ErrorCode code) {
    TensorEntry* entry = entry_of_slot(slot);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed) || attachment == 0 ||
        attachment > extent_.attachments || (code != ErrorCode::mismatch && !is_refusal(code))) {
        raise(ErrorCode::internal, fmt::format("the log reports a disagreement in slot {}, with attachment {}, where "
                                               "rank {} has nothing pending",
                                               slot, attachment, own_job_rank()));
        return;
    }
    std::string text = text_of_attachment(attachment);
    if (code == ErrorCode::mismatch) {
        text += announced_.called_from(slot, entry->slot == kNoSlot ? 0 : entry->generation);
    }
    end_disagreed(*entry, slot, {code, text}, groups_of_attachment(attachment));
}

std::string ProcessSet::text_of_attachment(std::uint32_t attachment) const {
    const auto* text = reinterpret_cast<const char*>(memory_.attachment(attachment - 1));
    return {text, strnlen(text, extent_.attachment_bytes)};
}

/// Behind the text: Leader::apply_refusal().
ProcessSet::RanksOfCount ProcessSet::groups_of_attachment(std::uint32_t attachment) const {
    const std::byte* const room = memory_.attachment(attachment - 1);
    const std::size_t text = strnlen(reinterpret_cast<const char*>(room), extent_.attachment_bytes) + 1;
    RanksOfCount groups;
    for (std::size_t at = text; at + sizeof(std::int64_t) <= extent_.attachment_bytes; at += sizeof(std::int64_t)) {
        std::int64_t count = 0;
        std::memcpy(&count, room + at, sizeof(count));
        if (count <= 0) {
            break;
        }
        groups[count] = {};
    }
    return groups;
}

void ProcessSet::end_disagreed(TensorEntry& entry, std::uint32_t slot, const Status& status,
                               const RanksOfCount& groups) {
    if (!groups.empty()) [[unlikely]] {
        if (const Status ended = end_groups(entry, groups, status, entry.slot == kNoSlot); !ended.is_ok()) {
            raise(ended.code(), ended.message());
            return;
        }
    }
    if (slot >= extent_.unnamed_slots) {
        entry.in_full = false;
        table_.unbind(entry);
        forget_finished(slot);
    }
    complete_and_forget(entry, status);
}

void ProcessSet::handle_failed(std::uint32_t slot) {
    TensorEntry* entry = entry_of_slot(slot);
    if (entry == nullptr) {
        return;  // this rank announced nothing there
    }
    if (leader_calls_) {
        // What is complete and was not called fails as well: an entry whose resolve is not posted yet may go here.
        unposted_resolves_.clear();
    }
    if (direct_.load(std::memory_order_acquire) == entry) {
        direct_.store(nullptr, std::memory_order_relaxed);  // others counted theirs, so nobody completes it directly
    }
    entry->in_full = false;
    const bool was_pending = entry->pending.load(std::memory_order_relaxed);
    if (slot >= extent_.unnamed_slots) {
        table_.unbind(*entry);
    }
    if (was_pending) {
        complete_and_forget(*entry, entry->name.empty() ? shut_down_unnamed(*entry) : shut_down_status(entry->name));
    }
}

/// Where the others have ended and one rank has made a call more, that is what it looks like.
Status ProcessSet::shut_down_unnamed(const TensorEntry& entry) const noexcept try {
    const Status reason = shut_down_status("");
    return {reason.code(), fmt::format("{}: {}", about_unnamed(entry), reason.message())};
} catch (const std::bad_alloc&) {
    return no_memory_to_say_who_;
}

/// Before its number can be given to another name: what this rank has finished there last cannot be named any more.
void ProcessSet::forget_finished(std::uint32_t slot) {
    auto& finished = memory_.cursor(rank_).finished;
    if (static_cast<std::uint32_t>(finished.load(std::memory_order_relaxed)) == slot + 1) {
        finished.store(0, std::memory_order_relaxed);  // published by the cursor, which the registrar waits for
    }
}

void ProcessSet::handle_retire(std::uint32_t slot) {
    forget_finished(slot);
    if (TensorEntry* entry = slot < extent_.slots ? table_.at_slot(slot) : nullptr; entry != nullptr) {
        table_.unbind(*entry);
    }
}

void ProcessSet::handle_refused(const Log<Atomics>::Entry& answer) {
    TensorEntry* entry = table_.with_ticket(answer.ticket);
    if (entry == nullptr || !entry->in_full) {
        return;
    }
    const Status status = answer.kind == EntryKind::exhausted ? exhausted_status(entry->name, answer.bytes)
                                                              : shut_down_status(entry->name);
    entry->in_full = false;
    complete_and_forget(*entry, status);
}

/// The same text on every rank: `slots` comes from the log.
Status ProcessSet::exhausted_status(std::string_view name, std::uint64_t slots) const {
    return failure(ErrorCode::resource_exhausted,
                   "tensor '{}': all {} slots for tensor names are taken by pending tensors{}; wait for some of them "
                   "before starting new names, or {}",
                   name, extent_.for_names(static_cast<std::uint32_t>(std::min<std::uint64_t>(slots, extent_.slots))),
                   slots < extent_.slots ? ", and there is no memory for more" : "",
                   slots < extent_.slots ? "free memory" : "raise RUEDA_SLOTS_MAX");
}

/// What an error about an unnamed operation begins with, and what follows where ranks have made different numbers of
/// such calls.
std::string ProcessSet::about_unnamed(const TensorEntry& entry) const {
    return fmt::format("{}{}", describe_unnamed(call_of_unnamed(entry.slot, entry.generation)),
                       describe_started(started_by_rank(memory_, [this](auto member) { return job_rank_of(member); })));
}

}  // namespace rueda::core
