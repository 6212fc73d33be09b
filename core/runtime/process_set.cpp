// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/runtime/process_set.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/memory_limits.hpp"
#include "base/prefetch.hpp"
#include "base/text.hpp"
#include "collectives/rows.hpp"
#include "core/diagnostics/pending_tensors.hpp"
#include "core/fusion/batch_end.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/operations/requests.hpp"
#include "core/runtime/last_words.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

using collectives::is_by_rows;
using collectives::Location;
using collectives::Operation;
using collectives::StepResult;

namespace {

/// Resident tensors travel with their announcement up to here: beyond, combining them in place moves fewer lines than
/// that saves time by leaving out the wait for the others' shares.
constexpr std::uint64_t kResidentPayloadBytes = 8192;

/// A reason that ends many operations, as the end of this one. `name`: empty for what has none. A reason that begins
/// with this tensor names it already.
Status about(std::string_view name, const Status& reason) {
    try {
        const std::string whose = name.empty() ? "" : fmt::format("tensor '{}'", name);
        return reason.message().starts_with(whose) ? reason : failure(reason.code(), "{}: {}", whose, reason.message());
    } catch (const std::bad_alloc&) {
        return reason;
    }
}

/// Before the arrival, like the place. Other operations than alltoalls and scatters have none, and those of sets on
/// several hosts go from rank to rank.
void fill_splits(std::int64_t* splits, const Request& request, const NegotiationExtent& extent) {
    if (!request.splits.empty() && !extent.is_led()) [[unlikely]] {
        std::copy(request.splits.begin(), request.splits.end(), splits);
    }
}

}  // namespace

std::optional<OtherHosts> other_hosts(const base::Config& config, const collectives::LocalGroup& group,
                                      collectives::Transport* transport) {
    if (group.host_count == 1) {
        return std::nullopt;
    }
    return OtherHosts{group,
                      *transport,
                      {.small_bytes = config.doubling_limit_bytes,
                       .ring = config.ring,
                       .network_chunk_bytes = config.network_chunk_bytes}};
}

ProcessSet::ProcessSet(const base::Config& config, SetIdentity identity, std::shared_ptr<collectives::Arena> arena,
                       const NegotiationExtent& extent, const collectives::NumaNodes& nodes,
                       const std::optional<OtherHosts>& others, std::atomic<std::uint32_t>& pending)
    : identity_(std::move(identity)),
      arena_(std::move(arena)),
      extent_(extent),
      memory_(arena_->negotiation(), extent),
      log_(memory_, arena_->rank()),
      registrar_(
          memory_, arena_->rank(),
          {.may_grow = [](std::uint64_t bytes) { return base::check_memory(bytes, "more slots for tensor names"); },
           .rank_of =
               [this](std::uint32_t member) {
                   return arena_->blocks().of(member).global_rank.load(std::memory_order_relaxed);
               }}),
      rank_(arena_->rank()),
      set_rank_(others ? static_cast<std::uint32_t>(others->group.rank) : rank_),
      set_size_(others ? static_cast<std::uint32_t>(others->group.size) : extent.members),
      fusion_threshold_bytes_(config.fusion_threshold_bytes),
      hold_ns_(static_cast<std::int64_t>(config.hold_seconds * 1e9)),
      compression_rules_(base::CompressionRules::parse(config.compression).value_or(base::CompressionRules())),
      nodes_(nodes),
      verify_(config.verify),
      check_nan_(config.check_nan),
      checks_(verify_ != 0 || check_nan_),
      no_memory_to_start_(ErrorCode::resource_exhausted,
                          "there is no memory left to start an operation; nothing was started, and it can be tried "
                          "again"),
      no_memory_to_say_who_(ErrorCode::aborted, "a rank has shut down, so nothing can be done together any more"),
      no_memory_to_go_on_(
          fmt::format("rank {} ran out of memory in the middle of an operation", identity_.ranks[set_rank_])),
      table_(extent.slots, extent.unnamed_slots),
      pending_(pending) {
    if (!others) {
        host_communicator_ = std::make_unique<collectives::HostCommunicator>(arena_, nodes);
        return;
    }
    transport_ = &others->transport;
    group_ = &others->group;
    hierarchical_communicator_ = std::make_unique<collectives::HierarchicalCommunicator>(
        arena_, nodes, others->group, others->transport, others->options);
    if (others->group.is_leader()) {
        leader_ = std::make_unique<Leader>(config, others->group, arena_, memory_, registrar_, enqueue_mutex_,
                                           others->transport);
    }
}

// ---- announcing -----------------------------------------------------------------------------------------------------

Status ProcessSet::submit(std::string_view name, const Request& request, Completion& completion, Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    return all_or_nothing([&]() -> Status {
        if (Status open = check_open(name); !open.is_ok()) [[unlikely]] {
            // The others have ended, and this rank makes a call more: which one it would have been.
            return name.empty() && open.code() == ErrorCode::aborted && !failed_.has_value()
                       ? failure(open.code(), "{}: {}", describe_unnamed(unnamed_calls_ + unnamed_waiting_.size() + 1),
                                 open.message())
                       : open;
        }
        if (name.empty()) {
            announce_unnamed(request, completion, urgency);
            return {};
        }
        TensorEntry& entry = table_.entry(name);
        if (entry.pending.load(std::memory_order_acquire)) {
            return duplicate(entry);
        }
        ask_for(entry, request);
        start(entry, completion, urgency);
        return {};
    });
}

Status ProcessSet::submit(TensorEntry& entry, const Request& request, Completion& completion, Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    return all_or_nothing([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_open(entry.name));
        if (entry.pending.load(std::memory_order_acquire)) {
            return duplicate(entry);
        }
        ask_for(entry, request);
        start(entry, completion, urgency);
        return {};
    });
}

Status ProcessSet::submit_allreduce(TensorEntry* known, std::string_view name, const rueda_tensor& in,
                                    const rueda_tensor& out, const rueda_options& options, Completion& completion,
                                    Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    return all_or_nothing([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_open(known != nullptr ? std::string_view(known->name) : name));
        TensorEntry& entry = known != nullptr ? *known : table_.entry(name);
        prefetch(entry);
        if (entry.pending.load(std::memory_order_acquire)) {
            return duplicate(entry);
        }
        if (!repeats_allreduce(entry.request, in, out, options)) {
            Request request;
            if (Status made = make_allreduce(in, out, options, request); !made.is_ok()) {
                table_.forget_if_unused(entry);
                return naming_unsupported(known != nullptr ? std::string_view(known->name) : name, std::move(made));
            }
            ask_for(entry, request);
        }
        if (extent_.call_sites != 0) [[unlikely]] {
            entry.request.source_file = options.source_file;
            entry.request.source_line = options.source_line;
        }
        start(entry, completion, urgency);
        return {};
    });
}

Status ProcessSet::duplicate(const TensorEntry& entry) const {
    return failure(
        ErrorCode::duplicate_name,
        "tensor '{}': an operation with this name is still pending on this rank; wait for it, or use another name",
        entry.name);
}

/// What the caller has not said about compression, the rules say.
void ProcessSet::ask_for(TensorEntry& entry, const Request& request) const {
    entry.ask_for(request);
    Metadata& metadata = entry.request.metadata;
    if (!compression_rules_.empty() && request.asked_compression == RUEDA_COMPRESSION_NONE && may_compress(metadata)) {
        metadata.compression = static_cast<std::uint32_t>(compression_rules_.of(entry.name, request.bytes()));
    }
}

TensorEntry& ProcessSet::pin(std::string_view name) {
    const std::lock_guard lock(enqueue_mutex_);
    TensorEntry& entry = table_.entry(name);
    ++entry.pins;
    return entry;
}

void ProcessSet::unpin(TensorEntry& entry) {
    const std::lock_guard lock(enqueue_mutex_);
    --entry.pins;
    table_.forget_if_unused(entry);
}

