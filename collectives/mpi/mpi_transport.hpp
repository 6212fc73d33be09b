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

/// Whether the program finalised MPI while Rueda was in use. A callback that MPI calls shares this object.
struct MpiLife {
    /// The callback, which MPI calls during MPI_Finalize, sets this flag to true. The transport and the control plane
    /// load the flag before they call MPI. The flag does not order accesses to any other memory.
    std::atomic<bool> finalized{false};
};

/// A transport over the MPI communicator of a control plane. The control plane owns the communicator and this
/// transport.
///
/// The memory of unfinished messages must stay valid until cancel_receives(). After a failure it must stay valid until
/// the process ends. Threads: any thread, but only one at a time.
class MpiTransport final : public Transport {
public:
    /// `first_generation` is for tests: the initial value of `generation` in all elements of the list of messages.
    MpiTransport(std::shared_ptr<MpiApi> mpi, std::shared_ptr<const MpiLife> life, MPI_Comm communicator, int rank,
                 int size, std::uint32_t first_generation = 0);
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

    // Returns the first failure of a message, or the failure with which the transport was abandoned. The control plane
    // checks this failure.
    [[nodiscard]] const Status& failed() const { return failed_; }
    /// Makes every later call fail with `status`, a failure that happened outside the transport.
    void fail(const Status& status);
    /// How many messages this rank sent to each rank.
    [[nodiscard]] const std::vector<std::uint32_t>& sent_to() const { return sent_to_; }
    /// Returns true when all messages of this rank were sent, and `expected` messages have arrived. `expected` is the
    /// number of messages that other ranks sent to this rank. The function also receives and drops messages for which
    /// no receive was started. Call it repeatedly before the communicator is freed.
    [[nodiscard]] Result<bool> has_ended(std::uint32_t expected);
    /// Cancels all receives that are in progress. Call this function when no rank sends messages any more. It takes at
    /// most `limit`.
    [[nodiscard]] Status cancel_receives(std::chrono::milliseconds limit);

private:
    struct UnderWay {
        MPI_Request request;
        std::size_t bytes;  ///< the length of a message to send, or the size of the memory for a message to receive
        int rank;
        /// How often this element of the list was used (31 bits). Tickets (ids of messages) that refer to the same
        /// element differ in this count.
        std::uint32_t generation;
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
    const std::uint32_t first_generation_;
    /// The list of messages. A ticket (the id of a message) consists of an index in this list and the element's
    /// generation.
    std::vector<UnderWay> places_;
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> sent_to_;
    std::uint32_t received_ = 0;
    std::vector<std::unique_ptr<std::byte[]>> strays_;
    Status failed_;
    Status abandoned_;  // The failure for abandon(). It is created in advance, because later no memory may be left.
};

}  // namespace rueda::collectives
