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

/// Messages between two ranks of different hosts. Of one sender, receiver and channel they arrive in the order in which
/// they were sent, and a message is received by the first receive that was started for it.
///
/// Nothing here blocks, and nothing wakes a sleeper: whoever waits asks again (docs/design/0002-several-hosts.md,
/// "Polling"). A failure is `Aborted` and ends the job; after it, and after abandon(), nothing more is asked of MPI.
///
/// Threads: one at a time, whoever holds the rank's progress lock.
class Transport {
public:
    /// Messages of different channels do not meet.
    enum class Channel : std::uint8_t {
        control,
        data,
        diagnostics,
        end_reason,
        messages,  ///< of the job alone, set 0: between any two ranks; probe()
    };
    /// Nor do messages of different process sets.
    struct Port {
        Port(Channel of) : channel(of) {}  // NOLINT(google-explicit-constructor): of the world
        Port(Channel of, std::uint32_t number) : channel(of), set(number) {}
        // What a defaulted comparison compares with is no null pointer, but clang-tidy 14 takes it for one.
        [[nodiscard]] auto operator<=>(const Port&) const = default;  // NOLINT(modernize-use-nullptr)

        Channel channel;
        std::uint32_t set = 0;
    };
    /// Numbers of process sets are below this, so that every port has a tag of its own in every MPI.
    static constexpr std::uint32_t kMostSets = 8000;
    /// A send or a receive under way.
    using Ticket = std::uint64_t;
    /// The most bytes of one message.
    static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

    virtual ~Transport() = default;

    /// `bytes` stay as they are until test() says that they have left. `rank` is not the calling one.
    [[nodiscard]] virtual Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) = 0;
    /// `room` is written until test() says that the message is there. A message longer than the room is a failure.
    [[nodiscard]] virtual Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) = 0;
    /// The bytes of the message once it has left or is there; the ticket is used up then. Empty: still under way.
    [[nodiscard]] virtual Result<std::optional<std::size_t>> test(Ticket ticket) = 0;
    /// Takes a receive back, for the end of a process set: no later receive is started for its port. True: its room is
    /// the caller's again. False: a message is being written into it, so the room must stay until the job ends. What is
    /// sent to it later is nobody's. The ticket is used up.
    [[nodiscard]] virtual Result<bool> cancel(Ticket ticket) = 0;
    /// A message on Channel::messages that no receive was started for.
    struct Arrival {
        int rank = 0;
        std::size_t bytes = 0;
    };
    /// The first one that has come, of any rank: it is there until receive() is started for it, with room for just so
    /// many bytes. Empty: none; always so of a process set's transport.
    [[nodiscard]] virtual Result<std::optional<Arrival>> probe() { return std::optional<Arrival>(); }
    /// A message that has left, for us, may still lie in MPI, which moves it only while it is called (a connection that
    /// is being made, a full socket): to be called now and then by who has sent something and asks for nothing.
    [[nodiscard]] virtual Status progress() { return {}; }
    /// After an abort: nothing is asked of MPI any more, and every later call fails. What is under way may be written
    /// or read for as long as the process lives: its memory must stay.
    virtual void abandon() = 0;
};

/// For memory of messages that may still be read or written: it lives as long as the process. Where there is no memory
/// left to remember it, it is leaked. Threads: any.
void keep_for_good(std::shared_ptr<void> memory) noexcept;

namespace detail {

/// Is never destroyed: what it holds lives as long as the process.
template <class T>
union Unending {
    explicit Unending(T&& given) noexcept : value(std::move(given)) {}
    ~Unending() {}  // NOLINT(modernize-use-equals-default): a defaulted one would be deleted
    Unending(const Unending&) = delete;
    Unending& operator=(const Unending&) = delete;

    T value;
};

}  // namespace detail

/// The same for a value that owns such memory, and whose move needs none.
template <class T>
void keep_value_for_good(T value) noexcept {
    try {
        keep_for_good(std::make_shared<T>(std::move(value)));
    } catch (const std::bad_alloc&) {
        const detail::Unending<T> kept(std::move(value));
    }
}

}  // namespace rueda::collectives