/// `name`: what was to be started; empty for what has none.
Status ProcessSet::check_open(std::string_view name) const {
    if (failed_.has_value()) [[unlikely]] {
        return about(name, *failed_);
    }
    if (shut_down_posted_) [[unlikely]] {
        return about(name, shut_down_here());
    }
    if (memory_.header().shut_down.load(std::memory_order_acquire) != 0) [[unlikely]] {
        return shut_down_status(name);
    }
    if (joining_) [[unlikely]] {
        return about(
            name, failure(ErrorCode::invalid_argument,
                          "rank {} is in join(), and can start nothing before all ranks have joined", own_job_rank()));
    }
    return {};
}

Status ProcessSet::shut_down_here() const {
    return identity_.is_world() ? Status(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank")
                                : failure(ErrorCode::invalid_argument,
                                          "{} has been removed, or this rank has shut down", identity_.describe());
}

Status ProcessSet::shut_down_status(std::string_view name) const noexcept try {
    // The first one is the cause; those after it may have left because of it.
    static_cast<void>(memory_.header().shut_down.load(std::memory_order_acquire));
    const std::int32_t rank = memory_.header().first_shut_down.load(std::memory_order_relaxed);
    return about(
        name,
        identity_.is_world()
            ? failure(ErrorCode::aborted, "rank {} has shut down, so nothing can be done together any more", rank)
            : failure(ErrorCode::aborted, "{}: rank {} has removed it, or has shut down", identity_.describe(), rank));
} catch (const std::bad_alloc&) {
    return no_memory_to_say_who_;
}

/// The same text on every rank: `slots` comes from the log.
Status ProcessSet::exhausted_status(std::string_view name, std::uint64_t slots) const {
    return failure(ErrorCode::resource_exhausted,
                   "tensor '{}': all {} slots for tensor names are taken by pending tensors{}; wait for some of them "
                   "before starting new names, or {}",
                   name, slots, slots < extent_.slots ? ", and there is no memory for more" : "",
                   slots < extent_.slots ? "free memory" : "raise RUEDA_SLOTS_MAX");
}

void ProcessSet::start(TensorEntry& entry, Completion& completion, Urgency urgency) noexcept {
    begin_pending(entry, completion);
    // Who holds the crank may count afterwards, as nobody else completes anything meanwhile.
    if (urgency != Urgency::driving) {
        pending_.fetch_add(1, std::memory_order_seq_cst);
    }
    announce(entry, urgency);
    if (urgency == Urgency::driving && at_once_ == nullptr) {
        pending_.fetch_add(1, std::memory_order_seq_cst);
    }
}

void ProcessSet::begin_pending(TensorEntry& entry, Completion& completion) noexcept {
    entry.completion = &completion;
    entry.stands_in = false;
    entry.submitted_ns = base::coarse_monotonic_ns();
    entry.pending.store(true, std::memory_order_relaxed);
    if (checks_) [[unlikely]] {
        inspect_input(entry);
    }
}

/// The lines that an announcement writes, and those of the others that will be read, were last in other cores: asking
/// for all of them at once, before the checks, takes one wait instead of several.
void ProcessSet::prefetch(const TensorEntry& entry) const {
    if (entry.slot == kNoSlot) {
        return;
    }
    const std::uint64_t generation = entry.generation + 1;
    // What goes directly has no use for it, and would take it from the others' caches. As the last time, it is likely.
    const bool directly = (memory_.place(entry.slot, rank_, entry.generation).flags & PlaceFlags::kDirect) != 0;
    if (!directly) {
        base::prefetch_to_write(&memory_.arrivals(entry.slot));
    }
    base::prefetch_to_write(&memory_.place(entry.slot, rank_, generation));
    if (!directly && extent_.members <= kInlineMembers) {
        for (std::uint32_t member = 0; member < extent_.members; ++member) {
            __builtin_prefetch(&memory_.place(entry.slot, member, generation), 0);
        }
    }
}

void ProcessSet::announce(TensorEntry& entry, Urgency urgency) noexcept {
    if (entry.slot == kNoSlot) {
        announce_in_full(entry);
        return;
    }
    entry.known_to_agree = entry.known_to_agree || agree(entry.agreed, entry.request.metadata);
    const bool changed = !entry.known_to_agree;
    ++entry.generation;
    Place<Atomics>& place = memory_.place(entry.slot, rank_, entry.generation);
    const bool travels = fill(place, entry, entry.generation, changed);
    fill_splits(memory_.splits(entry.slot, rank_, entry.generation), entry.request, extent_);
    if (extent_.call_sites != 0) [[unlikely]] {
        write_site(entry);
    }
    if (travels && !changed && may_go_direct(entry, urgency)) {
        announce_directly(entry, place, urgency);
        return;
    }
    // Where others may have announced directly, this is a word to them.
    const bool is_awaited = others_may_go_direct(entry);
    publish(place, entry, entry.generation, is_awaited ? std::memory_order_seq_cst : std::memory_order_release);
    if (is_awaited) {
        ring_direct_waiters(entry);
    }
    count_arrival(entry, changed, urgency);
}

void ProcessSet::count_arrival(TensorEntry& entry, bool changed, Urgency urgency) {
    const Arrival arrival = arrive(memory_, entry.slot, ++entry.counted, changed);
    tell_joined(entry);
    after_arrival(entry, arrival, urgency);
}

void ProcessSet::announce_unnamed(const Request& request, Completion& completion, Urgency urgency) {
    if (!unnamed_waiting_.empty() || next_unnamed().pending.load(std::memory_order_acquire)) {
        unnamed_waiting_.push_back({request, &completion, base::coarse_monotonic_ns()});  // or throws
        pending_.fetch_add(1, std::memory_order_seq_cst);
        deferred_.store(true, std::memory_order_seq_cst);
        return;
    }
    next_unnamed().request.splits.reserve(request.splits.size());  // or throws
    start_unnamed(request, completion, urgency);
}

TensorEntry& ProcessSet::next_unnamed() {
    return table_.unnamed(static_cast<std::uint32_t>(unnamed_calls_ % extent_.unnamed_slots));
}

/// The entry has room for the request's splits.
void ProcessSet::start_unnamed(const Request& request, Completion& completion, Urgency urgency) noexcept {
    TensorEntry& entry = next_unnamed();
    ask_for(entry, request);
    begin_pending(entry, completion);
    pending_.fetch_add(1, std::memory_order_seq_cst);
    entry.generation = unnamed_calls_++ / extent_.unnamed_slots + 1;
    Place<Atomics>& place = memory_.place(entry.slot, rank_, entry.generation);
    fill(place, entry, entry.generation, /*with_metadata=*/true);
    fill_splits(memory_.splits(entry.slot, rank_, entry.generation), entry.request, extent_);
    if (extent_.call_sites != 0) [[unlikely]] {
        write_site(entry);
    }
    publish(place, entry, entry.generation, std::memory_order_release);
    count_arrival(entry, /*changed=*/false, urgency);
}

/// Before the stamp. Of an announcement in a slot.
void ProcessSet::write_site(const TensorEntry& entry) {
    memory_.site(entry.slot, rank_, entry.generation)
        .write(site_text(entry.request.source_file, entry.request.source_line));
}

void ProcessSet::note_join_site(const char* file, std::int32_t line) {
    if (extent_.call_sites != 0) {
        memory_.join_site(rank_).write(site_text(file, line));
    }
}

/// Of a complete generation: where the ranks of this host have called it. "" where nobody wants to know.
std::string ProcessSet::called_from(std::uint32_t slot, std::uint64_t generation) const {
    std::vector<SiteOfRanks> sites;
    for (std::uint32_t member = 0; extent_.call_sites != 0 && member < extent_.members; ++member) {
        if (!stood_in(slot, member, generation)) {
            add_site(sites, read_site(memory_.site(slot, member, generation).read()), job_rank_of(member));
        }
    }
    return core::called_from(std::move(sites));
}

/// What an error about an unnamed operation begins with, and what follows where ranks have made different numbers of
/// such calls.
std::string ProcessSet::about_unnamed(const TensorEntry& entry) const {
    return fmt::format("{}{}", describe_unnamed(call_of_unnamed(entry.slot, entry.generation)),
                       describe_started(started_by_rank(memory_, [this](auto member) { return job_rank_of(member); })));
}

/// Null: the input is too large to travel with its announcement.
std::byte* ProcessSet::payload_room(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                                    std::uint64_t bytes) const {
    if (entry.slot != kNoSlot) {
        return memory_.payload(entry.slot, rank_, generation, bytes);
    }
    // The place of a full announcement lies in the mailbox, and has no room beside it.
    return bytes <= kInlineBytes ? place.payload.data() : nullptr;
}

/// All but the stamp. Returns whether inputs like this rank's travel along.
bool ProcessSet::fill(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation, bool with_metadata) {
    const Request& request = entry.request;
    const Metadata& metadata = request.metadata;
    const auto operation = static_cast<Operation>(metadata.operation);
    const std::uint64_t rows = is_by_rows(operation) ? static_cast<std::uint64_t>(request.first_dimension) : 1;
    const std::uint64_t input_bytes = request.count * rows * size_of(static_cast<DType>(metadata.dtype));
    const bool contributes = operation != Operation::broadcast || metadata.root == static_cast<std::int32_t>(set_rank_);

    place.flags = 0;
    place.payload_bytes = 0;
    place.first_dimension = request.first_dimension;
    if (entry.stands_in) [[unlikely]] {
        place.flags = PlaceFlags::kJoined;
        place.flags |= join_is_counted_ ? 0U : static_cast<std::uint32_t>(PlaceFlags::kUncounted);
        if (with_metadata) {  // in a mailbox, where all of a record is checked
            place.flags |= PlaceFlags::kMetadata;
            place.metadata = metadata;
        }
        return false;
    }
    // Asked for larger tensors only: the smallest travel wherever they lie.
    const auto is_resident = [&] {
        return (!contributes || arena_->resident_offset(request.input, input_bytes).has_value()) &&
               arena_->resident_offset(request.output, input_bytes).has_value();
    };
    std::byte* const payload = extent_.members <= kInlineMembers && !extent_.is_led() &&
                                       (input_bytes <= kResidentPayloadBytes || !is_resident())
                                   ? payload_room(place, entry, generation, input_bytes)
                                   : nullptr;
    if (payload != nullptr && contributes) {
        place.flags |= PlaceFlags::kPayload;
        place.payload_bytes = static_cast<std::uint32_t>(input_bytes);
        if (input_bytes > 0) {
            std::memcpy(payload, request.input, input_bytes);
        }
    } else {
        if (const auto offset = arena_->resident_offset(request.input, input_bytes); offset && contributes) {
            place.flags |= PlaceFlags::kResidentInput;
            place.input = *offset;
        }
        if (const auto offset = arena_->resident_offset(request.output, input_bytes); offset) {
            place.flags |= PlaceFlags::kResidentOutput;
            place.output = *offset;
        }
    }
    if (with_metadata) {
        place.flags |= PlaceFlags::kMetadata;
        place.metadata = metadata;
        place.signature = signature_of(metadata);
    }
    return payload != nullptr;
}

/// Partners: the stall monitor; with seq_cst, the members that announced directly and may be asleep.
void ProcessSet::publish(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                         std::memory_order order) {
    place.announced_ns.store(entry.submitted_ns, std::memory_order_relaxed);
    place.stamp.store(generation + 1, order);
}

void ProcessSet::after_arrival(TensorEntry& entry, Arrival arrival, Urgency urgency) {
    const bool unnamed = entry.slot < extent_.unnamed_slots;
    switch (arrival) {
        case Arrival::counted:
            return;
        case Arrival::last:
            if (extent_.is_led() || anybody_has_joined() ||
                (unnamed && !signatures_agree(entry.slot, entry.generation))) {
                resolve(entry);
            } else {
                append_call(entry, urgency);
            }
            return;
        case Arrival::last_changed:
            resolve(entry);
            return;
        case Arrival::retired:
            if (unnamed) {  // unnamed slots are closed by a shutdown only
                complete(entry, shut_down_status(entry.name));
            } else if (entry.stands_in && !entry.asked_for) {
                // Whoever announced it finds the same, and announces it in full; before that nobody knows the name. But
                // for what another host has announced: here, nobody else would.
                table_.unbind(entry);
                complete_and_forget(entry, {});
            } else {
                table_.unbind(entry);
                announce_in_full(entry);
            }
            return;
    }
}

bool ProcessSet::signatures_agree(std::uint32_t slot, std::uint64_t generation) const {
    const std::uint64_t mine = memory_.place(slot, rank_, generation).signature;
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (memory_.place(slot, member, generation).signature != mine) {
            return false;
        }
    }
    return true;
}

