// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/mpi/mpi_api.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// Whether somebody has finalised MPI under us. Shared with the callback that MPI keeps.
struct MpiLife {
    /// Stored by the callback within MPI_Finalize, loaded before our calls. It guards no other memory.
    std::atomic<bool> finalized{false};
};

/// Messages over the communicator of a control plane, which owns both.
///
/// The memory of what is under way has to stay until cancel_receives() where MPI goes on, and for good after a failure.
/// Threads: one at a time.
class MpiTransport final : public Transport {
public:
    MpiTransport(std::shared_ptr<MpiApi> mpi, std::shared_ptr<const MpiLife> life, MPI_Comm communicator, int rank,
                 int size);
    ~MpiTransport() override;
    MpiTransport(const MpiTransport&) = delete;
    MpiTransport& operator=(const MpiTransport&) = delete;

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override;
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override;
    Result<std::optional<Arrival>> probe() override;
    Status progress() override;
    Result<std::optional<std::size_t>> test(Ticket ticket) override;
    Result<bool> cancel(Ticket ticket) override;
    void abandon() override;

    // For the control plane.
    /// The first failure: of a message, or abandoned.
    [[nodiscard]] const Status& failed() const { return failed_; }
    /// After a failure elsewhere: the text of every later call here.
    void fail(const Status& status);
    /// How many messages went to each rank.
    [[nodiscard]] const std::vector<std::uint32_t>& sent_to() const { return sent_to_; }
    /// Before the communicator goes, where the other ranks have sent `expected` messages to this one: true when all of
    /// them have come, and all of this one's have left. It receives those that nobody has asked for.
    [[nodiscard]] Result<bool> has_ended(std::uint32_t expected);
    /// Nobody sends any more. Ends the receives that are still posted, within `limit`.
    [[nodiscard]] Status cancel_receives(std::chrono::milliseconds limit);

private:
    struct UnderWay {
        MPI_Request request;
        std::size_t bytes;  ///< of the message sent, or of the room
        int rank;
        std::uint32_t generation;  ///< of the place, so that a ticket that is used up is noticed
        bool is_send;
        bool is_free;
    };

    [[nodiscard]] Status check_open(const char* what, int rank, std::size_t bytes) const;
    [[nodiscard]] Result<Ticket> keep(Result<MPI_Request> started, bool is_send, int rank, std::size_t bytes);
    [[nodiscard]] std::uint32_t place_of(Ticket ticket) const;
    [[nodiscard]] Result<std::optional<std::size_t>> ask(std::uint32_t place);
    [[nodiscard]] Status truncated(const UnderWay& receive, std::size_t bytes) const;
    [[nodiscard]] Status check_envelope(const MpiEnvelope& envelope);
    [[nodiscard]] Status sticky(Status status);
    [[nodiscard]] Status receive_stray();
    void release(std::uint32_t place);

    const std::shared_ptr<MpiApi> mpi_;
    const std::shared_ptr<const MpiLife> life_;
    const MPI_Comm communicator_;
    const int rank_;
    const int size_;
    std::vector<UnderWay> places_;  ///< a ticket is a place's number and its generation
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> sent_to_;
    std::uint32_t received_ = 0;
    std::vector<std::unique_ptr<std::byte[]>> strays_;
    Status failed_;
    Status abandoned_;  // made while there is memory for it
};

}  // namespace rueda::collectives
