// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/ucx/ucx_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "collectives/polling_pause.hpp"
#include "collectives/ucx/ucx_tag.hpp"

namespace rueda::collectives {
namespace {

/// How long close() waits for UCX to end the connections. UCX can end them without an answer of other ranks.
constexpr std::chrono::milliseconds kDisconnecting{2000};

/// Whether the status of a failed message says that its peer has gone or cannot be reached. This includes
/// UCS_ERR_CANCELED, because UCX cancels the messages of a connection that it closes.
bool is_of_connection(ucs_status_t status) {
    constexpr std::array kOthers{UCS_ERR_CANCELED, UCS_ERR_CONNECTION_RESET, UCS_ERR_IO_ERROR,   UCS_ERR_NOT_CONNECTED,
                                 UCS_ERR_REJECTED, UCS_ERR_TIMED_OUT,        UCS_ERR_UNREACHABLE};
    return UCS_IS_LINK_ERROR(status) || UCS_IS_ENDPOINT_ERROR(status) ||
           std::find(kOthers.begin(), kOthers.end(), status) != kOthers.end();
}

}  // namespace

Result<std::unique_ptr<BulkTransport>> make_ucx_transport(int rank, int size) {
    Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::create(size);
    RUEDA_RETURN_IF_FAILED(worker.status());
    return std::unique_ptr<BulkTransport>(new UcxTransport(std::move(worker).value(), rank, size));
}

/// A wait for other ranks. The caller calls turn() in a loop. After the deadline, turn() returns a failure.
class UcxTransport::Waiting {
public:
    Waiting(UcxTransport& transport, const Wait& wait)
        : transport_(transport), wait_(wait), deadline_(Clock::now() + wait.limit) {}

