// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/messenger.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "core/messages/host_link.hpp"

#if defined(__SANITIZE_THREAD__)
#define RUEDA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUEDA_THREAD_SANITIZER 1
#endif
#endif

namespace rueda::core {
namespace {

/// Messages up to this size go whole, before anybody has asked for them: a copy more on the receiver where no receive
/// waits, and two crossings less. As large as what travels with an announcement in sets of more than two ranks.
constexpr std::uint64_t kWholeBytes = 8 * 1024;
/// Of whole messages that one rank may have to keep for another. What comes after is offered.
constexpr std::uint64_t kMostUnanswered = 256 * 1024;
/// What a kept message takes beside its bytes, about.
constexpr std::uint64_t kLeastCharge = 128;

/// Of one step and peer: some tens of µs.
constexpr int kFramesPerStep = 64;
constexpr std::uint64_t kBytesPerStep = 256 * 1024;

/// Between two looks for messages of other hosts while this rank waits for none: a sender there may wait to be let go.
constexpr std::int64_t kProbeNs = 5'000'000;
/// A rank of another host that has not sent for so long is asked to tell when it shuts down.
constexpr std::int64_t kQuestionNs = 500'000'000;
/// As ProcessSet: what has left for us may still lie in MPI.
constexpr std::int64_t kSendingNs = 1'000'000'000;

std::span<const std::byte> bytes_of(const std::byte* memory, std::uint64_t offset, std::uint64_t bytes) {
    return bytes == 0 ? std::span<const std::byte>() : std::span<const std::byte>(memory + offset, bytes);
}

MessageArrival arrival_of(int sender, const Frame& frame) {
    MessageArrival arrival;
    arrival.sender = sender;
    arrival.tag = frame.tag;
    arrival.set = frame.set;
    arrival.dtype = static_cast<DType>(frame.dtype);
    arrival.id = frame.id;
    arrival.bytes = frame.bytes;
    arrival.is_whole = static_cast<FrameKind>(frame.kind) == FrameKind::whole;
    arrival.is_resident = (frame.flags & Frame::kResident) != 0;
    arrival.place = frame.place;
    return arrival;
}

}  // namespace

Messenger::Messenger(const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
                     collectives::Transport* transport, std::atomic<std::uint32_t>& pending, base::Logger logger)
    : group_(group),
      arena_(std::move(arena)),
      region_(arena_->message_region()),
      door_(region_.door(arena_->rank())),
      transport_(transport),
      pending_(pending),
      logger_(std::move(logger)) {}

Messenger::~Messenger() = default;

// ---- by any thread --------------------------------------------------------------------------------------------------

Status Messenger::submit(MessageRequest request, Completion& completion) {
    MessageOperation* operation = nullptr;
    const std::lock_guard lock(submit_mutex_);
    if (refuses_) {
        return {refuses_->code(), fmt::format("{}: {}", request.describe(), refuses_->message())};
    }
    if (submitted_.size() == submitted_.capacity()) {
        submitted_.reserve(2 * submitted_.size() + 1);  // before anything is pending
    }
    {
        const std::lock_guard listing(operations_mutex_);
        operations_.push_back({std::move(request), &completion, base::monotonic_ns(), ++calls_, false, {}, {}});
        operations_.back().place = std::prev(operations_.end());
        operation = &operations_.back();
    }
    pending_.fetch_add(1, std::memory_order_seq_cst);
    submitted_.push_back(operation);
    has_submitted_.store(true, std::memory_order_seq_cst);  // partner: begin_submitted(), and looks before a sleep
    return {};
}

bool Messenger::probe_is_due() const {
    return base::coarse_monotonic_ns() >= next_probe_ns_.load(std::memory_order_relaxed);
}

bool Messenger::has_to_poll() const {
    return transport_ != nullptr && (polls_.load(std::memory_order_relaxed) ||
                                     base::coarse_monotonic_ns() < polls_until_ns_.load(std::memory_order_relaxed));
}

void Messenger::for_each_pending(const std::function<void(const MessageOperation&)>& look) const {
    const std::lock_guard lock(operations_mutex_);
    for (const MessageOperation& operation : operations_) {
        look(operation);
    }
}

// ---- a step ---------------------------------------------------------------------------------------------------------

Result<Messenger::Step> Messenger::step(bool somebody_waits, bool asks_others) {
    Step step;
    step.moved = begin_submitted();
    if (asks_others && transport_ != nullptr) {
        RUEDA_RETURN_IF_FAILED(hear_network(step.moved));
    }
    RUEDA_RETURN_IF_FAILED(hear_knocks());
    RUEDA_RETURN_IF_FAILED(hear_departures());
    for (std::size_t i = 0; i < busy_.size(); ++i) {  // it may grow
        RUEDA_RETURN_IF_FAILED(receive_from(*busy_[i], step.moved));
        step.moved = read_resident(*busy_[i]) || step.moved;
    }
    if (somebody_waits && matching_.has_untold()) {
        tell_senders_to_go_on();
    }
    std::vector<MessagePeer*> busy;
    busy.swap(busy_);
    for (MessagePeer* peer : busy) {
        peer->is_busy = false;
        RUEDA_RETURN_IF_FAILED(send_to(*peer, step.moved));
        if (peer->has_unread || !peer->readings.empty() || (peer->is_leaving && !peer->is_gone)) {
            make_busy(*peer);
        }
    }
    say_gone_when_all_is_said();
    step.has_to_poll = remote_waits_ > 0;
    for (const auto& [rank, peer] : peers_) {
        const bool is_remote = peer->network != nullptr;
        step.has_to_poll = step.has_to_poll || (is_remote && (peer->has_output() || peer->link->has_to_poll()));
        step.is_transferring = step.is_transferring || peer->is_transferring();
    }
    polls_.store(step.has_to_poll, std::memory_order_relaxed);
    has_more_.store(!busy_.empty(), std::memory_order_relaxed);
    // What was kept while nobody here was blocked is told to its sender as soon as somebody is.
    active_.store(oldest() != nullptr || step.has_to_poll || !busy_.empty() || matching_.has_untold() ||
                      (has_shut_down_ && !has_said_gone_),
                  std::memory_order_relaxed);
    return step;
}

Result<MessagePeer*> Messenger::peer_of(int rank) {
    const auto found = peers_.find(rank);
    if (found != peers_.end()) {
        return found->second.get();
    }
    auto peer = std::make_unique<MessagePeer>();
    peer->rank = rank;
    if (is_local(rank)) {
        const auto member = std::lower_bound(group_.members.begin(), group_.members.end(), rank);
        auto link = HostLink::open(arena_, static_cast<std::uint32_t>(member - group_.members.begin()));
        RUEDA_RETURN_IF_FAILED(link.status());
        peer->link = std::move(link).value();
    } else {
        auto link = std::make_unique<NetworkLink>(*transport_, rank);
        peer->network = link.get();
        peer->link = std::move(link);
        remote_.push_back(peer.get());
    }
    return peers_.emplace(rank, std::move(peer)).first->second.get();
}

void Messenger::make_busy(MessagePeer& peer) {
    if (!std::exchange(peer.is_busy, true)) {
        busy_.push_back(&peer);
    }
}

void Messenger::reply(MessagePeer& peer, FrameKind kind, std::uint64_t id) {
    Frame frame;
    frame.kind = static_cast<std::uint32_t>(kind);
    frame.id = id;
    peer.replies.push_back(frame);
    make_busy(peer);
}

// ---- what this rank's callers have asked for ------------------------------------------------------------------------

bool Messenger::begin_submitted() {
    if (!has_submitted_.load(std::memory_order_seq_cst)) {
        return false;
    }
    std::vector<MessageOperation*> submitted;
    {
        const std::lock_guard lock(submit_mutex_);
        has_submitted_.store(false, std::memory_order_seq_cst);
        submitted.swap(submitted_);
    }
    for (MessageOperation* operation : submitted) {
        begin(*operation);
    }
    return true;
}

void Messenger::begin(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    operation.is_remote = has_part_elsewhere(request);
    remote_waits_ += operation.is_remote ? 1 : 0;
    if (forgotten_.contains(request.set->id)) {
        complete(operation, failure(ErrorCode::invalid_argument, "{} has been removed", request.set->describe()));
    } else if (request.sends) {
        begin_send(operation);
    } else {
        begin_receive(operation);
    }
}

bool Messenger::has_part_elsewhere(const MessageRequest& request) const {
    if (!request.is_from_anybody()) {
        return !is_local(request.peer);
    }
    return std::any_of(request.set->ranks.begin(), request.set->ranks.end(),
                       [this](int rank) { return !is_local(rank); });
}

void Messenger::begin_send(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    const Result<MessagePeer*> found = peer_of(request.peer);
    if (!found.is_ok()) {
        complete(operation, found.status());
        return;
    }
    MessagePeer& peer = *found.value();
    if (peer.is_gone) {
        complete(operation, gone_status(request));
        return;
    }
    const std::uint64_t id = ++peer.last_id;
    SendingMessage& message = peer.sending[id];
    message.operation = &operation;
    message.set = request.set;
    message.tag = request.tag;
    message.dtype = request.dtype;
    message.bytes = request.bytes;
    peer.unsent.push_back(id);
    make_busy(peer);
}

void Messenger::begin_receive(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    if (std::optional<MessageArrival> arrival = matching_.arrival_for(request)) {
        take(operation, std::move(*arrival));
        return;
    }
    if (!request.is_from_anybody()) {
        const Result<MessagePeer*> peer = peer_of(request.peer);
        if (!peer.is_ok() || peer.value()->is_gone) {
            complete(operation, peer.is_ok() ? gone_status(request) : peer.status());
            return;
        }
    } else if (all_others_are_gone(request)) {
        complete(operation, gone_status(request));
        return;
    }
    matching_.post(operation);
}

/// A receive meets a message that has come before it.
void Messenger::take(MessageOperation& receive, MessageArrival arrival) {
    give(receive, arrival.sender, arrival, arrival.payload.get());
}

/// `payload`: of a whole message.
void Messenger::give(MessageOperation& receive, int sender, const MessageArrival& arrival, const std::byte* payload) {
    MessagePeer& peer = known(sender);
    const MessageRequest& request = receive.request;
    if (arrival.dtype != request.dtype || arrival.bytes != request.bytes) {
        reply(peer, FrameKind::refused, arrival.id);
        peer.replies.back().dtype = static_cast<std::uint32_t>(request.dtype);
        peer.replies.back().bytes = request.bytes;
        const MessageMismatch mismatch{sender,        group_.rank,   arrival.tag,  arrival.dtype,
                                       arrival.bytes, request.dtype, request.bytes};
        complete(receive, mismatch.status(*request.set), sender);
        return;
    }
    if (!arrival.is_whole) {
        ask_for(receive, peer, arrival);
        return;
    }
    if (arrival.bytes > 0) {
        std::memcpy(request.memory, payload, arrival.bytes);
    }
    reply(peer, FrameKind::taken, arrival.id);
    complete(receive, {}, sender);
}

void Messenger::ask_for(MessageOperation& receive, MessagePeer& sender, const MessageArrival& arrival) {
    ReceivingMessage& message = sender.receiving[arrival.id];
    message.operation = &receive;
    message.bytes = arrival.bytes;
    message.is_lent = arrival.is_resident;
    message.source = arrival.is_resident ? sender.link->resident(arrival.place, arrival.bytes) : nullptr;
    if (message.source != nullptr) {
        sender.readings.push_back(arrival.id);
        make_busy(sender);
    } else {
        reply(sender, FrameKind::asked, arrival.id);
    }
}

// ---- what comes -----------------------------------------------------------------------------------------------------

Status Messenger::hear_network(bool& moved) {
    if (remote_waits_ == 0 && !polls_.load(std::memory_order_relaxed) && !probe_is_due()) {
        return {};
    }
    next_probe_ns_.store(base::coarse_monotonic_ns() + kProbeNs, std::memory_order_relaxed);
    if (remote_waits_ > 0) {
        ask_for_departures();
    }
    for (int i = 0; i < kFramesPerStep; ++i) {
        const auto arrival = transport_->probe();
        RUEDA_RETURN_IF_FAILED(arrival.status());
        if (!arrival.value()) {
            break;
        }
        const auto [rank, bytes] = *arrival.value();
        if (rank < 0 || rank >= group_.size || is_local(rank)) {
            return failure(ErrorCode::internal, "a message of another host is said to come from rank {}", rank);
        }
        const Result<MessagePeer*> peer = peer_of(rank);
        RUEDA_RETURN_IF_FAILED(peer.status());
        RUEDA_RETURN_IF_FAILED(peer.value()->network->take(bytes));
        moved = true;
    }
    for (MessagePeer* peer : remote_) {
        if (peer->has_output() || peer->link->has_to_poll()) {
            make_busy(*peer);
        }
    }
    return {};
}

Status Messenger::hear_knocks() {
    if (!door_.step.anybody()) {
        return {};
    }
    const std::uint64_t knocks = door_.step.take();
    for (std::size_t member = 0; member < group_.members.size(); ++member) {
        if ((knocks >> member & 1) != 0) {
            const Result<MessagePeer*> peer = peer_of(group_.members[member]);
            RUEDA_RETURN_IF_FAILED(peer.status());
            make_busy(*peer.value());
        }
    }
    return {};
}

/// Ranks of this host that have shut down since the last look.
Status Messenger::hear_departures() {
    // Partner: say_gone_when_all_is_said(). seq_cst: who sleeps looks after he said so.
    const std::uint32_t departures = region_.departures().load(std::memory_order_seq_cst);
    if (departures == departures_) {
        return {};
    }
    departures_ = departures;
    for (std::size_t member = 0; member < group_.members.size(); ++member) {
        // A rank that has shut down itself waits for nobody, but for room for what it has to say.
        if (region_.door(static_cast<std::uint32_t>(member)).gone.load(std::memory_order_seq_cst) != 0 &&
            (!has_shut_down_ || peers_.contains(group_.members[member]))) {
            const Result<MessagePeer*> peer = peer_of(group_.members[member]);
            RUEDA_RETURN_IF_FAILED(peer.status());
            peer.value()->is_leaving = true;
            make_busy(*peer.value());
        }
    }
    return {};
}

/// Ranks of other hosts tell when they shut down those who have asked.
void Messenger::ask_for_departures() {
    const std::int64_t now_ns = base::monotonic_ns();
    if (now_ns < next_question_ns_) {
        return;
    }
    next_question_ns_ = now_ns + kQuestionNs;
    std::vector<int> ranks;
    for_each_pending([&](const MessageOperation& operation) {
        const MessageRequest& request = operation.request;
        if (request.sends || now_ns - operation.submitted_ns < kQuestionNs) {
            return;
        }
        if (request.is_from_anybody()) {
            ranks.insert(ranks.end(), request.set->ranks.begin(), request.set->ranks.end());
        } else {
            ranks.push_back(request.peer);
        }
    });
    for (const int rank : ranks) {
        if (!is_local(rank)) {
            ask_for_departure_of(rank);
        }
    }
}

void Messenger::ask_for_departure_of(int rank) {
    const Result<MessagePeer*> peer = peer_of(rank);
    RUEDA_ASSERT(peer.is_ok());  // a link to another host needs nothing that there may not be
    if (!std::exchange(peer.value()->was_asked, true)) {
        reply(*peer.value(), FrameKind::waiting, 0);
    }
}

Status Messenger::receive_from(MessagePeer& peer, bool& moved) {
    peer.has_unread = false;
    std::uint64_t bytes = 0;
    for (int i = 0; i < kFramesPerStep && bytes < kBytesPerStep; ++i) {
        const auto received = peer.link->front();
        RUEDA_RETURN_IF_FAILED(received.status());
        if (!received.value()) {
            // What it has lent is read to the end first: its send has not ended before it hears of that.
            return peer.is_leaving && !peer.is_gone && peer.readings.empty() ? handle_gone(peer) : Status();
        }
        moved = true;
        const auto& [frame, payload] = *received.value();
        bytes += payload.size();
        if (!is_plausible(frame, payload.size())) {
            return failure(ErrorCode::internal,
                           "rank {} sent a frame of kind {} with {} bytes behind it, about message "
                           "{} of {} bytes, which no working rank does",
                           peer.rank, frame.kind, payload.size(), frame.id, frame.bytes);
        }
        RUEDA_RETURN_IF_FAILED(handle(peer, frame, payload));
        peer.link->pop();
    }
    peer.has_unread = true;
    return {};
}

Status Messenger::handle(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload) {
    switch (static_cast<FrameKind>(frame.kind)) {
        case FrameKind::whole:
        case FrameKind::offer:
            return handle_message(peer, frame, payload);
        case FrameKind::part:
            return handle_part(peer, frame, payload);
        case FrameKind::waiting:
            peer.asks = true;
            if (has_shut_down_) {
                reply(peer, FrameKind::gone, 0);
            }
            return {};
        case FrameKind::gone:
            peer.is_leaving = true;
            return {};
        case FrameKind::withdrawn:
            return handle_withdrawal(peer, frame);
        default:
            return handle_answer(peer, frame);
    }
}

Status Messenger::handle_message(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload) {
    if (frame.id <= peer.last_heard_id) {
        return failure(ErrorCode::internal, "rank {} sent message {} after message {}", peer.rank, frame.id,
                       peer.last_heard_id);
    }
    peer.last_heard_id = frame.id;
    if (has_shut_down_) {
        if (peer.network != nullptr) {
            reply(peer, FrameKind::gone, 0);  // on one host the door says it
        }
        return {};
    }
    MessageArrival arrival = arrival_of(peer.rank, frame);
    if (forgotten_.contains(frame.set)) {  // its sender forgets it too
        if (arrival.is_resident) {
            reply(peer, FrameKind::dropped, frame.id);
        }
        return {};
    }
    if (MessageOperation* receive = matching_.receive_for(peer.rank, frame.tag, frame.set)) {
        give(*receive, peer.rank, arrival, payload.data());
        return {};
    }
    if (!payload.empty()) {
        arrival.payload = std::make_unique_for_overwrite<std::byte[]>(payload.size());
        std::memcpy(arrival.payload.get(), payload.data(), payload.size());
    }
    matching_.keep(std::move(arrival));
    return {};
}

Status Messenger::handle_part(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload) {
    const auto found = peer.receiving.find(frame.id);
    if (found == peer.receiving.end()) {
        return {};  // of a process set that was removed
    }
    ReceivingMessage& message = found->second;
    if (message.source != nullptr || payload.size() > message.bytes - message.received_bytes) {
        return failure(ErrorCode::internal, "rank {} sent {} bytes of message {} where {} of {} have come", peer.rank,
                       payload.size(), frame.id, message.received_bytes, message.bytes);
    }
    std::memcpy(message.operation->request.memory + message.received_bytes, payload.data(), payload.size());
    message.received_bytes += payload.size();
    if (message.received_bytes == message.bytes) {
        finish_receiving(peer, frame.id);
    }
    return {};
}

void Messenger::finish_receiving(MessagePeer& peer, std::uint64_t id) {
    MessageOperation& operation = *peer.receiving.at(id).operation;
    peer.receiving.erase(id);
    reply(peer, FrameKind::taken, id);
    complete(operation, {}, peer.rank);
}

/// The memory that a resident message is read from may have been its caller's again since the job's end. What was read
/// before this was read before the look: acquire fence, then load. Partner: AbortBlock::raise(), before any rank gives
/// memory back. ThreadSanitizer knows no fences.
bool Messenger::job_has_ended() const {
#if !defined(RUEDA_THREAD_SANITIZER)
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return arena_->control().abort.raised();
}

/// Of messages that lie in the peer's resident memory. True: some bytes were.
bool Messenger::read_resident(MessagePeer& peer) {
    if (peer.readings.empty()) {
        return false;
    }
    const std::uint64_t id = peer.readings.front();
    ReceivingMessage& message = peer.receiving.at(id);
    const std::uint64_t bytes = std::min(4 * kBytesPerStep, message.bytes - message.received_bytes);
    // A message to oneself may overlap with its receive.
    std::memmove(message.operation->request.memory + message.received_bytes, message.source + message.received_bytes,
                 bytes);
    message.received_bytes += bytes;
    // A rank that was stopped for longer than the others wait for it has read what nobody promises any more: fail_all()
    // ends its receive.
    if (message.received_bytes == message.bytes && !job_has_ended()) {
        peer.readings.pop_front();
        finish_receiving(peer, id);
    }
    return true;
}

/// What the receiver of a message says about it.
Status Messenger::handle_answer(MessagePeer& peer, const Frame& frame) {
    const auto found = peer.sending.find(frame.id);
    if (found == peer.sending.end()) {
        return frame.id <= peer.last_id ? Status()  // of a process set that was removed
                                        : failure(ErrorCode::internal, "rank {} answers to message {}; it was sent {}",
                                                  peer.rank, frame.id, peer.last_id);
    }
    SendingMessage& message = found->second;
    const auto kind = static_cast<FrameKind>(frame.kind);
    const bool is_lent = message.state == SendingMessage::State::lent;
    const bool is_due = kind == FrameKind::asked     ? is_lent || message.state == SendingMessage::State::offered
                        : kind == FrameKind::kept    ? message.state == SendingMessage::State::whole
                        : kind == FrameKind::dropped ? is_lent
                                                     : message.state != SendingMessage::State::unsent &&
                                                           message.state != SendingMessage::State::dropped;
    if (!is_due) {
        return failure(ErrorCode::internal, "rank {} answers with frame {} to message {}, where it cannot come",
                       peer.rank, frame.kind, frame.id);
    }
    const bool is_withdrawn = message.operation != nullptr && !message.operation->ends_with.is_ok();
    if (is_withdrawn && (kind == FrameKind::asked || kind == FrameKind::dropped)) {
        MessageOperation& operation = *message.operation;
        const Status reason = operation.ends_with;
        peer.sending.erase(found);
        complete(operation, reason);
        return {};
    }
    switch (kind) {
        case FrameKind::dropped:
            message.state = SendingMessage::State::dropped;  // until this rank hears why
            return {};
        case FrameKind::asked:
            message.state = SendingMessage::State::asked;
            peer.streams.push_back(frame.id);
            make_busy(peer);
            return {};
        case FrameKind::kept:
            if (MessageOperation* operation = std::exchange(message.operation, nullptr)) {
                complete(*operation, {});
            }
            return {};
        default:
            break;
    }
    const SendingMessage ended = std::move(message);
    peer.sending.erase(found);
    std::erase(peer.streams, frame.id);
    peer.unanswered -= std::min(ended.charge, peer.unanswered);
    if (kind == FrameKind::refused) {
        handle_refusal(peer, ended, frame);
    } else if (ended.operation != nullptr) {
        complete(*ended.operation, {});
    }
    return {};
}

void Messenger::handle_refusal(MessagePeer& peer, const SendingMessage& message, const Frame& frame) {
    const MessageMismatch mismatch{group_.rank,   peer.rank,     message.tag,
                                   message.dtype, message.bytes, static_cast<DType>(frame.dtype),
                                   frame.bytes};
    const Status status = mismatch.status(*message.set);
    if (message.operation != nullptr) {
        complete(*message.operation, status);
    } else {
        logger_.error("{} (its send had ended before: the receiver waited for something else)", status.message());
    }
}

/// The send of a resident message is to end, on a rank that shuts down or has removed its process set. One that is
/// being read is answered when that is done.
Status Messenger::handle_withdrawal(MessagePeer& peer, const Frame& frame) {
    if (frame.id > peer.last_heard_id) {
        return failure(ErrorCode::internal, "rank {} withdraws message {}; it has sent {}", peer.rank, frame.id,
                       peer.last_heard_id);
    }
    const auto receiving = peer.receiving.find(frame.id);
    bool is_lent = receiving == peer.receiving.end() || receiving->second.is_lent;
    matching_.drop_arrivals([&](const MessageArrival& kept) {
        const bool is_meant = kept.sender == peer.rank && kept.id == frame.id;
        is_lent = is_lent && (!is_meant || (kept.is_resident && !kept.is_whole));
        return is_meant;
    });
    if (!is_lent) {
        return failure(ErrorCode::internal, "rank {} withdraws message {}, which does not lie in its resident memory",
                       peer.rank, frame.id);
    }
    if (receiving == peer.receiving.end()) {
        reply(peer, FrameKind::dropped, frame.id);
    }
    return {};
}

/// All that it has written is read.
Status Messenger::handle_gone(MessagePeer& peer) {
    if (peer.network == nullptr) {
        // It waits for what is said of its resident messages; where there is no room for that, until all have shut
        // down.
        bool moved = false;
        RUEDA_RETURN_IF_FAILED(send_replies(peer, moved).status());
        peer.link->tell();
    }
    peer.is_gone = true;
    const int rank = peer.rank;
    // Whole messages stay: their bytes are here.
    matching_.drop_arrivals([rank](const MessageArrival& kept) { return kept.sender == rank && !kept.is_whole; });
    std::vector<MessageOperation*> ended;
    peer.take_out([](std::int32_t) { return true; }, ended);
    peer.clear();
    const std::vector<MessageOperation*> receives = matching_.take_receives([&](const MessageRequest& request) {
        return request.is_from_anybody() ? all_others_are_gone(request) : request.peer == rank;
    });
    ended.insert(ended.end(), receives.begin(), receives.end());
    for (MessageOperation* operation : ended) {
        const Status reason = operation->ends_with;
        complete(*operation, reason.is_ok() ? gone_status(operation->request) : reason);
    }
    return {};
}

bool Messenger::all_others_are_gone(const MessageRequest& request) const {
    return request.set->ranks.size() > 1 &&
           std::all_of(request.set->ranks.begin(), request.set->ranks.end(), [this](int rank) {
               const auto peer = peers_.find(rank);
               return rank == group_.rank || (peer != peers_.end() && peer->second->is_gone);
           });
}

Status Messenger::gone_status(const MessageRequest& request) const {
    return request.is_from_anybody()
               ? failure(ErrorCode::aborted, "{}: all other ranks have shut down", request.describe())
               : failure(ErrorCode::aborted, "{}: rank {} has shut down", request.describe(), request.peer);
}

// ---- what goes ------------------------------------------------------------------------------------------------------

Status Messenger::send_to(MessagePeer& peer, bool& moved) {
    const std::uint64_t sent_before = peer.network != nullptr ? peer.network->sent() : 0;
    if (peer.is_gone) {
        peer.replies.clear();
    }
    Result<bool> has_room = send_replies(peer, moved);
    if (has_room.is_ok() && has_room.value()) {
        has_room = send_messages(peer, moved);
    }
    if (has_room.is_ok() && has_room.value()) {
        has_room = send_parts(peer, moved);
    }
    RUEDA_RETURN_IF_FAILED(has_room.status());
    peer.link->tell();
    if (peer.network != nullptr && peer.network->sent() != sent_before) {
        polls_until_ns_.store(base::coarse_monotonic_ns() + kSendingNs, std::memory_order_relaxed);
    }
    if (has_room.value() && peer.has_output()) {
        make_busy(peer);
    }
    hold_job(peer, !peer.replies.empty());
    return {};
}

/// True: nothing is left, and there may be room for more.
Result<bool> Messenger::send_replies(MessagePeer& peer, bool& moved) {
    while (!peer.replies.empty()) {
        Result<bool> sent = peer.link->send(peer.replies.front(), {});
        if (!sent.is_ok() || !sent.value()) {
            return sent;
        }
        peer.replies.pop_front();
        moved = true;
    }
    return true;
}

Result<bool> Messenger::send_messages(MessagePeer& peer, bool& moved) {
    for (int i = 0; i < kFramesPerStep && !peer.unsent.empty(); ++i) {
        const std::uint64_t id = peer.unsent.front();
        Result<bool> sent = send_first(peer, id, peer.sending.at(id));
        if (!sent.is_ok() || !sent.value()) {
            return sent;
        }
        peer.unsent.pop_front();
        moved = true;
    }
    return true;
}

/// All of a message, or the offer of one.
Result<bool> Messenger::send_first(MessagePeer& peer, std::uint64_t id, SendingMessage& message) {
    RUEDA_ASSERT(message.operation != nullptr);
    Frame frame;
    frame.kind = static_cast<std::uint32_t>(FrameKind::offer);
    frame.tag = message.tag;
    frame.set = message.set->id;
    frame.dtype = static_cast<std::uint32_t>(message.dtype);
    frame.id = id;
    frame.bytes = message.bytes;
    const std::byte* const memory = message.operation->request.memory;
    const std::uint64_t charge = std::max(message.bytes, kLeastCharge);
    const bool is_small = message.bytes <= std::min<std::uint64_t>(kWholeBytes, peer.link->largest_payload());
    if (message.bytes == 0 || (is_small && peer.unanswered + charge <= kMostUnanswered)) {
        frame.kind = static_cast<std::uint32_t>(FrameKind::whole);
        Result<bool> sent = peer.link->send(frame, bytes_of(memory, 0, message.bytes));
        if (sent.is_ok() && sent.value()) {
            message.state = SendingMessage::State::whole;
            message.charge = charge;
            peer.unanswered += charge;
        }
        return sent;
    }
    if (const auto place = peer.network == nullptr ? arena_->resident_offset(memory, message.bytes) : std::nullopt) {
        frame.flags = Frame::kResident;
        frame.place = *place;
    }
    Result<bool> sent = peer.link->send(frame, {});
    if (sent.is_ok() && sent.value()) {
        message.state = frame.flags == Frame::kResident ? SendingMessage::State::lent : SendingMessage::State::offered;
    }
    return sent;
}

Result<bool> Messenger::send_parts(MessagePeer& peer, bool& moved) {
    std::uint64_t bytes = 0;
    while (!peer.streams.empty() && bytes < kBytesPerStep) {
        SendingMessage& message = peer.sending.at(peer.streams.front());
        Frame frame;
        frame.kind = static_cast<std::uint32_t>(FrameKind::part);
        frame.id = peer.streams.front();
        const std::uint64_t part =
            std::min<std::uint64_t>(peer.link->largest_payload(), message.bytes - message.sent_bytes);
        Result<bool> sent =
            peer.link->send(frame, bytes_of(message.operation->request.memory, message.sent_bytes, part));
        if (!sent.is_ok() || !sent.value()) {
            return sent;
        }
        peer.link->tell();  // it copies this part while the next one is written
        message.sent_bytes += part;
        bytes += part;
        moved = true;
        if (message.sent_bytes == message.bytes) {
            peer.streams.pop_front();
        }
    }
    return true;
}

/// Replies that wait for room keep the rank awake for them, also where it has nothing else pending.
void Messenger::hold_job(MessagePeer& peer, bool holds) {
    if (std::exchange(peer.holds_job, holds) != holds) {
        if (holds) {
            pending_.fetch_add(1, std::memory_order_seq_cst);
        } else {
            pending_.fetch_sub(1, std::memory_order_seq_cst);
        }
    }
}

void Messenger::tell_senders_to_go_on() {
    for (const Matching::Untold& untold : matching_.take_untold()) {
        reply(known(untold.sender), FrameKind::kept, untold.id);
    }
}

// ---- ends -----------------------------------------------------------------------------------------------------------

void Messenger::complete(MessageOperation& operation, const Status& status, int sender) {
    remote_waits_ -= operation.is_remote ? 1 : 0;
    Completion& completion = *operation.completion;
    {
        const std::lock_guard lock(operations_mutex_);
        operations_.erase(operation.place);
    }
    completion.sender = sender;
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    completion.complete_one(status);
}

/// Those of one process set, or all.
void Messenger::fail_operations(std::optional<std::int32_t> set, const Status& reason) {
    const auto is_meant = [&set](const MessageRequest& request) { return !set || request.set->id == *set; };
    std::vector<MessageOperation*> ended = matching_.take_receives(is_meant);
    matching_.drop_arrivals([&set](const MessageArrival& arrival) { return !set || arrival.set == *set; });
    for (const auto& [rank, peer] : peers_) {
        std::vector<std::uint64_t> lent;
        peer->take_out([&set](std::int32_t of) { return !set || of == *set; }, ended, &lent);
        for (const std::uint64_t id : lent) {
            withdraw(*peer, id, reason);
        }
    }
    for (MessageOperation* operation : ended) {
        complete(*operation, about(operation->request, reason));
    }
}

/// Its memory is its caller's again when the receiver has said that it does not read it. Who waits for the send is
/// woken by that frame; should the receiver die, by the end of the job.
void Messenger::withdraw(MessagePeer& peer, std::uint64_t id, const Status& reason) {
    MessageOperation& operation = *peer.sending.at(id).operation;
    if (operation.ends_with.is_ok()) {
        operation.ends_with = about(operation.request, reason);
        reply(peer, FrameKind::withdrawn, id);
    }
}

/// Of other ranks of this host: their sends end with that.
void Messenger::drop_readings_and_offers_of(std::int32_t set) {
    for (const auto& [rank, peer] : peers_) {
        for (const std::uint64_t id : peer->readings_of(set)) {
            reply(*peer, FrameKind::dropped, id);
        }
    }
    matching_.drop_arrivals([&](const MessageArrival& kept) {
        if (kept.set == set && kept.is_resident) {
            reply(known(kept.sender), FrameKind::dropped, kept.id);
        }
        return kept.set == set;
    });
}

Status Messenger::about(const MessageRequest& request, const Status& reason) {
    return {reason.code(), fmt::format("{}: {}", request.describe(), reason.message())};
}

void Messenger::shut_down() {
    const Status reason(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank");
    {
        const std::lock_guard lock(submit_mutex_);
        refuses_ = reason;
    }
    static_cast<void>(begin_submitted());
    has_shut_down_ = true;
    fail_operations(std::nullopt, reason);
    for (const auto& [rank, peer] : peers_) {
        if (peer->network != nullptr) {
            reply(*peer, FrameKind::gone, 0);
        }
    }
    active_.store(true, std::memory_order_relaxed);
}

/// On this host the door says that this rank is gone, once what it had to say before is in the rings.
void Messenger::say_gone_when_all_is_said() {
    if (!has_shut_down_ || has_said_gone_) {
        return;
    }
    for (const auto& [rank, peer] : peers_) {
        if (peer->network == nullptr && !peer->replies.empty()) {
            return;
        }
    }
    has_said_gone_ = true;
    // seq_cst, in this order: who sees the count sees the door. Partner: hear_departures().
    door_.gone.store(1, std::memory_order_seq_cst);
    region_.departures().fetch_add(1, std::memory_order_seq_cst);
    for (std::uint32_t member = 0; member < group_.members.size(); ++member) {
        auto& attention = arena_->blocks().of(member).attention;
        const base::AttentionState state = attention.state();
        if (member != arena_->rank() && state != base::AttentionState::awake) {
            attention.ring(state);
        }
    }
}

void Messenger::forget(std::int32_t set, const Status& reason) {
    static_cast<void>(begin_submitted());
    forgotten_.insert(set);
    drop_readings_and_offers_of(set);
    fail_operations(set, reason);
    active_.store(true, std::memory_order_relaxed);  // there may be something to say
}

MessageOperation* Messenger::oldest() {
    const std::lock_guard lock(operations_mutex_);
    return operations_.empty() ? nullptr : &operations_.front();
}

void Messenger::fail_all(const Status& reason) {
    {
        const std::lock_guard lock(submit_mutex_);
        refuses_ = reason;
        submitted_.clear();
        has_submitted_.store(false, std::memory_order_seq_cst);
    }
    static_cast<void>(matching_.take_receives([](const MessageRequest&) { return true; }));
    matching_.drop_arrivals([](const MessageArrival&) { return true; });
    busy_.clear();
    for (const auto& [rank, peer] : peers_) {
        peer->is_busy = false;
        peer->clear();
        hold_job(*peer, false);
    }
    while (MessageOperation* operation = oldest()) {
        complete(*operation, about(operation->request, reason));
    }
    remote_waits_ = 0;
    has_said_gone_ = true;
    polls_.store(false, std::memory_order_relaxed);
    polls_until_ns_.store(0, std::memory_order_relaxed);
    has_more_.store(false, std::memory_order_relaxed);
    active_.store(false, std::memory_order_relaxed);
}

}  // namespace rueda::core
