// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/hosts/leader.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/system/clock.hpp"
#include "base/text.hpp"
#include "collectives/hierarchical/hierarchical_options.hpp"
#include "collectives/rows.hpp"
#include "collectives/wakeups.hpp"
#include "core/diagnostics/seconds.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/hosts/host_tree.hpp"
#include "core/negotiation/carried.hpp"
#include "core/negotiation/claims.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

using collectives::has_variable_rows;
using collectives::Operation;
using collectives::Transport;

namespace {

/// The size of the buffer for the AbortMessage of a deputy (the second rank of a host), in bytes. The message's text
/// has at most kMostTextBytes.
constexpr std::size_t kLastWordsBytes = 2 * kMostTextBytes;

TreeNode::Options node_options(const base::Config& config, const collectives::LocalGroup& group) {
    TreeNode::Options options;
    options.host = static_cast<std::uint32_t>(group.host_index);
    options.shape = tree_of(group);
    options.host_of.assign(group.host_of.begin(), group.host_of.end());
    options.job_ranks.assign(group.job_ranks.begin(), group.job_ranks.end());
    options.fusion_threshold_bytes = config.fusion_threshold_bytes;
    return options;
}

/// Returns the host of each rank of the job, or -1 if the rank is not in the set. Stall reports number the ranks as in
/// the job, because users know only these numbers.
std::vector<std::int32_t> hosts_of_job_ranks(const collectives::LocalGroup& group) {
    std::vector<std::int32_t> host_of(static_cast<std::size_t>(group.job_ranks.back()) + 1, -1);
    for (int rank = 0; rank < group.size; ++rank) {
        host_of[static_cast<std::size_t>(group.job_rank(rank))] = group.host_of[static_cast<std::size_t>(rank)];
    }
    return host_of;
}

void add_claim(std::vector<Claim>& claims, const Metadata& metadata, std::int32_t rank) {
    const auto same = std::find_if(claims.begin(), claims.end(),
                                   [&](const Claim& claim) { return agree(*claim.metadata, metadata); });
    std::vector<RankRange>& ranks = same != claims.end() ? same->ranks : claims.emplace_back(Claim{metadata, {}}).ranks;
    if (!ranks.empty() && ranks.back().last + 1 == rank) {
        ranks.back().last = rank;
    } else {
        ranks.push_back({rank, rank});
    }
}

}  // namespace

Leader::Leader(const base::Config& config, const collectives::LocalGroup& group,
               std::shared_ptr<collectives::Arena> arena, const NegotiationMemory<Atomics>& memory,
               Registrar<Atomics>& registrar, std::mutex& enqueue_mutex, Transport& transport)
    : group_(group),
      memory_(memory),
      registrar_(registrar),
      enqueue_mutex_(enqueue_mutex),
      transport_(transport),
      node_(node_options(config, group)),
      most_carried_bytes_(
          tree_of(group).is_star()
              ? collectives::small_bytes_for(static_cast<std::uint32_t>(group.host_count), config.doubling_limit_bytes)
              : 0),
      timeout_ns_(static_cast<std::int64_t>(config.host_timeout_seconds * 1e9)),
      heartbeat_ns_(std::min<std::int64_t>(timeout_ns_ / 6, 500'000'000)),
      report_limit_ns_(std::max(kSecond, 2 * nanoseconds(config.liveness_seconds))),
      neighbours_(std::make_shared<std::vector<Neighbour>>()),
      id_of_slot_(memory.extent().slots, 0),
      attachments_(memory.extent().attachments) {
    for (const std::uint32_t other : neighbours_of(group)) {
        Neighbour neighbour;
        neighbour.host = other;
        neighbour.rank = *rank_of_host(group, other, 0);
        neighbour.room.resize(most_message_bytes(static_cast<std::uint32_t>(group.size)));
        neighbour.deputy = rank_of_host(group, other, 1);
        neighbour.deputy_room.resize(neighbour.deputy ? kLastWordsBytes : 0);
        neighbours_->push_back(std::move(neighbour));
    }
    std::vector<StallInquiry::Neighbour> others;
    for (const Neighbour& neighbour : *neighbours_) {
        others.push_back({neighbour.host, neighbour.rank});
    }
    const bool is_root = group.host_index == 0;
    const StallSettings stall_settings(config);
    stall_monitor_ = std::make_unique<StallMonitor>(stall_settings, std::move(arena), memory);
    inquiry_ = std::make_unique<StallInquiry>(
        stall_settings, static_cast<std::uint32_t>(group.host_count), hosts_of_job_ranks(group),
        is_root ? std::nullopt : std::optional(others.front()), std::span(others).subspan(is_root ? 0 : 1), transport);
    registrar_.report_to(*this);
}