void ProcessSet::append_call(const TensorEntry& entry, Urgency urgency) {
    const Metadata& metadata = entry.request.metadata;
    // With a caller about to drive the engine, the entry need not stay open for others, if a batch begins here.
    const std::uint64_t begins_batch_at =
        urgency != Urgency::background ? next_.load(std::memory_order_relaxed) : Log<Atomics>::kNowhere;
    const std::uint64_t position =
        log_.append({EntryKind::call, entry.slot, 0, 0, metadata.operation, entry.request.bytes()}, begins_batch_at);
    auto& arrivals = memory_.arrivals(entry.slot);
    arrivals.last_called.store(position, std::memory_order_relaxed);
    // Partner: the registrar, which may retire the slot from here on.
    arrivals.called.store(entry.counted * extent_.members, std::memory_order_release);
    announced_more(urgency);
}

/// Wakes who has to look at the log now: callers that are blocked, and this rank's background thread if nobody else of
/// this rank is going to look. Sleeping background threads of other ranks are woken by whoever starts the batch.
void ProcessSet::announced_more(Urgency urgency) {
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        auto& attention = arena_->blocks().of(member).attention;
        const base::AttentionState state = attention.state();
        const bool own_background =
            member == rank_ && state == base::AttentionState::asleep && urgency == Urgency::background;
        if (state == base::AttentionState::blocked || own_background) {
            attention.ring(state);
        }
    }
}

void ProcessSet::announce_in_full(TensorEntry& entry) {
    if (memory_.header().shut_down.load(std::memory_order_acquire) != 0) {
        complete(entry, shut_down_status(entry.name));
        return;
    }
    if (!unposted_.empty() || !try_post_full(entry)) {
        unposted_.push_back(entry);
        deferred_.store(true, std::memory_order_seq_cst);
    }
}

bool ProcessSet::try_post_full(TensorEntry& entry) {
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;
    }
    RUEDA_ASSERT(entry.name.size() <= RUEDA_MAX_NAME);
    entry.in_full = true;
    record->kind = static_cast<std::uint32_t>(RequestKind::announce);
    record->ticket = entry.ticket;
    record->name_bytes = static_cast<std::uint32_t>(entry.name.size());
    record->name_hash = entry.name_hash;
    std::memcpy(record->name, entry.name.data(), entry.name.size());
    if (extent_.call_sites != 0) [[unlikely]] {
        record->site = site_text(entry.request.source_file, entry.request.source_line);
    }
    fill(record->place, entry, 0, /*with_metadata=*/true);
    publish(record->place, entry, 0, std::memory_order_release);
    fill_splits(record->splits, entry.request, extent_);
    finish_post(registrar_.post());
    return true;
}

