// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/mpi_transport.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <span>
#include <utility>

#include "base/assert.hpp"
#include "collectives/mpi/keep_for_mpi.hpp"

namespace rueda::collectives {
namespace {

/// Returns the MPI tag for a port. Only Rueda uses the communicator, and MPI's collectives have separate tags, so all
/// tags are free for ports. MPI guarantees tags up to 32767.
int tag_of(Transport::Port port) {
    constexpr std::uint32_t kChannels = 4;  // number of channels of each process set
    constexpr std::uint32_t kMessages = 1 + kChannels * Transport::kMostSets;
    static_assert(kMessages <= 32767);
    RUEDA_ASSERT(port.set < Transport::kMostSets);
    if (port.channel == Transport::Channel::messages) {
        RUEDA_ASSERT(port.set == 0);
        return static_cast<int>(kMessages);
    }
    return 1 + static_cast<int>(kChannels * port.set + static_cast<std::uint32_t>(port.channel));
}

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<MpiApi> mpi, std::shared_ptr<const MpiLife> life, MPI_Comm communicator,
                           int rank, int size, std::uint32_t first_generation)
    : mpi_(std::move(mpi)),
      life_(std::move(life)),
      communicator_(communicator),
      rank_(rank),
      size_(size),
      first_generation_(first_generation),
      sent_to_(static_cast<std::size_t>(size), 0),
      abandoned_(failure(ErrorCode::aborted, "the job has ended: rank {} sends and receives no more messages", rank)) {}

MpiTransport::~MpiTransport() {
    const bool has_ended = std::all_of(places_.begin(), places_.end(), [](const UnderWay& one) { return one.is_free; });
    if (!has_ended) {
        // The memory in `strays_` is for messages for which no receive was started. After a failure, MPI may still
        // write into this memory, so it stays allocated.
        for (std::unique_ptr<std::byte[]>& room : strays_) {
            keep_for_mpi(std::move(room));
        }
    }
}

Result<Transport::Ticket> MpiTransport::send(int rank, Port port, std::span<const std::byte> bytes) {
    RUEDA_RETURN_IF_FAILED(check_open("a message to", rank, bytes.size()));
    auto sent = keep(mpi_->isend(bytes, rank, tag_of(port), communicator_), true, rank, bytes.size());
    sent_to_[static_cast<std::size_t>(rank)] += sent.is_ok() ? 1U : 0U;
    return sent;
}

Result<Transport::Ticket> MpiTransport::receive(int rank, Port port, std::span<std::byte> room) {
    RUEDA_RETURN_IF_FAILED(check_open("a message from", rank, room.size()));
    return keep(mpi_->irecv(room, rank, tag_of(port), communicator_), false, rank, room.size());
}

Result<std::optional<std::size_t>> MpiTransport::test(Ticket ticket) {
    RUEDA_RETURN_IF_FAILED(failed_);
    const std::uint32_t place = place_of(ticket);
    const UnderWay& message = places_[place];
    RUEDA_RETURN_IF_FAILED(check_open(message.is_send ? "a message to" : "a message from", message.rank, 0));
    return ask(place);
}

Result<bool> MpiTransport::cancel(Ticket ticket) {
    RUEDA_RETURN_IF_FAILED(failed_);
    const std::uint32_t place = place_of(ticket);
    RUEDA_ASSERT(!places_[place].is_send);
    RUEDA_RETURN_IF_FAILED(check_open("a message from", places_[place].rank, 0));
    if (Status status = mpi_->cancel(places_[place].request); !status.is_ok()) {
        return sticky(std::move(status));
    }
    // Cancelling needs no other process. It completes at once, unless a message is already arriving.
    const auto received = ask(place);
    RUEDA_RETURN_IF_FAILED(received.status());
    return received.value().has_value();
}

std::uint32_t MpiTransport::place_of(Ticket ticket) const {
    const auto place = static_cast<std::uint32_t>(ticket);
    RUEDA_ASSERT(place < places_.size() && !places_[place].is_free &&
                 ticket == make_ticket(place, places_[place].generation));
    return place;
}

Result<std::optional<Transport::Arrival>> MpiTransport::probe() {
    RUEDA_RETURN_IF_FAILED(check_open("messages to", rank_ == 0 ? 1 : 0, 0));
    const auto found = mpi_->probe(MPI_ANY_SOURCE, tag_of(Channel::messages), communicator_);
    if (!found.is_ok()) {
        return sticky(failure(ErrorCode::aborted, "{}", found.status().message()));
    }
    if (!found.value()) {
        return std::optional<Arrival>();
    }
    RUEDA_RETURN_IF_FAILED(check_envelope(*found.value()));
    return std::optional(Arrival{found.value()->rank, found.value()->bytes});
}

/// Checks the sender and the length of a message before memory is allocated for it.
Status MpiTransport::check_envelope(const MpiEnvelope& envelope) {
    const bool is_of_other = envelope.rank >= 0 && envelope.rank < size_ && envelope.rank != rank_;
    return is_of_other && envelope.bytes <= kMostBytes
               ? Status()
               : sticky(
                     failure(ErrorCode::aborted,
                             "MPI has a message of {} bytes from rank {} for rank {}; expected at most {} bytes, from "
                             "another of ranks 0 to {}",
                             envelope.bytes, envelope.rank, rank_, kMostBytes, size_ - 1));
}

Status MpiTransport::progress() {
    RUEDA_RETURN_IF_FAILED(check_open("messages to", rank_ == 0 ? 1 : 0, 0));
    // While MPI executes a call, it makes progress on all messages. So this probe is useful even if it finds no
    // message.
    return mpi_->probe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_).status();
}