Leader::~Leader() {
    // MPI may still write into the buffers of posted receives, so these buffers must not be freed here. The transport
    // outlives this object and cancels the receives later, unless there was a failure.
    if (started_ && !ended_) {
        keep_memory();
    }
}

void Leader::keep_memory() noexcept {
    collectives::keep_for_good(neighbours_);
    inquiry_->abandon();
}

Result<Leader::Moved> Leader::turn() {
    Moved moved;
    if (ended_) {
        return moved;
    }
    if (!started_) {
        RUEDA_RETURN_IF_FAILED(start());
    }
    say_joined();
    RUEDA_RETURN_IF_FAILED(serve(moved));
    RUEDA_RETURN_IF_FAILED(node_.status());
    const std::int64_t now = base::coarse_monotonic_ns();
    if (now - last_turn_ns_ > timeout_ns_ / 2) {
        // This leader has not run for some time. It may need several turns to read the messages that arrived in this
        // time. Until then it must not conclude that its neighbours have stopped sending.
        for (Neighbour& neighbour : *neighbours_) {
            neighbour.heard_ns = now;
        }
    }
    last_turn_ns_ = now;
    if (moved.served && transport_.wakeups() != nullptr) {
        // The other hosts may wait for what the ranks of this host have just announced. So this leader sends it before
        // it looks for messages of the others. If leaders exchange messages by MPI, it reads first: MPI may fail in a
        // send to a host that has ended, and the reason of its end may be among the messages.
        RUEDA_RETURN_IF_FAILED(pass_on(now, moved));
    }
    for (Neighbour& neighbour : *neighbours_) {
        RUEDA_RETURN_IF_FAILED(receive(neighbour, now, moved));
    }
    for (Neighbour& neighbour : *neighbours_) {
        RUEDA_RETURN_IF_FAILED(check_life(neighbour, now));
    }
    RUEDA_RETURN_IF_FAILED(pass_on(now, moved));
    RUEDA_RETURN_IF_FAILED(inquire(now, moved));
    const auto is_silent = [](const Neighbour& neighbour) { return !neighbour.sending; };
    if (closed_ && std::all_of(neighbours_->begin(), neighbours_->end(), is_silent)) {
        left_.store(true, std::memory_order_release);
    }
    return moved;
}

/// Sends what there is to send to the neighbours, and then carries out the decisions. The decisions of the root are
/// thus passed on before this host carries them out. A message that was just sent may have accepted an offer. This
/// leader has then decided on a call, and handles the decision in this turn: this thread may release the progress lock
/// after the turn, and nothing would wake a thread for the decision. For the same reason, this function sends again if
/// carrying out the decisions has produced something to send.
Status Leader::pass_on(std::int64_t now, Moved& moved) {
    count_executed();
    for (bool goes_on = true; goes_on;) {
        for (Neighbour& neighbour : *neighbours_) {
            RUEDA_RETURN_IF_FAILED(send(neighbour, now, moved));
        }
        RUEDA_RETURN_IF_FAILED(node_.status());
        const Result<bool> decided = decide(moved);
        RUEDA_RETURN_IF_FAILED(decided.status());
        goes_on = decided.value();
    }
    return {};
}

Status Leader::start() {
    started_ = true;
    const std::int64_t now = base::coarse_monotonic_ns();
    for (Neighbour& neighbour : *neighbours_) {
        neighbour.heard_ns = neighbour.sent_ns = now;
        Result<Transport::Ticket> receiving =
            transport_.receive(neighbour.rank, Transport::Channel::control, neighbour.room);
        RUEDA_RETURN_IF_FAILED(receiving.status());
        neighbour.receiving = receiving.value();
        if (neighbour.deputy) {
            Result<Transport::Ticket> hearing =
                transport_.receive(*neighbour.deputy, Transport::Channel::end_reason, neighbour.deputy_room);
            RUEDA_RETURN_IF_FAILED(hearing.status());
            neighbour.hearing_deputy = hearing.value();
        }
    }
    return {};
}

Status Leader::serve(Moved& moved) {
    if (!registrar_.has_requests()) {
        return {};
    }
    const std::lock_guard lock(enqueue_mutex_);
    const Result<std::uint64_t> appended = registrar_.serve();
    RUEDA_RETURN_IF_FAILED(appended.status());
    moved.anything = moved.served = true;
    moved.log = moved.log || appended.value() > 0;
    return {};
}

