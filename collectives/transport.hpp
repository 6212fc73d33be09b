// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/status.hpp"

namespace rueda::collectives {

/// Messages between two ranks of different hosts. Messages with the same sender, receiver and channel arrive in the
/// order in which they were sent. A message is received by the first receive that was started for it.
///
/// No function blocks, and nothing wakes a sleeping thread: a thread that waits asks again
/// (docs/design/0002-several-hosts.md, "Polling"). A failure is `Aborted` and ends the job. After a failure, and
/// after abandon(), the transport calls MPI no more.
///
/// Threads: one at a time, the thread that holds the rank's progress lock.
class Transport {
public:
    /// A receive gets no message of another channel.
    enum class Channel : std::uint8_t {
        control,
        data,
        diagnostics,
        end_reason,
        messages,  ///< only with set 0: messages between any two ranks of the job, for probe()
    };
    /// A receive gets no message of another process set either.
    struct Port {
        Port(Channel of) : channel(of) {}  // NOLINT(google-explicit-constructor): for set 0
        Port(Channel of, std::uint32_t number) : channel(of), set(number) {}
        // clang-tidy 14 takes the 0 in a defaulted comparison for a null pointer.
        [[nodiscard]] auto operator<=>(const Port&) const = default;  // NOLINT(modernize-use-nullptr)

        Channel channel;
        std::uint32_t set = 0;
    };
    /// Numbers of process sets are below this number, so that every port has its own tag in every MPI.
    static constexpr std::uint32_t kMostSets = 8000;
    /// A send or a receive in progress.
    using Ticket = std::uint64_t;
    /// The most bytes of one message.
    static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

    virtual ~Transport() = default;

    /// The caller keeps `bytes` unchanged until test() says that they have left. `rank` is another rank.
    [[nodiscard]] virtual Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) = 0;
    /// `room` may be written until test() says that the message is there. A message longer than the room is a failure.
    [[nodiscard]] virtual Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) = 0;
    /// Returns the length of the message once it has left or is there; then the ticket is used up. Returns nothing if
    /// the message is still in progress.
    [[nodiscard]] virtual Result<std::optional<std::size_t>> test(Ticket ticket) = 0;
    /// Cancels a receive at the end of a process set, when no later receive is started for its port. Returns true if
    /// the room is free again. Returns false if a message is being written into it: the room must stay until the job
    /// ends. Later messages for this port are dropped. The ticket is used up.
    [[nodiscard]] virtual Result<bool> cancel(Ticket ticket) = 0;
    /// A message on Channel::messages for which no receive was started.
    struct Arrival {
        int rank = 0;
        std::size_t bytes = 0;
    };
    /// Returns the first such message from any rank, if there is one. The caller then starts receive() with room for as
    /// many bytes. The transport of a process set never returns one.
    [[nodiscard]] virtual Result<std::optional<Arrival>> probe() { return std::optional<Arrival>(); }
    /// A message that has left may still wait inside MPI, for example for a connection or a full socket. MPI sends it
    /// on only during calls. A rank that has sent something and tests nothing else calls this function now and then.
    [[nodiscard]] virtual Status progress() { return {}; }
    /// Called after an abort. MPI is called no more, and every later call of this object fails. The memory of messages
    /// in progress may be read or written until the process ends, so it must stay.
    virtual void abandon() = 0;
};

/// Keeps the memory of messages that may still be read or written until the process ends. If there is no memory left to
/// remember it, it is leaked. Threads: any.
void keep_for_good(std::shared_ptr<void> memory) noexcept;

namespace detail {

/// A value that is never destroyed.
template <class T>
union Unending {
    explicit Unending(T&& given) noexcept : value(std::move(given)) {}
    ~Unending() {}  // NOLINT(modernize-use-equals-default): a defaulted one would be deleted
    Unending(const Unending&) = delete;
    Unending& operator=(const Unending&) = delete;

    T value;
};

}  // namespace detail

/// Does the same for a value that owns such memory. Moving the value must not allocate memory.
template <class T>
void keep_value_for_good(T value) noexcept {
    try {
        keep_for_good(std::make_shared<T>(std::move(value)));
    } catch (const std::bad_alloc&) {
        const detail::Unending<T> kept(std::move(value));
    }
}

}  // namespace rueda::collectives