void MpiTransport::abandon() { fail(abandoned_); }

void MpiTransport::fail(const Status& status) {
    if (failed_.is_ok()) {
        failed_ = status.code() == ErrorCode::aborted ? status : Status(ErrorCode::aborted, status.message());
    }
}

Result<bool> MpiTransport::has_ended(std::uint32_t expected) {
    if (received_ != expected) {
        RUEDA_RETURN_IF_FAILED(receive_stray());
    }
    bool all_left = true;
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
        if (!places_[place].is_free) {
            const bool is_send = places_[place].is_send;
            const auto done = ask(place);
            RUEDA_RETURN_IF_FAILED(done.status());
            all_left = all_left && (!is_send || done.value());
        }
    }
    return all_left && received_ == expected;
}

/// Receives and drops a message for which no receive was started.
Status MpiTransport::receive_stray() {
    const auto stray = mpi_->probe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_);
    if (!stray.is_ok()) {
        return sticky(failure(ErrorCode::aborted, "{}", stray.status().message()));
    }
    if (!stray.value()) {
        return {};
    }
    RUEDA_RETURN_IF_FAILED(check_envelope(*stray.value()));
    const auto [rank, tag, bytes] = *stray.value();
    std::unique_ptr<std::byte[]> room(new (std::nothrow) std::byte[bytes]);
    if (room == nullptr) {
        return sticky(failure(ErrorCode::aborted, "rank {} has no memory for a message of {} bytes from rank {}", rank_,
                              bytes, rank));
    }
    const std::span<std::byte> whole(room.get(), bytes);
    strays_.push_back(std::move(room));
    return keep(mpi_->irecv(whole, rank, tag, communicator_), false, rank, bytes).status();
}

Status MpiTransport::cancel_receives(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
        if (places_[place].is_free) {
            continue;
        }
        if (Status status = mpi_->cancel(places_[place].request); !status.is_ok()) {
            return sticky(std::move(status));
        }
        // Cancelling needs no other process, so this takes long only if MPI does not work correctly.
        while (!places_[place].is_free) {
            RUEDA_RETURN_IF_FAILED(ask(place).status());
            if (!places_[place].is_free && std::chrono::steady_clock::now() >= deadline) {
                return sticky(failure(ErrorCode::aborted,
                                      "rank {} could not cancel a receive of a message from rank {}", rank_,
                                      places_[place].rank));
            }
        }
    }
    return {};
}

Status MpiTransport::check_open(const char* what, int rank, std::size_t bytes) const {
    RUEDA_RETURN_IF_FAILED(failed_);
    RUEDA_ASSERT(rank >= 0 && rank < size_ && rank != rank_ && bytes <= kMostBytes);
    if (life_->finalized.load(std::memory_order_relaxed)) {
        return failure(ErrorCode::aborted,
                       "{} rank {}: the program has called MPI_Finalize while Rueda was in use: call "
                       "rueda::shutdown() first",
                       what, rank);
    }
    return {};
}

Result<Transport::Ticket> MpiTransport::keep(Result<MPI_Request> started, bool is_send, int rank, std::size_t bytes) {
    if (!started.is_ok()) {
        return sticky(failure(ErrorCode::aborted, "a message {} rank {}: {}", is_send ? "to" : "from", rank,
                              started.status().message()));
    }
    std::uint32_t place = 0;
    if (free_.empty()) {
        place = static_cast<std::uint32_t>(places_.size());
        places_.push_back({});
        places_.back().generation = first_generation_;
    } else {
        place = free_.back();
        free_.pop_back();
    }
    places_[place] = {started.value(), bytes, rank, next_generation(places_[place].generation), is_send, false};
    return make_ticket(place, places_[place].generation);
}

/// Returns the length of the message `places_[place]` if it was sent or received, otherwise nothing.
Result<std::optional<std::size_t>> MpiTransport::ask(std::uint32_t place) {
    UnderWay& message = places_[place];
    const auto answer = mpi_->test_message(message.request);
    if (!answer.is_ok()) {
        return sticky(failure(ErrorCode::aborted, "a message {} rank {}: {}", message.is_send ? "to" : "from",
                              message.rank, answer.status().message()));
    }
    if (!answer.value().complete) {
        return std::optional<std::size_t>();
    }
    const UnderWay done = message;
    release(place);
    if (done.is_send) {
        return std::optional(done.bytes);
    }
    received_ += answer.value().cancelled ? 0U : 1U;
    if (answer.value().truncated || answer.value().bytes > done.bytes) {
        return sticky(truncated(done, answer.value().bytes));
    }
    return std::optional(answer.value().bytes);
}

/// Returns the failure for a message that is longer than its memory. Some MPIs report the length of the message, others
/// the length of the part that they wrote.
Status MpiTransport::truncated(const UnderWay& receive, std::size_t bytes) const {
    return bytes > receive.bytes
               ? failure(ErrorCode::aborted, "rank {} sent {} bytes where rank {} has room for {}", receive.rank, bytes,
                         rank_, receive.bytes)
               : failure(ErrorCode::aborted, "rank {} sent more than the {} bytes that rank {} has room for",
                         receive.rank, receive.bytes, rank_);
}

Status MpiTransport::sticky(Status status) {
    fail(status);
    return status;
}

void MpiTransport::release(std::uint32_t place) {
    places_[place].is_free = true;
    free_.push_back(place);
}

}  // namespace rueda::collectives