Status Leader::complete(std::uint32_t slot, std::uint64_t generation, bool changed) {
    const bool unnamed = slot < memory_.extent().unnamed_slots;
    Announcement announcement;
    const std::uint64_t id = id_of_slot_[slot];
    find_joined(slot, generation, announcement);
    const bool nobody_here =
        count_of(announcement.joined) + count_of(announcement.uncounted) == memory_.extent().members;
    if (unnamed || id == 0 || changed) {
        Result<std::vector<Claim>> claims = claims_of(slot, generation);
        RUEDA_RETURN_IF_FAILED(claims.status());
        announcement.claims = std::move(claims).value();
    }
    SlotRecord& record = memory_.record(slot);
    if (is_seen_first(slot) && !announcement.claims.empty()) {
        // Ranks that have called join() do not know the operation's metadata. They read it in the slot's record.
        record.metadata = *announcement.claims.front().metadata;
    }
    const Metadata& metadata = announcement.claims.empty() ? record.metadata : *announcement.claims.front().metadata;
    const bool any_variable_rows = std::any_of(
        announcement.claims.begin(), announcement.claims.end(),
        [](const Claim& claim) { return has_variable_rows(static_cast<Operation>(claim.metadata->operation)); });
    if (!nobody_here &&
        (any_variable_rows || has_variable_rows(static_cast<Operation>(copy_once(metadata.operation))))) {
        announcement.rows.push_back(rows_of(slot, generation));
    }
    if (announcement.claims.empty() && announcement.joined.empty() && announcement.uncounted.empty()) {
        announcement.input = input_of(slot, generation, copy_once(record.metadata));
    }
    Awaited& awaited = awaited_[slot];
    awaited = {changed, {}, 0, base::coarse_monotonic_ns(), nobody_here};
    for (std::uint32_t member = 0; memory_.extent().call_sites != 0 && member < memory_.extent().members; ++member) {
        const std::string site = read_site(memory_.site(slot, member, generation).read());
        add_site(awaited.sites, site, group_.job_rank(rank_of(member)));
    }
    if (unnamed) {
        announcement.key.call = (generation - 1) * memory_.extent().unnamed_slots + slot;
        awaited.call = *announcement.key.call + 1;
    } else {
        awaited.name.assign(record.name, std::min<std::size_t>(copy_once(record.name_bytes), RUEDA_MAX_NAME));
        announcement.key.id = id;
        if (id == 0) {
            announcement.key.name = awaited.name;
            slot_by_name_[awaited.name] = slot;
        }
    }
    node_.announce(std::move(announcement));
    return {};
}

Result<std::vector<Claim>> Leader::claims_of(std::uint32_t slot, std::uint64_t generation) const {
    std::vector<Claim> claims;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if (Registrar<Atomics>::has_joined(copy_once(memory_.place(slot, member, generation).flags))) {
            continue;
        }
        const Metadata metadata = Registrar<Atomics>::announced_metadata(memory_, slot, member, generation);
        if (!is_plausible(metadata)) {
            return failure(ErrorCode::internal, "rank {} announced metadata that no working rank writes, in slot {}",
                           group_.job_rank(rank_of(member)), slot);
        }
        add_claim(claims, metadata, rank_of(member));
    }
    return claims;
}

/// Adds to `announcement` the members that announced the operation only because they have called join(). Such a member
/// sets its bit in `joined` before it announces, and the bit stays set until all operations are called. If no bit is
/// set, there is no such member.
void Leader::find_joined(std::uint32_t slot, std::uint64_t generation, Announcement& announcement) const {
    if (memory_.header().joined.load(std::memory_order_acquire) == 0) {
        return;
    }
    std::vector<std::int32_t> counted;
    std::vector<std::int32_t> uncounted;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const std::uint32_t flags = copy_once(memory_.place(slot, member, generation).flags);
        if (Registrar<Atomics>::has_joined(flags)) {
            ((flags & Place<Atomics>::kUncounted) != 0 ? uncounted : counted).push_back(rank_of(member));
        }
    }
    announcement.joined = ranges_of(counted);
    announcement.uncounted = ranges_of(uncounted);
}