/// Of the last arriver; on several hosts of every one. The entry stays pending in this generation until the registrar
/// has answered.
void ProcessSet::resolve(TensorEntry& entry) {
    if (!unposted_resolves_.empty() || !try_post_resolve(entry)) {
        unposted_resolves_.push_back(entry);
        deferred_.store(true, std::memory_order_seq_cst);
    }
}

bool ProcessSet::try_post_resolve(const TensorEntry& entry) {
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;
    }
    record->kind = static_cast<std::uint32_t>(RequestKind::resolve);
    record->slot = entry.slot;
    record->generation = entry.generation;
    record->counted = entry.counted;
    finish_post(registrar_.post());
    return true;
}

bool ProcessSet::announce_shutdown() {
    const std::lock_guard lock(enqueue_mutex_);
    shut_down_posted_ = true;
    fail_deferred(shut_down_here());
    // What was complete before the shutdown is called before it.
    while (!unposted_resolves_.empty() && try_post_resolve(unposted_resolves_.front())) {
        unposted_resolves_.pop_front();
    }
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;
    }
    record->kind = static_cast<std::uint32_t>(RequestKind::shut_down);
    finish_post(registrar_.post());
    return true;
}

void ProcessSet::finish_post(const Result<std::uint64_t>& appended) {
    if (!appended.is_ok()) {
        raise(appended.status().code(), appended.status().message());
    } else if (appended.value() > 0) {
        announced_more(Urgency::background);
    }
    if (extent_.is_led() && rank_ != 0 && registrar_.has_requests()) {
        wake(0);  // the leader, who is the registrar
    }
    tell_joined_of_posts();
    if (registrar_.holds_announcements()) {
        deferred_.store(true, std::memory_order_seq_cst);
        ring_readers();
    }
}

MailboxRecord<ProcessSet::Atomics>* ProcessSet::next_record() {
    MailboxRecord<Atomics>* record = registrar_.next_record();
    if (record == nullptr) {
        ring_readers();
    }
    return record;
}

/// Those who have not read what the registrar waits for: a rank with nothing pending reads the log a few times per
/// second only. Once: a ring that comes while the rank's crank is taken is made up for by that.
void ProcessSet::ring_readers() {
    const std::uint64_t position = registrar_.waits_for_readers();
    if (position == rung_for_) {
        return;
    }
    rung_for_ = position;
    ring_behind(position);
}

void ProcessSet::ring_behind(std::uint64_t position) {
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (member != rank_ && memory_.cursor(member).position.load(std::memory_order_relaxed) < position) {
            auto& attention = arena_->blocks().of(member).attention;
            attention.ring(attention.state());
        }
    }
}

/// What could not be posted or had to wait for its slot, in the order in which it came.
void ProcessSet::retry_deferred() {
    const std::lock_guard lock(enqueue_mutex_);
    finish_post(registrar_.retry());
    while (!unposted_resolves_.empty() && try_post_resolve(unposted_resolves_.front())) {
        unposted_resolves_.pop_front();
    }
    // After a shutdown each would be refused by an entry of its own, and the log has room for a mailbox of those.
    const bool refused = memory_.header().shut_down.load(std::memory_order_acquire) != 0;
    while (!unposted_.empty() && (refused || try_post_full(unposted_.front()))) {
        TensorEntry& entry = unposted_.front();
        unposted_.pop_front();
        if (refused) {
            complete_and_forget(entry, shut_down_status(entry.name));
        }
    }
    while (!unnamed_waiting_.empty() && !next_unnamed().pending.load(std::memory_order_acquire)) {
        next_unnamed().request.splits.reserve(unnamed_waiting_.front().request.splits.size());  // or throws
        const Waiting next = std::move(unnamed_waiting_.front());
        unnamed_waiting_.pop_front();
        pending_.fetch_sub(1, std::memory_order_seq_cst);
        start_unnamed(next.request, *next.completion, Urgency::background);
    }
    deferred_.store(!unposted_.empty() || !unposted_resolves_.empty() || !unnamed_waiting_.empty() ||
                        registrar_.holds_announcements(),
                    std::memory_order_seq_cst);
}

void ProcessSet::fail_deferred(const Status& reason) {
    for (; !unposted_.empty(); unposted_.pop_front()) {
        complete(unposted_.front(), about(unposted_.front().name, reason));
    }
    for (const Waiting& waiting : unnamed_waiting_) {
        pending_.fetch_sub(1, std::memory_order_seq_cst);
        waiting.completion->complete_one(reason);
    }
    unnamed_waiting_.clear();
}

// ---- the crank ------------------------------------------------------------------------------------------------------

Turn ProcessSet::step(bool urgent, bool asks_others) {
    try {
        return take_turn(urgent, asks_others);
    } catch (const std::bad_alloc&) {
        // The others count on this rank's share of what is called.
        raise(ErrorCode::resource_exhausted, no_memory_to_go_on_);
        return Turn::idle;
    }
}

Turn ProcessSet::take_turn(bool urgent, bool asks_others) {
    if (deferred_.load(std::memory_order_relaxed)) {
        retry_deferred();
    }
    const bool joined = joins_.load(std::memory_order_acquire) && turn_join();
    const bool led = leader_ != nullptr && (asks_others || leader_->has_work()) && turn_leader();
    if (asks_others && transport_ != nullptr && leader_ == nullptr && task_ == nullptr) {
        turn_transport();
    }
    const bool moved =
        (direct_.load(std::memory_order_seq_cst) != nullptr && turn_direct() != DirectState::waiting) || led || joined;
    // Also then: who makes one such operation after the other would leave the log unread.
    const Turn turn = take_log_turn(urgent);
    return moved ? Turn::advanced : turn;
}

/// True: something came from other hosts, or went there.
bool ProcessSet::turn_leader() {
    const Result<Leader::Moved> moved = leader_->turn();
    if (!moved.is_ok()) {
        raise_network_failure(moved.status());
        return true;
    }
    if (moved.value().log) {
        announced_more(Urgency::driving);
    }
    if (moved.value().served) {
        tell_joined_of_posts();  // who posted told them as well; but only now is there a name to see
    }
    if (moved.value().anything) {
        retry_numbers_later();
    }
    return moved.value().anything;
}

/// What this rank's last task has sent may still lie in MPI, though the task is done; a leader asks for messages
/// always.
void ProcessSet::turn_transport() {
    if (arena_->blocks().abort().raised()) {
        return;
    }
    if (const Status moved = transport_->progress(); !moved.is_ok()) {
        raise_network_failure(moved);
    }
}

void ProcessSet::look_after_messages_of(const ProcessSet& other) {
    sending_until_ns_.store(std::max(sending_until_ns_.load(std::memory_order_relaxed),
                                     other.sending_until_ns_.load(std::memory_order_relaxed)),
                            std::memory_order_relaxed);
}

/// The registrar of a led set works in the leader's turn, not in a post: what it keeps there until all have read that
/// numbers are free is taken up by retry_deferred().
void ProcessSet::retry_numbers_later() {
    const std::lock_guard lock(enqueue_mutex_);
    if (registrar_.holds_announcements()) {
        deferred_.store(true, std::memory_order_seq_cst);
        ring_readers();
    }
}

Turn ProcessSet::turn_task() {
    const StepResult result = task_->step();
    switch (result) {
        case StepResult::advanced:
            return Turn::advanced;
        case StepResult::done:
            if (task_is_splits_) {
                if (Status taken = take_splits(*batch_entries_.front()); !taken.is_ok()) {
                    raise(taken.code(), taken.message());
                }
            } else {
                finish_batch();
            }
            return Turn::advanced;
        case StepResult::waiting:
        case StepResult::polling:
            break;
    }
    if (hierarchical_communicator_ != nullptr && !hierarchical_communicator_->failed().is_ok()) {
        raise_network_failure(hierarchical_communicator_->failed());
    }
    return result == StepResult::polling ? Turn::polling : Turn::waiting;
}

