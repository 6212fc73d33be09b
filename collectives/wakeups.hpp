// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::collectives {

/// Lets a message from another host wake this rank. The thread that drives progress may therefore sleep while it waits
/// for such a message (docs/design/0022-tcp-control-plane.md).
///
/// The threads of a rank call the functions in three cases:
/// - Before a thread sleeps, it stores in its attention state that it sleeps (base/shared_memory/attention.hpp), and
///   then calls take_in(). If nothing has arrived, the thread calls arm(), and sleeps. The next message, or a message
///   that arrived before arm(), then wakes the rank once.
/// - A thread that releases the progress lock calls arm_soon(), because the next thread may take the lock at once or
///   much later.
/// - A thread that polls calls disarm(), so that the messages for which it polls wake no other thread.
///
/// Threads: the holder of the rank's progress lock.
class Wakeups {
public:
    virtual ~Wakeups() = default;

    /// Takes in all messages that have arrived, so that test() finds them. Returns true if there was such a message, or
    /// if has_arrived() is true.
    [[nodiscard]] virtual bool take_in() = 0;
    /// Whether a message between leaders was received, but not yet returned by test(). The rank must then drive
    /// progress once more before all its threads sleep. The message was already read from its socket, so the socket
    /// would not wake the threads.
    [[nodiscard]] virtual bool has_arrived() const noexcept = 0;
    virtual void arm() noexcept = 0;
    /// Like arm(), but acts after a short time. Does nothing if disarm() is called in the meantime.
    virtual void arm_soon() noexcept = 0;
    virtual void disarm() noexcept = 0;
};

}  // namespace rueda::collectives