/// Combines the inputs of this host's ranks, if the announcements of all of them contain the inputs. Otherwise returns
/// nothing, and the data of the operation moves in messages of its own.
CarriedBytes Leader::input_of(std::uint32_t slot, std::uint64_t generation, const Metadata& metadata) const {
    using PlaceFlags = Place<Atomics>::Flags;
    const bool may_carry =
        memory_.extent().leader_carries_inputs() && is_plausible(metadata) && bytes_of(metadata) <= most_carried_bytes_;
    const auto reduction =
        may_carry ? carried_reduction(metadata, static_cast<std::uint32_t>(group_.size)) : std::nullopt;
    if (!reduction) {
        return {};
    }
    const std::uint64_t bytes = bytes_of(metadata);
    std::array<const std::byte*, kInlineMembers> inputs{};
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const Place<Atomics>& place = memory_.place(slot, member, generation);
        inputs[member] = memory_.payload(slot, member, generation, bytes);
        if ((copy_once(place.flags) & PlaceFlags::kCarried) == 0 || copy_once(place.payload_bytes) != bytes ||
            inputs[member] == nullptr) {
            return {};
        }
    }
    CarriedBytes combined(bytes);
    std::byte* const destination = combined.data();
    ops::reduce(reduction->within, {inputs.data(), memory_.extent().members}, {&destination, 1},
                bytes / size_of(reduction->within.dtype));
    return combined;
}

HostRows Leader::rows_of(std::uint32_t slot, std::uint64_t generation) const {
    HostRows rows{static_cast<std::uint32_t>(group_.host_index), {}};
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        rows.rows.push_back(copy_once(memory_.place(slot, member, generation).first_dimension));
    }
    return rows;
}

void Leader::retired(std::uint32_t slot) {
    if (std::uint64_t& id = id_of_slot_[slot]; id != 0) {
        node_.release(id);
        slot_of_id_.erase(id);
        id = 0;
    }
}

void Leader::shutting_down(std::uint32_t member) { node_.shut_down(rank_of(member)); }

void Leader::closed() { node_.close(); }

void Leader::settled() {
    // This host has settled when all its ranks have joined and none of them has a pending operation. `node_` must learn
    // of the join before it learns that this host has settled. Therefore say_joined() is called first. The value of
    // `last_joined` is stored already, because the member that joined last stored it before it posted its request.
    say_joined();
    node_.settle();
}

/// Reports that all ranks of this host have joined. From now on, the tree asks this host to announce tensors.
void Leader::say_joined() {
    const std::uint32_t last = memory_.header().last_joined.load(std::memory_order_seq_cst);
    if (said_joined_ || last == 0 || last > memory_.extent().members) {
        return;
    }
    said_joined_ = true;
    node_.join(rank_of(last - 1));
}

bool Leader::is_seen_first(std::uint32_t slot) const {
    return memory_.record(slot).state == static_cast<std::uint32_t>(SlotState::first_sight);
}

/// Stores a decision's metadata in the slot's record. If no rank of this host has announced the operation itself, this
/// host's ranks know the metadata only from there.
Status Leader::learn_meaning(const Decision& decision, std::uint32_t slot, bool& changed) {
    SlotRecord& record = memory_.record(slot);
    const bool known = slot >= memory_.extent().unnamed_slots && !is_seen_first(slot);
    if (!decision.metadata) {
        return known ? Status()
                     : failure(ErrorCode::internal, "the root calls tensor '{}' without its metadata", decision.name);
    }
    changed = known && !agree(record.metadata, *decision.metadata);
    record.metadata = *decision.metadata;
    return {};
}

/// Appends an entry to the log that asks this host's ranks to announce an operation. All earlier decisions come before
/// this entry in the log, so all ranks identify the same operation.
void Leader::ask_for(const Decision& wanted) {
    std::uint32_t slot = kNoSlot;
    std::span<const std::byte> text = std::as_bytes(std::span(wanted.name));
    if (wanted.call) {
        slot = static_cast<std::uint32_t>(*wanted.call % memory_.extent().unnamed_slots);
        text = std::as_bytes(std::span(&*wanted.call, 1));
    }
    const std::uint32_t attachment = attach(text);
    attached_until(attachment, registrar_.append_wanted(slot, attachment));
}