void ProcessSet::take_back_receives() {
    if (leader_ == nullptr || arena_->blocks().abort().raised()) {
        return;
    }
    if (const Status taken = leader_->take_back_receives(); !taken.is_ok()) {
        raise_network_failure(taken);
    }
}

void ProcessSet::leave_other_hosts(const Status& reason) {
    if (leader_ != nullptr) {
        leader_->end(reason);
    } else if (group_ != nullptr && is_deputy(*group_)) {
        tell_neighbours(*transport_, *group_, collectives::Transport::Channel::last_words, reason);
    }
    if (hierarchical_communicator_ != nullptr) {
        hierarchical_communicator_->abandon();
        transport_->abandon();
    }
}

Turn ProcessSet::take_log_turn(bool urgent) {
    if (task_ != nullptr) {
        return turn_task();
    }
    const std::uint64_t position = next_.load(std::memory_order_relaxed);
    if (closed() || !log_.is_published(position)) {
        return Turn::idle;
    }
    const EntryKind kind = log_.read(position).kind;
    return is_call(kind) ? start_batch(position, urgent) : handle_entry(position);
}

Turn ProcessSet::handle_entry(std::uint64_t position) {
    const auto entry = log_.read(position);
    if (entry.kind == EntryKind::mismatch || entry.kind == EntryKind::disagreed || entry.kind == EntryKind::failed ||
        entry.kind == EntryKind::lacks_joined || entry.kind == EntryKind::all_joined ||
        entry.kind == EntryKind::wanted) {
        wake_others();  // it ends an operation of theirs, too
    }
    if (entry.kind == EntryKind::retire && direct_holds_retirement(position, entry.slot)) {
        return Turn::idle;
    }
    if (entry.kind == EntryKind::closed && direct_.load(std::memory_order_acquire) != nullptr) {
        turn_direct();  // who shut down may have announced before
    }
    {
        const std::lock_guard lock(enqueue_mutex_);
        switch (entry.kind) {
            case EntryKind::mismatch:
                handle_mismatch(entry.slot);
                break;
            case EntryKind::disagreed:
                handle_disagreement(entry.slot, entry.attachment, ErrorCode::mismatch);
                break;
            case EntryKind::failed:
                handle_failed(entry.slot);
                break;
            case EntryKind::retire:
                if (const TensorEntry* direct = direct_.load(std::memory_order_relaxed);
                    direct != nullptr && direct->slot == entry.slot) {
                    return Turn::idle;  // announced by another thread since the look above
                }
                handle_retire(entry.slot);
                pass_and_tell(position);
                return Turn::advanced;
            case EntryKind::lacks_joined:
                handle_lacks_joined(entry.slot, entry.attachment);
                break;
            case EntryKind::wanted:
                handle_wanted(entry.slot, entry.attachment);
                break;
            case EntryKind::all_joined:
                handle_all_joined(entry.rank);
                break;
            case EntryKind::closing:
                end_join(shut_down_status(""));
                closing_at_ = position;
                pass_and_tell(position);
                return Turn::advanced;
            case EntryKind::refused:
            case EntryKind::exhausted:
                if (entry.rank == rank_) {
                    handle_refused(entry);
                } else if (entry.rank < extent_.members) {
                    wake(entry.rank);  // it is told, and may be asleep
                }
                break;
            case EntryKind::closed:
                fail_pending(shut_down_status(""));  // what could not be posted before; everything else has ended
                closed_.store(true, std::memory_order_release);
                break;
            default:
                raise(ErrorCode::internal, fmt::format("the log has an entry of unknown kind {} at {}",
                                                       static_cast<std::uint32_t>(entry.kind), position));
                return Turn::idle;
        }
    }
    advance_to(position + 1);
    return Turn::advanced;
}

Turn ProcessSet::start_batch(std::uint64_t position, bool urgent) {
    std::uint64_t end = log_.end_of_batch(position);
    if (end == Log<Atomics>::kOpen) {
        const BatchEnd proposed = propose_batch_end(log_, position, fusion_threshold_bytes_);
        if (!urgent && !proposed.complete && hold_ns_ > 0) {
            const std::int64_t now = base::monotonic_ns();
            if (open_since_position_ != position) {
                open_since_position_ = position;
                hold_until_ns_ = now + hold_ns_;
            }
            if (now < hold_until_ns_) {
                return Turn::holding;
            }
        }
        end = log_.close_batch(position, proposed.end);
    }
    if (!log_.is_plausible_end(position, end)) {
        raise(ErrorCode::internal, fmt::format("the batch at {} of the log ends at {}", position, end));
        return Turn::idle;
    }
    return end == position + 1 && run_inline(position) ? Turn::advanced : run_batch(position, end);
}

/// The shortest way of the smallest tensors: a batch of one allreduce whose inputs all travelled with the announcements
/// needs no task, and nobody's help; others that sleep have to be woken for theirs. False: not such a batch, and
/// nothing was done.
bool ProcessSet::run_inline(std::uint64_t position) {
    const auto called = log_.read(position);
    TensorEntry* entry = called.kind == EntryKind::call && extent_.members <= kInlineMembers && !extent_.is_led()
                             ? table_.at_slot(called.slot)
                             : nullptr;
    if (entry == nullptr || entry->slot == kNoSlot || !entry->pending.load(std::memory_order_relaxed)) {
        return false;
    }
    const Request& request = entry->request;
    const std::uint64_t bytes = request.bytes();
    if (static_cast<Operation>(request.metadata.operation) != Operation::allreduce || request.count == 0) {
        return false;
    }
    Payloads payloads{};
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        const Place<Atomics>& place = memory_.place(called.slot, member, entry->generation);
        payloads[member] = memory_.payload(called.slot, member, entry->generation, bytes);
        if ((place.flags & PlaceFlags::kPayload) == 0 || place.payload_bytes != bytes || payloads[member] == nullptr) {
            return false;  // another way; or run_batch() says what is wrong with it
        }
    }
    wake_others();
    payloads[rank_] = request.input;  // the same, and its lines stay with who reads them
    if (checks_) [[unlikely]] {
        inspect_again(*entry);
    }
    reduce_payloads(request, payloads, request.output, request.count);
    advance_to(position + 1);
    if (checks_ && begin_check(*entry)) [[unlikely]] {
        return true;
    }
    complete(*entry, {});
    return true;
}

/// `count` elements in the order of the set.
void ProcessSet::reduce_payloads(const Request& request, const Payloads& payloads, std::byte* output,
                                 std::uint64_t count) const {
    ops::Reduction reduction = reduction_of(request.metadata);
    reduction.divisor = static_cast<int>(extent_.members);
    nodes_.reduce(reduction, {payloads.data(), extent_.members}, {&output, 1}, count);
}

Turn ProcessSet::run_batch(std::uint64_t begin, std::uint64_t end) {
    segments_.clear();
    locations_.clear();
    batch_entries_.clear();
    for (std::uint64_t position = begin; position < end; ++position) {
        const auto called = log_.read(position);
        TensorEntry* entry = called_entry(called);
        if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed)) {
            raise(ErrorCode::internal,
                  fmt::format("entry {} of the log calls slot {}, where rank {} has nothing pending", position,
                              called.slot, own_job_rank()));
            return Turn::idle;
        }
        batch_entries_.push_back(entry);
        if (entry->stands_in) [[unlikely]] {
            if (Status taken = take_called(*entry, called.slot, entry->generation); !taken.is_ok()) {
                raise(taken.code(), taken.message());
                return Turn::idle;
            }
        }
        if (Status read = read_rows(called.attachment); !read.is_ok()) {
            raise(read.code(), read.message());
            return Turn::idle;
        }
        if (checks_) [[unlikely]] {
            inspect_again(*entry);
        }
        if (Status added = add_segment(*entry, called); !added.is_ok()) {
            raise(added.code(), added.message());
            return Turn::idle;
        }
    }
    wake_others();
    task_end_ = end;
    const auto operation = static_cast<Operation>(batch_entries_.front()->request.metadata.operation);
    if (operation == Operation::barrier || operation == Operation::group) {
        if (operation == Operation::group) {
            TensorEntry& entry = *batch_entries_.front();
            if (Status settled = entry.checks != nullptr ? settle_check(entry) : settle_group(entry);
                !settled.is_ok()) {
                raise(settled.code(), settled.message());
                return Turn::idle;
            }
        }
        finish_batch();
        return Turn::advanced;
    }
    if (hierarchical_communicator_ == nullptr) {
        task_ = &host_communicator_->start({operation, segments_, locations_, splits_});
    } else if (collectives::has_splits(operation)) {
        return start_splits(*batch_entries_.front());
    } else {
        task_ = &hierarchical_communicator_->start({operation, segments_, locations_, splits_, rows_});
    }
    turn_task();
    return Turn::advanced;
}

