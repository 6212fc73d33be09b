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

class Wakeups;

/// Sends messages between two ranks of different hosts. Messages with the same sender, receiver and port arrive in the
/// order in which they were sent. The first message goes to the receive that was started first, and so on.
///
/// No function blocks. Unless wakes() says otherwise, a message wakes no thread when it arrives, so a thread that waits
/// must call test() repeatedly (docs/design/0002-several-hosts.md, "Polling"). Every failure is `Aborted` and ends the
/// job. After a failure, and after abandon(), the transport does not call MPI (or UCX) any more.
///
/// Threads: one at a time, namely the thread that holds the rank's progress lock.
class Transport {
public:
    /// The channels: one for each kind of message. A receive gets only messages of its own channel.
    enum class Channel : std::uint8_t {
        control,
        data,
        diagnostics,
        end_reason,
        messages,  ///< User messages between any two ranks. The receiver finds a message with probe(). Only set 0, the
                   ///< whole job, has this channel.
    };
    /// A port is a channel of one process set. A receive gets only messages that were sent to the same port.
    struct Port {
        Port(Channel of) : channel(of) {}  // NOLINT(google-explicit-constructor): for set 0
        Port(Channel of, std::uint32_t number) : channel(of), set(number) {}
        // clang-tidy 14 mistakes the 0 in a defaulted comparison for a null pointer.
        [[nodiscard]] auto operator<=>(const Port&) const = default;  // NOLINT(modernize-use-nullptr)

        Channel channel;
        std::uint32_t set = 0;
    };
    /// Process sets must have numbers below this limit, so that every port has its own tag in every MPI.
    static constexpr std::uint32_t kMostSets = 8000;
    /// Identifies a send or a receive in progress. A transport that wraps another one sets bit 63 of its own tickets,
    /// to distinguish them from the tickets of the inner transport. All other transports leave this bit 0.
    using Ticket = std::uint64_t;
    static constexpr Ticket kTicketOfWrapper = Ticket{1} << 63U;
    /// The ticket of a message that a transport keeps as element `place` of a list. `generation` counts how often this
    /// element was used. Its highest bit is dropped, because transports that wrap another one use bit 63 of the ticket.
    [[nodiscard]] static constexpr Ticket make_ticket(std::uint32_t place, std::uint32_t generation) {
        return (Ticket{generation & kMostGenerations} << 32U) | place;
    }
    /// Returns the generation of a list element at its next use. After 2^31 uses of an element, its generations and
    /// therefore its tickets repeat.
    [[nodiscard]] static constexpr std::uint32_t next_generation(std::uint32_t generation) {
        return (generation + 1) & kMostGenerations;
    }
    static constexpr std::uint32_t kMostGenerations = 0x7fff'ffff;
    /// The maximum number of bytes in one message.
    static constexpr std::size_t kMostBytes = std::size_t{1} << 30;
    /// A message with at most this many bytes need not wake a rank that sleeps: the rank reads it in its next turn.
    /// Heartbeats have this length, and all other messages between leaders are longer.
    static constexpr std::size_t kQuietBytes = 1;

    virtual ~Transport() = default;

    /// Starts a send to another rank. The caller must keep `bytes` unchanged until test() reports that the message was
    /// sent.
    [[nodiscard]] virtual Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) = 0;
    /// Starts a receive. The transport may write to `room` until test() reports that the message has arrived. A message
    /// that is longer than `room` is a failure.
    [[nodiscard]] virtual Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) = 0;
    /// Returns the length of the message if it was sent or received; the ticket is then invalid. Returns nothing if the
    /// message is still in progress.
    [[nodiscard]] virtual Result<std::optional<std::size_t>> test(Ticket ticket) = 0;
    /// Cancels a receive at the end of a process set. No later receive may be started for its port, and later messages
    /// for this port are dropped. The ticket becomes invalid. Returns true if the receive's memory is free again.
    /// Returns false if a message is just being written into this memory. In that case, the memory must stay valid
    /// until the job ends.
    [[nodiscard]] virtual Result<bool> cancel(Ticket ticket) = 0;
    /// A message on Channel::messages for which no receive was started.
    struct Arrival {
        int rank = 0;
        std::size_t bytes = 0;
    };
    /// Returns the first message on Channel::messages for which no receive was started, if there is such a message. The
    /// caller must then call receive() with memory for the message's number of bytes. The transport of a process set
    /// never returns such a message.
    [[nodiscard]] virtual Result<std::optional<Arrival>> probe() { return std::optional<Arrival>(); }
    /// Lets MPI continue to send. A message that test() reported as sent may still wait inside MPI, for example because
    /// a socket is full. MPI sends such a message only during MPI calls. A rank with such messages must call this
    /// function from time to time, unless it calls test() anyway.
    [[nodiscard]] virtual Status progress() { return {}; }
    /// Call this function after an abort. After this call the object does not call MPI, and all its functions fail. MPI
    /// may still use the memory of messages in progress until the process ends, so this memory must stay valid.
    virtual void abandon() = 0;
    /// Whether messages on `port` can wake this rank (wakeups()), if they have more than kQuietBytes. Messages on other
    /// ports wake no thread. Threads: any.
    [[nodiscard]] virtual bool wakes(Port /*port*/) const { return false; }
    /// Returns the object through which messages wake this rank. Null if no message can wake it. The transport owns the
    /// object.
    [[nodiscard]] virtual Wakeups* wakeups() { return nullptr; }
};

/// Keeps memory until the process ends, because messages in progress may still read or write it. If the list of such
/// memory cannot grow, the memory is leaked. Threads: any thread may call this function.
void keep_for_good(std::shared_ptr<void> memory) noexcept;

namespace detail {

/// Holds a value that is never destroyed.
template <class T>
union Unending {
    explicit Unending(T&& given) noexcept : value(std::move(given)) {}
    ~Unending() {}  // NOLINT(modernize-use-equals-default): a defaulted one would be deleted
    Unending(const Unending&) = delete;
    Unending& operator=(const Unending&) = delete;

    T value;
};

}  // namespace detail

/// Like keep_for_good(), but for a value that owns the memory. Moving the value must not allocate memory.
template <class T>
void keep_value_for_good(T value) noexcept {
    try {
        keep_for_good(std::make_shared<T>(std::move(value)));
    } catch (const std::bad_alloc&) {
        const detail::Unending<T> kept(std::move(value));
    }
}

}  // namespace rueda::collectives