/// Handles the messages of a neighbour that have arrived. If the transport says whether it has read further messages,
/// this function asks it, because that needs no system call. A message that arrives later is left to the next turn.
Status Leader::receive(Neighbour& neighbour, std::int64_t now, Moved& moved) {
    const collectives::Wakeups* const wakeups = transport_.wakeups();
    do {
        const Result<std::optional<std::size_t>> received = transport_.test(neighbour.receiving);
        if (!received.is_ok()) {
            return lose(neighbour, received.status(), now);
        }
        if (!received.value()) {
            return {};
        }
        neighbour.heard_ns = now;
        const Result<TreeMessage> message = parse(neighbour.room, *received.value());
        RUEDA_RETURN_IF_FAILED(message.status());
        moved.anything = moved.anything || !std::holds_alternative<HeartbeatMessage>(message.value());
        RUEDA_RETURN_IF_FAILED(node_.receive(neighbour.host, message.value()));
        Result<Transport::Ticket> receiving =
            transport_.receive(neighbour.rank, Transport::Channel::control, neighbour.room);
        RUEDA_RETURN_IF_FAILED(receiving.status());
        neighbour.receiving = receiving.value();
    } while (wakeups == nullptr || wakeups->has_arrived());
    return {};
}

/// Handles the end of the connection to a neighbour. The kernel of the other host reports this end at once. But only
/// the second rank of that host or the launcher can say how the other leader ended, and their message takes a little
/// longer to arrive. So this leader waits for the message. A leader that sleeps checks again after at most 0.2 s if an
/// operation is pending, and after 0.5 s otherwise.
Status Leader::lose(Neighbour& neighbour, const Status& failure, std::int64_t now) {
    constexpr std::int64_t kPatienceNs = 500'000'000;
    if (neighbour.lost_ns == 0) {
        neighbour.lost_ns = now;
    }
    RUEDA_RETURN_IF_FAILED(hear_deputy(neighbour));
    return now - neighbour.lost_ns < kPatienceNs ? Status() : failure;
}

/// Parses a message. An AbortMessage becomes a failure with the message's code and text.
Result<TreeMessage> Leader::parse(std::span<const std::byte> room, std::size_t bytes) const {
    Result<TreeMessage> message = parse_tree_message(room.first(bytes), static_cast<std::uint32_t>(group_.size),
                                                     static_cast<std::uint32_t>(group_.host_count));
    RUEDA_RETURN_IF_FAILED(message.status());
    if (const auto* abort = std::get_if<AbortMessage>(&message.value())) {
        return Status(static_cast<ErrorCode>(abort->code), abort->text);
    }
    return message;
}

Status Leader::send(Neighbour& neighbour, std::int64_t now, Moved& moved) {
    if (neighbour.sending) {
        const Result<std::optional<std::size_t>> sent = transport_.test(*neighbour.sending);
        RUEDA_RETURN_IF_FAILED(sent.status());
        if (!sent.value()) {
            return {};
        }
        neighbour.sending.reset();
    }
    std::optional<TreeMessage> message = node_.next_message(neighbour.host);
    // A heartbeat that is almost due is sent now. A sleeping leader wakes up once per heartbeat interval, and the clock
    // of a turn may be a few milliseconds late. Without this, the heartbeat might be sent a whole interval later.
    if (!message && now - neighbour.sent_ns >= heartbeat_ns_ - heartbeat_ns_ / 8 && !closed_) {
        message = HeartbeatMessage();
    } else if (message) {
        moved.anything = true;
    }
    if (!message) {
        return {};
    }
    neighbour.message = encode(*message);
    neighbour.sent_ns = now;
    Result<Transport::Ticket> sending = transport_.send(neighbour.rank, Transport::Channel::control, neighbour.message);
    RUEDA_RETURN_IF_FAILED(sending.status());
    neighbour.sending = sending.value();
    return {};
}

Status Leader::check_life(const Neighbour& neighbour, std::int64_t now) const {
    if (closed_ || now - neighbour.heard_ns < timeout_ns_) {
        return {};
    }
    return failure(ErrorCode::aborted,
                   "{} has not answered for {:.1f} s: it was cut off from {}, or has ended or stopped",
                   describe(neighbour.host), static_cast<double>(now - neighbour.heard_ns) / 1e9,
                   group_.host_names[static_cast<std::size_t>(group_.host_index)]);
}

/// Describes a host, for example "host b (ranks 2-3)".
std::string Leader::describe(std::uint32_t host) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < group_.size; ++rank) {
        if (group_.host_of[static_cast<std::size_t>(rank)] == static_cast<int>(host)) {
            ranks.push_back(group_.job_rank(rank));
        }
    }
    return fmt::format("host {} ({})", group_.host_names[host], base::format_ranks(ranks));
}

void Leader::end(const Status& reason) noexcept {
    if (ended_) {
        return;
    }
    ended_ = true;
    left_.store(true, std::memory_order_release);
    if (started_) {
        tell_neighbours(transport_, group_, Transport::Channel::control, reason);
        keep_memory();
    }
    transport_.abandon();
}