/// Of a set on several hosts: the first dimensions of all ranks, which the root has sent with the call.
Status ProcessSet::read_rows(std::uint32_t attachment) {
    rows_.clear();
    if (attachment == 0) {
        return {};
    }
    if (attachment > extent_.attachments || set_size_ * sizeof(std::int64_t) > extent_.attachment_bytes) {
        return failure(ErrorCode::internal, "the log has an attachment {}, of {}", attachment, extent_.attachments);
    }
    rows_.resize(set_size_);
    std::memcpy(rows_.data(), memory_.attachment(attachment - 1), set_size_ * sizeof(std::int64_t));
    return {};
}

/// Of an alltoall or a scatter on several hosts: every rank tells every other how many rows it gets, then the data
/// follows.
Turn ProcessSet::start_splits(TensorEntry& entry) {
    splits_.assign(std::size_t{2} * set_size_, 0);
    const std::vector<std::int64_t>& to = entry.request.splits;
    std::copy_n(to.begin(), std::min<std::size_t>(to.size(), set_size_), splits_.begin());
    const std::span<std::int64_t> all(splits_);
    task_ = &hierarchical_communicator_->start_splits(all.first(set_size_), all.last(set_size_));
    task_is_splits_ = true;
    turn_task();
    return Turn::advanced;
}

Status ProcessSet::take_splits(TensorEntry& entry) {
    task_is_splits_ = false;
    std::vector<std::int64_t>& received = entry.completion->received_splits;
    received.assign(splits_.begin() + set_size_, splits_.end());
    std::int64_t rows = 0;
    for (std::uint32_t member = 0; member < set_size_; ++member) {
        if (received[member] < 0) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} says that it sends {} rows", entry.name,
                           identity_.ranks[member], received[member]);
        }
        if (__builtin_add_overflow(rows, received[member], &rows)) {
            return failure(ErrorCode::resource_exhausted, "tensor '{}': the received first dimensions overflow",
                           entry.name);
        }
    }
    RUEDA_RETURN_IF_FAILED(check_source(entry));
    RUEDA_RETURN_IF_FAILED(set_output(output_of_all(entry, rows, 0)));
    task_ = &hierarchical_communicator_->start({Operation::alltoall, segments_, locations_, splits_, rows_});
    return {};
}

/// Of a scatter: everything comes from the root. Who the rows came from is no part of its result.
Status ProcessSet::check_source(TensorEntry& entry) const {
    const Metadata& metadata = entry.request.metadata;
    if (static_cast<Operation>(metadata.operation) != Operation::scatter) {
        return {};
    }
    std::vector<std::int64_t>& received = entry.completion->received_splits;
    for (std::size_t member = 0; member < received.size(); ++member) {
        if (received[member] != 0 && member != static_cast<std::size_t>(metadata.root)) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} has rows for others, and is not the root",
                           entry.name, identity_.ranks[member]);
        }
    }
    received.clear();
    return {};
}

/// The others take part as soon as they look; those that sleep are woken here, once per batch: who appended did not.
void ProcessSet::wake_others() {
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (member != rank_) {
            wake(member);
        }
    }
}

void ProcessSet::wake(std::uint32_t member) {
    auto& attention = arena_->blocks().of(member).attention;
    if (const auto state = attention.state(); state != base::AttentionState::awake) {
        attention.ring(state);
    }
}

TensorEntry* ProcessSet::called_entry(const Log<Atomics>::Entry& called) {
    if (called.slot >= extent_.slots) {
        return nullptr;
    }
    if (called.kind == EntryKind::call) {
        return table_.at_slot(called.slot);
    }
    const std::lock_guard lock(enqueue_mutex_);
    TensorEntry* entry = entry_of_slot(called.slot);
    if (entry == nullptr) {
        return nullptr;
    }
    if (called.kind == EntryKind::first_call) {
        entry->in_full = false;
        if (entry->stands_in && !take_called(*entry, called.slot, 0).is_ok()) {
            return nullptr;
        }
        table_.bind(*entry, called.slot, entry->request.metadata);  // on which all agree
    } else {
        table_.unbind(*entry);  // its operation is pending, so the entry stays
    }
    return entry;
}

/// Who is bound to the slot, or has announced its name in full. Under the enqueue lock.
TensorEntry* ProcessSet::entry_of_slot(std::uint32_t slot) {
    if (slot >= extent_.slots) {
        return nullptr;
    }
    if (TensorEntry* bound = table_.at_slot(slot)) {
        return bound;
    }
    const SlotRecord& record = memory_.record(slot);
    const std::uint32_t name_bytes = copy_once(record.name_bytes);
    if (name_bytes == 0 || name_bytes > RUEDA_MAX_NAME) {
        return nullptr;
    }
    std::array<char, RUEDA_MAX_NAME> name;
    std::memcpy(name.data(), record.name, name_bytes);
    TensorEntry* entry = table_.find(std::string_view(name.data(), name_bytes));
    return entry != nullptr && entry->slot == kNoSlot && entry->in_full ? entry : nullptr;
}

Status ProcessSet::add_segment(TensorEntry& entry, const Log<Atomics>::Entry& called) {
    const std::uint32_t slot = called.slot;
    const Request& request = entry.request;
    const Metadata& metadata = request.metadata;
    segments_.push_back({.dtype = static_cast<DType>(metadata.dtype),
                         .reduce_op = static_cast<ReduceOp>(metadata.reduce_op),
                         .prescale = metadata.prescale,
                         .postscale = metadata.postscale,
                         .root = static_cast<std::uint32_t>(metadata.root),
                         .count = request.count,
                         .input = request.input,
                         .output = request.output,
                         .compression = static_cast<Compression>(metadata.compression)});
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        RUEDA_RETURN_IF_FAILED(locate(entry, slot, member, locations_.emplace_back()));
        if (locations_.back().absent) [[unlikely]] {
            ++segments_.back().absent;
            segments_.back().uncounted += locations_.back().counted ? 0U : 1U;
        }
    }
    if (extent_.is_led()) {
        segments_.back().uncounted = called.uncounted;  // on all hosts: the root has counted them
    }
    if (const std::uint32_t absent = segments_.back().absent;
        (absent == extent_.members && !extent_.is_led()) || segments_.back().uncounted >= set_size_ ||
        (absent > 0 && !collectives::goes_on_without_joined(static_cast<Operation>(metadata.operation)))) {
        return failure(ErrorCode::internal, "tensor '{}': the log calls its {} with {} of {} ranks joined", entry.name,
                       collectives::name_of(static_cast<Operation>(metadata.operation)), absent, extent_.members);
    }
    return is_by_rows(static_cast<Operation>(metadata.operation)) ? prepare_output(entry, slot) : Status();
}

