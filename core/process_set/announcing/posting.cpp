// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Requests to the registrar (the role that assigns slots), through this rank's mailbox. Requests that find the mailbox
// full wait in queues.
#include "base/assert.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/process_set/announcing/announcer.hpp"

namespace rueda::core {

void Announcer::announce_in_full(TensorEntry& entry) {
    if (memory_.header().shut_down.load(std::memory_order_acquire) != 0) {
        ends_.complete(entry, reasons_.shut_down(entry.name));
        return;
    }
    if (!unposted_.empty() || !try_post_full(entry)) {
        const bool is_first = unposted_.empty();
        unposted_.push_back(entry);
        if (is_first) {
            tell_deferred();
        }
        tell_deferred_count();
        deferred_.store(true, std::memory_order_seq_cst);
    }
}

/// Publishes the number of announcements that wait for room in the mailbox. The stall monitor does not report this rank
/// as missing for an operation that may be among these announcements. This release store pairs with the monitor's
/// acquire load. The caller holds the enqueue lock.
void Announcer::tell_deferred_count() {
    memory_.mailbox(view_.rank).deferred_count.store(unposted_.size(), std::memory_order_release);
}

/// Publishes the name of the first announcement that waits for room in the mailbox, because other ranks cannot see the
/// queue. The stall monitors of the other ranks read this name. The caller holds the enqueue lock.
void Announcer::tell_deferred() {
    tell_deferred_count();
    auto& mailbox = memory_.mailbox(view_.rank);
    if (unposted_.empty()) {
        mailbox.deferred.set(SlotState::unused);
    } else {
        mailbox.deferred_ns.store(unposted_.front().submitted_ns, std::memory_order_relaxed);
        mailbox.deferred.open(unposted_.front().name);
    }
}

bool Announcer::try_post_full(TensorEntry& entry) {
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;
    }
    RUEDA_ASSERT(entry.name.size() <= RUEDA_MAX_NAME);
    entry.in_full = true;
    record->set_kind(RequestKind::announce);
    record->ticket = entry.ticket;
    record->name_hash = entry.name_hash;
    record->set_name(entry.name);
    if (memory_.extent().call_sites != 0) [[unlikely]] {
        record->site = site_text(entry.request.source_file, entry.request.source_line);
    }
    static_cast<void>(writer_.fill(record->place, entry, 0, /*with_metadata=*/true));
    AnnouncementWriter::publish(record->place, entry, 0, std::memory_order_release);
    writer_.fill_splits(record->splits, entry.request);
    finish_post(registrar_.post());
    return true;
}

/// Asks the registrar to call an operation that all ranks of this host have announced. The rank that announced last
/// makes this request. The operation stays pending until the registrar answers.
void Announcer::resolve(TensorEntry& entry) {
    if (!unposted_resolves_.empty() || !try_post_resolve(entry)) {
        unposted_resolves_.push_back(entry);
        deferred_.store(true, std::memory_order_seq_cst);
    }
}

bool Announcer::try_post_resolve(const TensorEntry& entry) {
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;
    }
    record->set_kind(RequestKind::resolve);
    record->slot = entry.slot;
    record->generation = entry.generation;
    record->counted = entry.counted;
    finish_post(registrar_.post());
    return true;
}

void Announcer::announce_shutdown() {
    const std::lock_guard lock(enqueue_mutex_);
    if (shut_down_posted_) {
        return;
    }
    shut_down_posted_ = true;
    fail_deferred(reasons_.shut_down_here());
    // The registrar must call the operations that all ranks announced before the shutdown. So the requests for these
    // operations are posted before the shutdown.
    while (!unposted_resolves_.empty() && try_post_resolve(unposted_resolves_.front())) {
        unposted_resolves_.pop_front();
    }
    if (!try_post_shutdown()) {
        deferred_.store(true, std::memory_order_seq_cst);
    }
}