Status Leader::take_back_receives() {
    if (!started_ || ended_) {
        return {};
    }
    ended_ = true;
    bool in_use = false;
    for (Neighbour& neighbour : *neighbours_) {
        const Result<bool> cancelled = transport_.cancel(neighbour.receiving);
        RUEDA_RETURN_IF_FAILED(cancelled.status());
        in_use = in_use || !cancelled.value() || neighbour.sending;
        if (neighbour.deputy) {
            const Result<bool> unheard = transport_.cancel(neighbour.hearing_deputy);
            RUEDA_RETURN_IF_FAILED(unheard.status());
            in_use = in_use || !unheard.value();
        }
    }
    if (in_use) {
        collectives::keep_for_good(neighbours_);
    }
    return inquiry_->leave();
}

Status Leader::inquire(std::int64_t now, Moved& moved) {
    constexpr std::int64_t kInterval = 50'000'000;
    if (now < next_inquiry_ns_) {
        return {};
    }
    next_inquiry_ns_ = now + kInterval;
    for (const Neighbour& neighbour : *neighbours_) {
        RUEDA_RETURN_IF_FAILED(hear_deputy(neighbour));
        if (neighbour.lost_ns != 0) {
            return {};  // a neighbour is lost: this leader cannot answer inquiries any more, and lose() ends the job
        }
    }
    Result<std::optional<StallMonitor::Finding>> finding = inquiry_->turn(
        now, {[this](std::int64_t at) { return longest_wait(at); }, [this](std::int64_t at) { return account(at); },
              [this](std::span<const std::int32_t> ranks, std::int64_t at) { return stacks_of(ranks, at); }});
    if (!finding.is_ok()) {
        // The connection to a neighbour may have ended since this turn called receive(), which then calls lose().
        bool is_lost = false;
        for (Neighbour& neighbour : *neighbours_) {
            RUEDA_RETURN_IF_FAILED(receive(neighbour, now, moved));
            is_lost = is_lost || neighbour.lost_ns != 0;
        }
        return is_lost ? Status() : finding.status();
    }
    const std::lock_guard lock(finding_mutex_);
    if (finding.value() && finding.value()->shut_down) {
        ends_job_for_ = Status(ErrorCode::aborted, finding.value()->text);
        ends_job_ns_ = now;
        finding_ = StallMonitor::Finding{
            finding.value()->report_before, false, {}, finding.value()->report, finding.value()->ends_job};
    } else if (finding.value()) {
        finding_ = std::move(finding).value();
    }
    // The job ends only after the background thread has taken the report, because after the end of the job that thread
    // writes no reports. It looks for reports once per liveness interval. If the background thread is stopped,
    // report_limit_ns_ limits the wait.
    const bool is_said = !finding_ || now - ends_job_ns_ > report_limit_ns_;
    return ends_job_for_ && is_said ? *ends_job_for_ : Status();
}

/// Receives the AbortMessage of a neighbouring host's second rank. That rank reports the end of the job too, because
/// its leader may have died.
Status Leader::hear_deputy(const Neighbour& neighbour) {
    if (!neighbour.deputy) {
        return {};
    }
    const Result<std::optional<std::size_t>> heard = transport_.test(neighbour.hearing_deputy);
    RUEDA_RETURN_IF_FAILED(heard.status());
    if (!heard.value()) {
        return {};
    }
    RUEDA_RETURN_IF_FAILED(parse(neighbour.deputy_room, *heard.value()).status());
    return failure(ErrorCode::internal, "rank {} sent something other than an end reason", *neighbour.deputy);
}

double Leader::longest_wait(std::int64_t now) const {
    double longest = stall_monitor_->longest_wait(now);
    for (const auto& [slot, awaited] : awaited_) {
        longest = std::max(longest, static_cast<double>(now - awaited.since_ns) / 1e9);
    }
    return longest;
}