/// What a member announced, checked: it comes from another process.
Status ProcessSet::locate(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member,
                          Location& location) const {
    const Place<Atomics>& place = memory_.place(slot, member, entry.generation);
    const Metadata& metadata = entry.request.metadata;
    const auto operation = static_cast<Operation>(metadata.operation);
    // Read once: what is checked is what is used.
    const std::uint32_t flags = copy_once(place.flags);
    const std::uint32_t payload_bytes = copy_once(place.payload_bytes);
    location.absent = member == rank_ ? entry.stands_in : (flags & PlaceFlags::kJoined) != 0;
    if (location.absent) [[unlikely]] {
        location.counted = member == rank_ ? join_is_counted_ : (flags & PlaceFlags::kUncounted) == 0;
        return {};
    }
    // The caller's input has as many rows as he said, whatever stands where others can write.
    location.first_dimension = member == rank_ ? entry.request.first_dimension : copy_once(place.first_dimension);
    std::uint64_t bytes = entry.request.bytes();
    if (is_by_rows(operation)) {
        if (location.first_dimension < 0 ||
            __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(location.first_dimension), &bytes)) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a first dimension of {}", entry.name,
                           job_rank_of(member), location.first_dimension);
        }
    }
    if ((flags & PlaceFlags::kPayload) != 0) {
        location.payload = memory_.payload(slot, member, entry.generation, bytes);
        if (payload_bytes != bytes || location.payload == nullptr) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a payload of {} bytes for {}",
                           entry.name, job_rank_of(member), payload_bytes, bytes);
        }
    }
    if ((flags & PlaceFlags::kResidentInput) != 0) {
        location.input = arena_->resident_memory(member, copy_once(place.input), bytes);
    }
    if ((flags & PlaceFlags::kResidentOutput) != 0) {
        location.output = arena_->resident_memory(member, copy_once(place.output), bytes);
    }
    if (((flags & PlaceFlags::kResidentInput) != 0 && location.input == nullptr) ||
        ((flags & PlaceFlags::kResidentOutput) != 0 && location.output == nullptr)) {
        return failure(ErrorCode::internal, "tensor '{}': rank {} announced memory outside its resident region",
                       entry.name, job_rank_of(member));
    }
    return {};
}

/// Of the operations by rows: where the result goes. A batch holds one of them.
Status ProcessSet::prepare_output(TensorEntry& entry, std::uint32_t slot) {
    if (!extent_.is_led()) {
        rows_.clear();
        for (const Location& location : locations_) {
            rows_.push_back(location.first_dimension);
        }
    } else if (rows_.size() != set_size_) {
        return failure(ErrorCode::internal, "tensor '{}': the log calls it without the first dimensions of its ranks",
                       entry.name);
    } else {
        rows_[set_rank_] = entry.request.first_dimension;  // whatever stands where others can write
    }
    switch (static_cast<Operation>(entry.request.metadata.operation)) {
        case Operation::gather:
            return prepare_gather(entry);
        case Operation::alltoall:
        case Operation::scatter:
            return extent_.is_led() ? Status() : prepare_alltoall(entry, slot);  // start_splits()
        case Operation::reducescatter:
            return prepare_reducescatter(entry);
        case Operation::group:
            return {};
        default:
            return prepare_allgather(entry);
    }
}

Status ProcessSet::prepare_reducescatter(TensorEntry& entry) {
    RUEDA_RETURN_IF_FAILED(check_rows(entry, rows_));
    return set_output(output_of_share(entry));
}

/// All members have agreed on the first dimension, but what they announced is in memory that others can write to.
Status ProcessSet::check_rows(const TensorEntry& entry, std::span<const std::int64_t> rows) const {
    const std::int64_t mine = entry.request.first_dimension;
    for (std::size_t member = 0; member < rows.size(); ++member) {
        if (rows[member] != mine) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced {} rows for a reducescatter of {}",
                           entry.name, identity_.ranks[member], rows[member], mine);
        }
    }
    return {};
}

/// Of a reducescatter: the caller's output where he gave one.
Result<std::byte*> ProcessSet::output_of_share(TensorEntry& entry) {
    if (entry.request.output != nullptr) {
        return entry.request.output;
    }
    const std::int64_t rows = entry.request.first_dimension;
    return allocate_output(entry, collectives::rows_of_member(rows, set_rank_, set_size_).count);
}

Status ProcessSet::prepare_alltoall(TensorEntry& entry, std::uint32_t slot) {
    const Result<std::int64_t> rows = read_splits(entry, slot, locations_, splits_);
    RUEDA_RETURN_IF_FAILED(rows.status());
    RUEDA_RETURN_IF_FAILED(check_source(entry));
    return set_output(output_of_all(entry, rows.value(), 0));
}

/// Everybody works out the splits: all rows are for the root.
Status ProcessSet::prepare_gather(TensorEntry& entry) {
    const auto root = static_cast<std::size_t>(entry.request.metadata.root);
    if (!extent_.is_led()) {
        splits_.assign(rows_.size() * rows_.size(), 0);
        for (std::size_t member = 0; member < rows_.size(); ++member) {
            splits_[member * rows_.size() + root] = rows_[member];
        }
    } else {
        splits_.assign(2 * rows_.size(), 0);
        splits_[root] = entry.request.first_dimension;
        if (set_rank_ == root) {
            std::copy(rows_.begin(), rows_.end(), splits_.begin() + static_cast<std::ptrdiff_t>(rows_.size()));
        }
    }
    return set_output(output_on_root(entry, rows_));
}

/// Of a gather: room for the rows of all members; on other ranks null.
Result<std::byte*> ProcessSet::output_on_root(TensorEntry& entry, std::span<const std::int64_t> rows_of) {
    if (static_cast<std::int32_t>(set_rank_) != entry.request.metadata.root) {
        return static_cast<std::byte*>(nullptr);
    }
    entry.completion->received_splits.assign(rows_of.begin(), rows_of.end());
    return output_of_gathered(entry, rows_of);
}

/// What the members announced, copied once and checked: it comes from other processes. Gives the rows for this rank.
Result<std::int64_t> ProcessSet::read_splits(TensorEntry& entry, std::uint32_t slot, std::span<const Location> of,
                                             std::vector<std::int64_t>& splits) const {
    splits.clear();
    std::vector<std::int64_t>& received = entry.completion->received_splits;
    received.clear();
    std::int64_t rows = 0;
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        // This rank's lines stay with who reads them.
        const std::int64_t* announced =
            member == rank_ ? entry.request.splits.data() : memory_.splits(slot, member, entry.generation);
        std::int64_t left = of[member].first_dimension;
        for (std::uint32_t to = 0; to < extent_.members; ++to) {
            const std::int64_t split = copy_once(announced[to]);
            if (split < 0 || split > left) {
                left = -1;
                break;
            }
            left -= split;
            splits.push_back(split);
        }
        if (left != 0) {
            return failure(ErrorCode::internal,
                           "tensor '{}': rank {} announced splits that are not those of its {} rows", entry.name,
                           job_rank_of(member), of[member].first_dimension);
        }
        received.push_back(splits[std::size_t{member} * extent_.members + rank_]);
        if (__builtin_add_overflow(rows, received.back(), &rows)) {
            return failure(ErrorCode::resource_exhausted, "tensor '{}': the received first dimensions overflow",
                           entry.name);
        }
    }
    return rows;
}

Status ProcessSet::prepare_allgather(TensorEntry& entry) { return set_output(output_of_gathered(entry, rows_)); }

/// Of an allgather, and of a gather's root: room for the rows of all members.
Result<std::byte*> ProcessSet::output_of_gathered(TensorEntry& entry, std::span<const std::int64_t> rows_of) {
    std::int64_t rows = 0;
    std::int64_t rows_before = 0;
    for (std::size_t member = 0; member < rows_of.size(); ++member) {
        if (rows_of[member] < 0) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a first dimension of {}", entry.name,
                           identity_.ranks[member], rows_of[member]);
        }
        rows_before = member == set_rank_ ? rows : rows_before;
        if (__builtin_add_overflow(rows, rows_of[member], &rows)) {
            return failure(ErrorCode::resource_exhausted, "tensor '{}': the gathered first dimensions overflow",
                           entry.name);
        }
    }
    return output_of_all(entry, rows, rows_before);
}