/// Posts the shutdown, unless other requests must be posted first or the mailbox is full.
bool Announcer::try_post_shutdown() {
    MailboxRecord<Atomics>* const record = unposted_resolves_.empty() ? next_record() : nullptr;
    if (record == nullptr) {
        return false;
    }
    record->set_kind(RequestKind::shut_down);
    // post() may take long, because this rank may have to do all of the registrar's work in it. If this process is
    // stopped in post(), the stall monitor must know that this rank has announced its shutdown. So note_end_announced()
    // comes before post(). set_step() comes first: if the process is stopped even earlier, the monitor sees at least
    // the step.
    set_step(memory_, view_.rank, ProtocolStep::kPosting);
    note_end_announced(memory_, view_.rank);
    const Result<std::uint64_t> appended = registrar_.post();
    // seq_cst: Engine::announce_shutdown() first marks its thread as asleep, and then reads this flag
    shut_down_announced_.store(true, std::memory_order_seq_cst);
    finish_post(appended);
    return true;
}

void Announcer::finish_post(const Result<std::uint64_t>& appended) {
    if (!appended.is_ok()) {
        ends_.raise(appended.status());
    } else if (appended.value() > 0) {
        waking_.announced_more(Urgency::background);
    }
    if (view_.rank != 0 && registrar_.waits_for_leader()) {
        waking_.wake(0);
    }
    joined_.tell_of_posts();
    if (registrar_.holds_announcements()) {
        deferred_.store(true, std::memory_order_seq_cst);
        waking_.ring_readers(registrar_.waits_for_readers());
    }
}

MailboxRecord<Announcer::Atomics>* Announcer::next_record() {
    MailboxRecord<Atomics>* record = registrar_.next_record();
    if (registrar_.is_damaged()) [[unlikely]] {
        ends_.raise(registrar_.damage());
    } else if (record == nullptr) {
        waking_.ring_readers(registrar_.waits_for_readers());
    }
    return record;
}

bool Announcer::try_post_settle() {
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;
    }
    record->set_kind(RequestKind::settle);
    finish_post(registrar_.post());
    return true;
}

void Announcer::retry_numbers_later() {
    const std::lock_guard lock(enqueue_mutex_);
    if (registrar_.holds_announcements()) {
        deferred_.store(true, std::memory_order_seq_cst);
        waking_.ring_readers(registrar_.waits_for_readers());
    }
}

bool Announcer::retry_deferred() {
    const std::lock_guard lock(enqueue_mutex_);
    finish_post(registrar_.retry());
    while (!unposted_resolves_.empty() && try_post_resolve(unposted_resolves_.front())) {
        unposted_resolves_.pop_front();
    }
    // After a shutdown (`refused`), the registrar would append an error entry to the log for each announcement in
    // `unposted_`. The log has space for only as many such entries as a mailbox has records. So this rank ends these
    // operations itself.
    const bool refused = memory_.header().shut_down.load(std::memory_order_acquire) != 0;
    bool ended = false;
    const TensorEntry* const first_unposted = unposted_.empty() ? nullptr : &unposted_.front();
    while (!unposted_.empty() && (refused || try_post_full(unposted_.front()))) {
        TensorEntry& entry = unposted_.front();
        unposted_.pop_front();
        if (refused) {
            complete_and_forget(entry, reasons_.shut_down(entry.name));
            ended = true;
        }
    }
    if (first_unposted != (unposted_.empty() ? nullptr : &unposted_.front())) {
        // Publishes the new first entry of the queue. Entries leave the queue only at its front, so this is also the
        // time to publish the new number of entries.
        tell_deferred();
    }
    while (!unnamed_waiting_.empty() && !next_unnamed().pending.load(std::memory_order_acquire)) {
        next_unnamed().request.splits.reserve(unnamed_waiting_.front().request.splits.size());  // may throw
        const Waiting next = std::move(unnamed_waiting_.front());
        unnamed_waiting_.pop_front();
        ends_.uncount_one();
        start_unnamed(next.request, *next.completion, Urgency::background);
    }
    const bool shut_down_waits = shut_down_posted_ && !has_announced_shutdown() && !try_post_shutdown();
    deferred_.store(shut_down_waits || !unposted_.empty() || !unposted_resolves_.empty() || !unnamed_waiting_.empty() ||
                        registrar_.holds_announcements(),
                    std::memory_order_seq_cst);
    return ended;
}

}  // namespace rueda::core