/// Describes this host for a stall report. It lists the tensors that only some ranks have announced, and the tensors
/// that all ranks have announced but the root has not decided on.
HostAccount Leader::account(std::int64_t now) const {
    StallReport known = stall_monitor_->account(now);
    HostAccount account{static_cast<std::uint32_t>(group_.host_index), std::move(known.tensors), false,
                        std::move(known.missing_ranks)};
    for (StallReport::Tensor& tensor : account.tensors) {
        tensor.missing.clear();
    }
    for (const auto& [slot, awaited] : awaited_) {
        StallReport::Tensor tensor{
            awaited.name, awaited.call, static_cast<double>(now - awaited.since_ns) / 1e9, {}, {}};
        for (StallReport::Rank& rank : account.ranks) {
            rank.waits_in.push_back(tensor);
            for (const SiteOfRanks& site : awaited.sites) {
                if (std::find(site.ranks.begin(), site.ranks.end(), rank.rank) != site.ranks.end()) {
                    add_site(rank.waits_in.back().sites, site.site, rank.rank);
                }
            }
        }
        tensor.sites = awaited.sites;
        for (const int rank : group_.members) {
            tensor.ready.push_back(group_.job_rank(rank));
        }
        account.tensors.push_back(std::move(tensor));
    }
    const auto is_older = [](const StallReport::Tensor& a, const StallReport::Tensor& b) {
        return a.seconds > b.seconds;
    };
    std::stable_sort(account.tensors.begin(), account.tensors.end(), is_older);
    for (StallReport::Rank& rank : account.ranks) {
        std::stable_sort(rank.waits_in.begin(), rank.waits_in.end(), is_older);
    }
    return account;
}

std::optional<std::vector<StallReport::Rank>> Leader::stacks_of(std::span<const std::int32_t> ranks, std::int64_t now) {
    std::vector<StallReport::Rank> stacks;
    for (const std::int32_t rank : ranks) {
        stacks.emplace_back().rank = rank;
    }
    return stall_monitor_->add_stacks(stacks, now) ? std::optional(std::move(stacks)) : std::nullopt;
}

std::optional<StallMonitor::Finding> Leader::take_finding() {
    const std::lock_guard lock(finding_mutex_);
    return std::exchange(finding_, std::nullopt);
}

/// Carries out the decisions that this host has not carried out yet. Returns whether there were any.
Result<bool> Leader::decide(Moved& moved) {
    std::unique_lock lock(enqueue_mutex_, std::defer_lock);
    while (!closed_ && attachment_is_free()) {
        const std::optional<Decision> decision = node_.next_decision();
        if (!decision) {
            break;
        }
        if (!lock.owns_lock()) {
            lock.lock();
        }
        RUEDA_RETURN_IF_FAILED(apply(*decision, moved));
        moved.anything = true;
    }
    return lock.owns_lock();
}

Status Leader::apply(const Decision& decision, Moved& moved) {
    switch (decision.kind) {
        case DecisionKind::call:
            return apply_call(decision, moved);
        case DecisionKind::disagreed:
            moved.log = true;
            return apply_refusal(decision, EntryKind::disagreed, ErrorCode::mismatch);
        case DecisionKind::impossible:
            moved.log = true;
            return apply_refusal(decision, EntryKind::disagreed, decision.code);
        case DecisionKind::lacks_joined:
            moved.log = true;
            return apply_refusal(decision, EntryKind::lacks_joined, ErrorCode::invalid_argument);
        case DecisionKind::wanted:
            ask_for(decision);
            break;
        case DecisionKind::all_joined:
            said_joined_ = false;
            registrar_.end_joins(static_cast<std::uint32_t>(decision.rank));
            break;
        case DecisionKind::closing:
            registrar_.close_to_calls(group_.job_rank(decision.rank));
            awaited_.clear();
            slot_by_name_.clear();
            break;
        case DecisionKind::closed:
            registrar_.close();
            closed_ = true;
            break;
        case DecisionKind::forget:
        case DecisionKind::offered:  // the node never returns an offer as a decision
            return {};
    }
    moved.log = true;
    return {};
}

/// Finds the slot that a decision is about. Fails if no tensor waits for a decision in that slot.
Result<Leader::Called> Leader::take_awaited(const Decision& decision) {
    std::uint32_t slot = kNoSlot;
    if (decision.call) {
        slot = static_cast<std::uint32_t>(*decision.call % memory_.extent().unnamed_slots);
    } else if (const auto by_name = slot_by_name_.find(decision.name); by_name != slot_by_name_.end()) {
        slot = by_name->second;
        slot_by_name_.erase(by_name);
    } else if (const auto by_id = slot_of_id_.find(decision.id); by_id != slot_of_id_.end()) {
        slot = by_id->second;
    }
    const auto awaited = awaited_.find(slot);
    if (awaited == awaited_.end()) {
        return failure(ErrorCode::internal, "the root decided on tensor '{}' (id {}), which {} has not announced",
                       decision.name, decision.id, describe(static_cast<std::uint32_t>(group_.host_index)));
    }
    const Called called{slot, awaited->second.changed, awaited->second.nobody_here};
    awaited_.erase(awaited);
    return called;
}