/// Of the operation by rows that is being prepared.
Status ProcessSet::set_output(Result<std::byte*> output) {
    RUEDA_RETURN_IF_FAILED(output.status());
    segments_.back().output = output.value();
    return {};
}

/// The caller's output where he gave one, else one of `rows` rows. One that does not fit fails the operation on this
/// rank alone: the others have announced theirs and count on this rank's part, so it takes part, and keeps nothing
/// (null).
Result<std::byte*> ProcessSet::output_of_all(TensorEntry& entry, std::int64_t rows, std::int64_t rows_before) {
    if (!entry.request.output_rows) {
        return allocate_output(entry, rows);
    }
    const Status fits = check_output_of_all(entry.request, entry.name, rows, rows_before);
    if (!fits.is_ok()) [[unlikely]] {
        entry.completion->fail(fits);
        return static_cast<std::byte*>(nullptr);
    }
    return entry.request.output;
}

/// A result of `rows` rows, which belongs to the completion.
Result<std::byte*> ProcessSet::allocate_output(TensorEntry& entry, std::int64_t rows) {
    const Metadata& metadata = entry.request.metadata;
    const std::uint64_t row_bytes = entry.request.bytes();
    std::uint64_t bytes = 0;
    constexpr std::uint64_t kAlignment = base::kCacheLine;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(rows), row_bytes, &bytes) ||
        bytes > ~std::uint64_t{0} - kAlignment) {
        return failure(ErrorCode::resource_exhausted, "tensor '{}': the {} rows of the result overflow", entry.name,
                       rows);
    }
    const std::uint64_t allocation = (bytes / kAlignment + 1) * kAlignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, allocation));
    if (memory == nullptr) {
        return failure(ErrorCode::resource_exhausted, "tensor '{}': no memory for a result of {}", entry.name,
                       base::format_bytes(bytes));
    }
    Completion::Output& output = entry.completion->output(entry.request.member);
    output.memory.reset(memory);
    output.shape.assign(metadata.shape, metadata.shape + metadata.ndim);
    output.shape.front() = rows;
    output.dtype = static_cast<DType>(metadata.dtype);
    return memory;
}

void ProcessSet::finish_batch() {
    constexpr std::int64_t kSendingNs = 1'000'000'000;
    if (transport_ != nullptr && task_ != nullptr) {
        sending_until_ns_.store(base::coarse_monotonic_ns() + kSendingNs, std::memory_order_relaxed);
    }
    task_ = nullptr;
    advance_to(task_end_);
    for (TensorEntry* entry : batch_entries_) {
        if (checks_ && begin_check(*entry)) [[unlikely]] {
            continue;
        }
        if (entry->slot == kNoSlot) {
            const std::lock_guard lock(enqueue_mutex_);
            complete_and_forget(*entry, {});
        } else {
            complete(*entry, {});
        }
    }
}

/// Partner of the cursor: the registrar, which reuses a slot when everybody has passed its retirement.
void ProcessSet::advance_to(std::uint64_t position, std::memory_order order) {
    next_.store(position, std::memory_order_relaxed);
    memory_.cursor(rank_).position.store(position, order);
}

// ---- entries that are no calls; under the enqueue lock
// ------------------------------------------------------------------

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
        if (stood_in(slot, member, generation)) {
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
    const Status mismatch = entry->name.empty() ? mismatch_of_unnamed(call_of_unnamed(slot, generation),
                                                                      std::move(by_rank), identity_.ranks)
                                                : mismatch_of(entry->name, std::move(by_rank), identity_.ranks);
    end_disagreed(*entry, slot, {mismatch.code(), mismatch.message() + called_from(slot, generation)});
}

/// On several hosts: the root has found out who means what.
void ProcessSet::handle_disagreement(std::uint32_t slot, std::uint32_t attachment, ErrorCode code) {
    TensorEntry* entry = entry_of_slot(slot);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed) || attachment == 0 ||
        attachment > extent_.attachments) {
        raise(ErrorCode::internal, fmt::format("the log reports a disagreement in slot {}, with attachment {}, where "
                                               "rank {} has nothing pending",
                                               slot, attachment, own_job_rank()));
        return;
    }
    std::string text = text_of_attachment(attachment);
    if (code == ErrorCode::mismatch) {
        text += called_from(slot, entry->slot == kNoSlot ? 0 : entry->generation);
    }
    end_disagreed(*entry, slot, {code, text});
}

std::string ProcessSet::text_of_attachment(std::uint32_t attachment) const {
    const auto* text = reinterpret_cast<const char*>(memory_.attachment(attachment - 1));
    return {text, strnlen(text, extent_.attachment_bytes)};
}

void ProcessSet::end_disagreed(TensorEntry& entry, std::uint32_t slot, const Status& status) {
    if (slot >= extent_.unnamed_slots) {
        entry.in_full = false;
        table_.unbind(entry);
    }
    complete_and_forget(entry, status);
}

void ProcessSet::handle_failed(std::uint32_t slot) {
    TensorEntry* entry = entry_of_slot(slot);
    if (entry == nullptr) {
        return;  // this rank announced nothing there
    }
    if (extent_.is_led()) {
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

void ProcessSet::handle_retire(std::uint32_t slot) {
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

// ---- ends
// -------------------------------------------------------------------------------------------------------------

void ProcessSet::complete(TensorEntry& entry, const Status& status) {
    Completion* completion = entry.completion;
    // From here on the caller may submit the name again.
    entry.pending.store(false, std::memory_order_release);
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    if (completion != nullptr) [[likely]] {  // nobody waits for what this rank stands in for
        completion->complete_one(status);
    }
}

/// For entries that may have lost their slot; under the enqueue lock, so nobody submits in between.
void ProcessSet::complete_and_forget(TensorEntry& entry, const Status& status) {
    complete(entry, status);
    table_.forget_if_unused(entry);
}

void ProcessSet::fail_all(const Status& reason) {
    const std::lock_guard lock(enqueue_mutex_);
    failed_ = reason;
    task_ = nullptr;
    fail_pending(reason);
}

/// Under the enqueue lock.
void ProcessSet::fail_pending(const Status& reason) {
    end_join(reason);
    fail_deferred(reason);
    unposted_resolves_.clear();
    direct_.store(nullptr, std::memory_order_relaxed);
    table_.for_each([&](TensorEntry& entry) {
        entry.in_full = false;
        if (entry.pending.load(std::memory_order_relaxed)) {
            complete(entry, about(entry.name, reason));
        }
    });
    deferred_.store(false, std::memory_order_seq_cst);
}

void ProcessSet::raise(ErrorCode code, const std::string& text) {
    arena_->blocks().abort().raise(code, title() + text);
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        arena_->blocks().of(member).attention.ring_all();
    }
}

void ProcessSet::raise_network_failure(const Status& failure) {
    if (arena_->blocks().abort().raised()) {
        return;  // by who saw it first, and explained it
    }
    const Status reason = explain_ ? explain_(failure) : failure;
    raise(reason.code(), reason.message());
}

std::vector<ProcessSet::PendingTensor> ProcessSet::pending_tensors() {
    const std::lock_guard lock(enqueue_mutex_);
    std::vector<PendingTensor> tensors;
    table_.for_each([&](const TensorEntry& entry) {
        if (entry.pending.load(std::memory_order_acquire)) {
            tensors.push_back({entry.name, entry.submitted_ns});
        }
    });
    return tensors;
}

}  // namespace rueda::core