    /// One step of the wait: lets UCX progress, and pauses if nothing happened. `what` and `rank` say in an error what
    /// this rank waits for. A negative `rank` is left out.
    [[nodiscard]] Status turn(const char* what, int rank = -1) {
        const bool moved = transport_.worker_->progress();
        if (transport_.takes_strays_) {
            transport_.take_strays();
        }
        if (wait_.meanwhile) {
            RUEDA_RETURN_IF_FAILED(wait_.meanwhile());
        }
        if (Clock::now() >= deadline_) {
            return failure(ErrorCode::timeout, "rank {} waited {} s for {}{} over UCX", transport_.rank_,
                           std::chrono::duration<double>(wait_.limit).count(), what,
                           rank < 0 ? "" : fmt::format(" {}", rank));
        }
        if (moved) {
            pause_ = {};
        } else {
            pause_.wait();
        }
        return {};
    }

private:
    UcxTransport& transport_;
    const Wait& wait_;
    const Clock::time_point deadline_;
    PollingPause pause_;
};

UcxTransport::UcxTransport(std::unique_ptr<UcxWorker> worker, int rank, int size, std::uint32_t first_generation)
    : worker_(std::move(worker)),
      rank_(rank),
      size_(size),
      first_generation_(first_generation),
      abandoned_(failure(ErrorCode::aborted, "the job has ended: rank {} sends and receives no more messages", rank)) {}

UcxTransport::~UcxTransport() { close(); }

Status UcxTransport::connect(std::vector<Bytes> addresses) {
    RUEDA_ASSERT(addresses.size() == static_cast<std::size_t>(size_));
    worker_->know(std::move(addresses));
    return {};
}

Result<Transport::Ticket> UcxTransport::send(int rank, Port port, std::span<const std::byte> bytes) {
    Result<std::uint32_t> place = take_place(rank, bytes.size(), /*is_send=*/true);
    RUEDA_RETURN_IF_FAILED(place.status());
    UnderWay& message = places_[place.value()];
    if (message.was_started) {
        worker_->send(rank, tag_of(port, rank_), bytes, message.request);
    }
    return ticket_of(place.value());
}

Result<Transport::Ticket> UcxTransport::receive(int rank, Port port, std::span<std::byte> room) {
    Result<std::uint32_t> place = take_place(rank, room.size(), /*is_send=*/false);
    RUEDA_RETURN_IF_FAILED(place.status());
    UnderWay& message = places_[place.value()];
    message.was_started = true;  // the receive is started even if the peer is lost, because a message from the peer may
                                 // have arrived before
    worker_->receive(tag_of(port, rank), room, message.request);
    return ticket_of(place.value());
}

Result<std::optional<std::size_t>> UcxTransport::test(Ticket ticket) {
    RUEDA_RETURN_IF_FAILED(failed_);
    const std::uint32_t place = place_of(ticket);
    if (!places_[place].request.is_done) {
        worker_->progress();
    }
    return end_of(place);
}

/// Returns the length of the message `places_[place]` if it was sent or received. If the peer is lost, the message
/// counts as in progress for kLossPatience. After this time, this function returns the error.
Result<std::optional<std::size_t>> UcxTransport::end_of(std::uint32_t place) {
    UnderWay& message = places_[place];
    const UcxRequest& request = message.request;
    if (request.is_done && request.status == UCS_OK) {
        const std::size_t bytes = message.is_send ? message.bytes : request.bytes;
        const Status checked = message.is_send ? Status() : check_received(message);
        release(place);
        return checked.is_ok() ? Result<std::optional<std::size_t>>(std::optional(bytes)) : sticky(checked);
    }
    if (request.is_done && request.status == UCS_ERR_MESSAGE_TRUNCATED) {
        return sticky(failure(ErrorCode::aborted, "rank {} sent more than the {} bytes that rank {} has room for",
                              message.rank, message.bytes, rank_));
    }
    if (request.is_done && !worker_->loss_of(message.rank)) {
        if (!is_of_connection(request.status)) {
            return sticky(failure(ErrorCode::aborted, "a message {} rank {} over UCX: {}",
                                  message.is_send ? "to" : "from", message.rank, ucs_status_string(request.status)));
        }
        worker_->note_loss(message.rank, request.status);
    }
    RUEDA_RETURN_IF_FAILED(check_loss(message.rank));
    return std::optional<std::size_t>();
}

/// Checks the length and the sender that UCX reports for a received message.
Status UcxTransport::check_received(const UnderWay& receive) const {
    const UcxRequest& request = receive.request;
    const bool is_valid =
        request.bytes <= receive.bytes && sender_of(request.tag) == static_cast<std::uint32_t>(receive.rank);
    return is_valid ? Status()
                    : failure(ErrorCode::aborted,
                              "rank {} received {} bytes from rank {}; expected at most {} bytes from rank {}", rank_,
                              request.bytes, sender_of(request.tag), receive.bytes, receive.rank);
}

/// Checks the sender and the length of a message before memory is allocated for it.
Status UcxTransport::check_arrival(const UcxArrival& arrival) const {
    const std::uint32_t sender = sender_of(arrival.tag);
    const bool is_of_other = sender < static_cast<std::uint32_t>(size_) && sender != static_cast<std::uint32_t>(rank_);
    return is_of_other && arrival.bytes <= kMostBytes
               ? Status()
               : failure(ErrorCode::aborted,
                         "UCX has a message of {} bytes from rank {} for rank {}; expected at most {} bytes, from "
                         "another of ranks 0 to {}",
                         arrival.bytes, sender, rank_, kMostBytes, size_ - 1);
}

Status UcxTransport::check_loss(int rank) {
    const auto& loss = worker_->loss_of(rank);
    return loss && Clock::now() - loss->noticed >= kLossPatience ? sticky(lost(rank)) : Status();
}

Status UcxTransport::lost(int rank) const {
    return failure(
        ErrorCode::aborted,
        "the connection of rank {} to rank {} over UCX has ended: the process has ended, or its host cannot be "
        "reached ({})",
        rank_, rank, describe_ucx_status(worker_->loss_of(rank)->status, worker_->loss_of(rank)->line));
}

Result<bool> UcxTransport::cancel(Ticket ticket) {
    RUEDA_RETURN_IF_FAILED(failed_);
    const std::uint32_t place = place_of(ticket);
    RUEDA_ASSERT(!places_[place].is_send);
    worker_->cancel(places_[place].request);
    const bool has_ended = places_[place].request.is_done;
    if (has_ended) {
        release(place);
    }
    return has_ended;
}

Result<std::optional<Transport::Arrival>> UcxTransport::probe() {
    RUEDA_RETURN_IF_FAILED(failed_);
    worker_->progress();
    const auto found = worker_->find(tag_of(Channel::messages, 0), kAnySender, /*takes=*/false);
    if (!found) {
        return std::optional<Arrival>();
    }
    if (Status status = check_arrival(*found); !status.is_ok()) {
        return sticky(std::move(status));
    }
    return std::optional(Arrival{static_cast<int>(sender_of(found->tag)), found->bytes});
}

Status UcxTransport::progress() {
    RUEDA_RETURN_IF_FAILED(failed_);
    worker_->progress();
    return {};
}

Status UcxTransport::barrier(const Wait& wait) {
    RUEDA_RETURN_IF_FAILED(failed_);
    Waiting waiting(*this, wait);
    return sticky(pass_barrier(waiting));
}

/// A dissemination barrier: in step k, rank r sends a message to rank r + 2^k, and waits for a message of rank r - 2^k
/// (both modulo the number of ranks). After log2(ranks) steps, each rank has heard from all, directly or indirectly.
Status UcxTransport::pass_barrier(Waiting& waiting) {
    for (int distance = 1; distance < size_; distance *= 2) {
        RUEDA_RETURN_IF_FAILED(exchange_with((rank_ + distance) % size_, (rank_ + size_ - distance) % size_, waiting));
    }
    return {};
}

/// Sends a byte to rank `to`, and receives a byte from rank `from`. After a failure, both messages may still be in
/// progress.
Status UcxTransport::exchange_with(int to, int from, Waiting& waiting) {
    const auto look_for_losses = [&]() -> Status {
        const int gone = worker_->loss_of(to) ? to : from;
        return worker_->loss_of(gone) ? lost(gone) : Status();
    };
    RUEDA_RETURN_IF_FAILED(worker_->reach(to));
    RUEDA_RETURN_IF_FAILED(worker_->reach(from));
    RUEDA_RETURN_IF_FAILED(look_for_losses());
    own_.sending = {};
    own_.receiving = {};
    worker_->receive(barrier_tag(from), own_.received, own_.receiving);
    worker_->send(to, barrier_tag(rank_), own_.sent, own_.sending);
    while (!own_.sending.is_done || !own_.receiving.is_done) {
        RUEDA_RETURN_IF_FAILED(waiting.turn("rank", own_.sending.is_done ? from : to));
        RUEDA_RETURN_IF_FAILED(look_for_losses());
    }
    for (auto* const request : {&own_.sending, &own_.receiving}) {
        UcxWorker::release(*request);
        if (request->status != UCS_OK) {
            return failure(ErrorCode::aborted, "rank {} cannot exchange messages with ranks {} and {} over UCX: {}",
                           rank_, to, from, ucs_status_string(request->status));
        }
    }
    return {};
}

Status UcxTransport::finish(const Wait& wait) {
    RUEDA_RETURN_IF_FAILED(failed_);
    takes_strays_ = true;
    Waiting waiting(*this, wait);
    return sticky(end_messages(waiting));
}

/// Every rank receives whatever is sent to it, so the sends of all ranks end. Each rank enters the barrier after its
/// own sends, so all sends have ended after the barrier.
Status UcxTransport::end_messages(Waiting& waiting) {
    while (!have_sends_ended()) {
        RUEDA_RETURN_IF_FAILED(waiting.turn("other ranks to receive its messages"));
    }
    RUEDA_RETURN_IF_FAILED(pass_barrier(waiting));
    worker_->flush(own_.flushing);
    while (!own_.flushing.is_done) {
        RUEDA_RETURN_IF_FAILED(waiting.turn("UCX to send its last messages"));
    }
    UcxWorker::release(own_.flushing);
    return {};
}

bool UcxTransport::have_sends_ended() const {
    return std::all_of(places_.begin(), places_.end(), [&](const UnderWay& one) {
        return one.is_free || !one.is_send || one.request.is_done || worker_->loss_of(one.rank);
    });
}

/// Receives and drops messages for which no receive was started.
void UcxTransport::take_strays() {
    strays_.remove_if([](Stray& stray) {
        if (stray.request.is_done) {
            UcxWorker::release(stray.request);
        }
        return stray.request.is_done;
    });
    // Each message that find() takes must be received, for which a list element (Stray) is needed. The memory of this
    // element is therefore allocated before the call of find().
    while (has_next_stray()) {
        const auto found = worker_->find(0, kOwnMessages, /*takes=*/true);
        if (!found) {
            return;
        }
        strays_.splice(strays_.end(), next_stray_);
        Stray& stray = strays_.back();
        const bool is_valid = check_arrival(*found).is_ok();
        stray.room.reset(is_valid ? new (std::nothrow) std::byte[found->bytes] : nullptr);
        // If the message is invalid, or if there is no memory for it, `room` has 0 bytes. UCX then drops the message.
        const std::size_t room = stray.room == nullptr ? 0 : found->bytes;
        worker_->receive_found(*found, {stray.room.get(), room}, stray.request);
    }
}

/// Prepares the object for the next stray message. Returns false if there is no memory for it now.
bool UcxTransport::has_next_stray() noexcept {
    try {
        if (next_stray_.empty()) {
            next_stray_.emplace_back();
        }
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void UcxTransport::cancel_receives() {
    for (UnderWay& one : places_) {
        if (!one.is_free && !one.is_send) {
            worker_->cancel(one.request);
        }
    }
    if (own_.receiving.handle != nullptr) {
        worker_->cancel(own_.receiving);
    }
}

/// Releases the requests that have ended. Returns whether all requests have ended.
bool UcxTransport::release_requests() {
    bool all_ended = true;
    const auto release_one = [&](UcxRequest& request) {
        if (request.handle != nullptr && !request.is_done) {
            all_ended = false;
        } else {
            UcxWorker::release(request);
        }
    };
    for (UnderWay& one : places_) {
        release_one(one.request);
    }
    for (Stray& stray : strays_) {
        release_one(stray.request);
    }
    for (UcxRequest* const request : {&own_.sending, &own_.receiving, &own_.flushing}) {
        release_one(*request);
    }
    return all_ended;
}

void UcxTransport::close() noexcept {
    if (!worker_ || !worker_->is_of_this_process() || std::exchange(is_closed_, true)) {
        return;
    }
    const bool after_failure = !failed_.is_ok();
    fail(abandoned_);
    cancel_receives();
    const bool is_disconnected = worker_->disconnect(kDisconnecting);
    if (!release_requests() || !is_disconnected) {
        // UCX still uses these requests, so the worker cannot be destroyed. UCX is not called any more. A network card
        // may still write into the memory of a stray message, so this memory is not freed.
        worker_->leak();
        keep_value_for_good(std::move(worker_));
        keep_value_for_good(std::move(strays_));
        return;
    }
    if (after_failure) {
        // ucp_worker_destroy() of UCX 1.13 sends a last message over each TCP connection, and repeats this without a
        // limit while the connection accepts no bytes. If a host is cut off, the call would therefore take as long as
        // TCP needs to give up the connection.
        worker_->leak();
        keep_value_for_good(std::move(worker_));
        return;
    }
    worker_.reset();
}

/// Connects this rank to `rank`, and returns a free place for a message to or from `rank`. If the peer is lost, the
/// message stays in progress until test() reports the loss.
Result<std::uint32_t> UcxTransport::take_place(int rank, std::size_t bytes, bool is_send) {
    RUEDA_RETURN_IF_FAILED(failed_);
    RUEDA_ASSERT(rank >= 0 && rank < size_ && rank != rank_ && bytes <= kMostBytes);
    if (Status status = worker_->reach(rank); !status.is_ok()) {
        return sticky(std::move(status));
    }
    std::uint32_t place = 0;
    if (free_.empty()) {
        place = static_cast<std::uint32_t>(places_.size());
        places_.emplace_back().generation = first_generation_;
    } else {
        place = free_.back();
        free_.pop_back();
    }
    const std::uint32_t generation = next_generation(places_[place].generation);
    places_[place] = {.request = {},
                      .bytes = bytes,
                      .rank = rank,
                      .generation = generation,
                      .is_send = is_send,
                      .is_free = false,
                      .was_started = !worker_->loss_of(rank)};
    return place;
}

Transport::Ticket UcxTransport::ticket_of(std::uint32_t place) const {
    return make_ticket(place, places_[place].generation);
}

std::uint32_t UcxTransport::place_of(Ticket ticket) const {
    const auto place = static_cast<std::uint32_t>(ticket);
    RUEDA_ASSERT(place < places_.size() && !places_[place].is_free && ticket == ticket_of(place));
    return place;
}

void UcxTransport::release(std::uint32_t place) {
    UcxWorker::release(places_[place].request);
    places_[place].is_free = true;
    free_.push_back(place);
}

void UcxTransport::fail(const Status& status) {
    if (failed_.is_ok()) {
        failed_ = status.code() == ErrorCode::aborted ? status : Status(ErrorCode::aborted, status.message());
    }
}

/// If `status` is a failure, every later call fails with it.
Status UcxTransport::sticky(Status status) {
    if (!status.is_ok()) {
        fail(status);
    }
    return status;
}

}  // namespace rueda::collectives