Status Leader::apply_call(const Decision& decision, Moved& moved) {
    const Result<Called> awaited = take_awaited(decision);
    RUEDA_RETURN_IF_FAILED(awaited.status());
    const std::uint32_t slot = awaited.value().slot;
    if (decision.id != 0) {
        id_of_slot_[slot] = decision.id;
        slot_of_id_[decision.id] = slot;
    }
    Registrar<Atomics>::Call call{slot, awaited.value().changed, 0, decision.uncounted};
    if (awaited.value().nobody_here) {
        RUEDA_RETURN_IF_FAILED(learn_meaning(decision, slot, call.changed));
    }
    if (!decision.rows.empty()) {
        call.attachment = attach(std::as_bytes(std::span(decision.rows)));
    }
    if (!decision.result.empty()) {
        const std::uint64_t expected = bytes_of(copy_once(memory_.record(slot).metadata));
        if (decision.result.size() != expected || expected > memory_.extent().attachment_bytes) {
            return failure(ErrorCode::internal,
                           "the root sent a result of {} bytes for tensor '{}', which has {} bytes",
                           decision.result.size(), decision.name, expected);
        }
        call.attachment = attach_result(decision.result);
    }
    batch_.push_back(call);
    if (!decision.ends_batch) {
        return {};
    }
    const std::uint64_t end = registrar_.append_calls(batch_);
    for (const auto& called : batch_) {
        attached_until(called.attachment, end);
    }
    batch_.clear();
    if (group_.host_index == 0) {
        batch_ends_.push_back(end);
    }
    moved.log = true;
    return {};
}

Status Leader::apply_refusal(const Decision& decision, EntryKind kind, ErrorCode code) {
    const Result<Called> awaited = take_awaited(decision);
    RUEDA_RETURN_IF_FAILED(awaited.status());
    // An attachment is data that a log entry refers to. This attachment holds the text, a zero byte, and the number of
    // members of each group of tensors that ranks announced under this name. The numbers are needed because the tensors
    // of these groups must fail too.
    const std::size_t room = memory_.extent().attachment_bytes - 1;
    const std::size_t numbers = std::min(decision.rows.size(), room / sizeof(std::int64_t)) * sizeof(std::int64_t);
    const std::string_view text = std::string_view(decision.text).substr(0, room - numbers);
    std::vector<std::byte> bytes(text.size() + 1 + numbers);
    std::memcpy(bytes.data(), text.data(), text.size());
    if (numbers > 0) {
        std::memcpy(bytes.data() + text.size() + 1, decision.rows.data(), numbers);
    }
    const std::uint32_t attachment = attach(bytes);
    attached_until(attachment, registrar_.append_refusal(kind, awaited.value().slot, attachment, code));
    return {};
}

/// Whether the next attachment (data that a log entry refers to) can be written. It can be written when all ranks of
/// this host have read its previous content.
bool Leader::attachment_is_free() const {
    const std::uint64_t read_before = attachments_[next_attachment_ % attachments_.size()];
    return read_before == 0 || read_before <= registrar_.all_have_read();
}

/// Writes an attachment and returns its number for a log entry. The rest of the attachment is filled with zeros, so a
/// text ends with a zero byte.
std::uint32_t Leader::attach(std::span<const std::byte> bytes) {
    const std::uint32_t attachment = attach_result(bytes);
    std::memset(memory_.attachment(attachment - 1) + bytes.size(), 0, memory_.extent().attachment_bytes - bytes.size());
    return attachment;
}

/// Like attach(), but leaves the rest of the attachment as it is: the ranks know the length of a result.
std::uint32_t Leader::attach_result(std::span<const std::byte> bytes) {
    const auto number = static_cast<std::uint32_t>(next_attachment_++ % attachments_.size());
    std::copy(bytes.begin(), bytes.end(), memory_.attachment(number));
    return number + 1;
}

void Leader::attached_until(std::uint32_t attachment, std::uint64_t position) {
    if (attachment != 0) {
        attachments_[attachment - 1] = position;
    }
}

/// Only on the root: reports to the node how many batches this host has executed. The root needs this number because it
/// decides only a few batches in advance of their execution. It looks only at its own host to see how far the execution
/// is.
void Leader::count_executed() {
    const std::uint64_t before = executed_;
    const std::uint64_t position = memory_.cursor(0).position.load(std::memory_order_relaxed);
    for (; !batch_ends_.empty() && batch_ends_.front() <= position; batch_ends_.pop_front()) {
        ++executed_;
    }
    if (executed_ > before) {
        node_.executed(executed_);
    }
}

}  // namespace rueda::core
