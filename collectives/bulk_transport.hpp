// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// A transport that does not belong to a control plane. It only needs the addresses of all ranks, which any control
/// plane can exchange (docs/design/0025-ucx.md).
///
/// close() frees the memory of messages in progress, also after abandon(). The memory stays allocated if the transport
/// cannot be closed.
///
/// Threads: as Transport says.
class BulkTransport : public Transport {
public:
    /// How a function waits for other ranks: for at most `limit`. While the function waits, it calls `meanwhile` again
    /// and again. If `meanwhile` fails, the function stops waiting and returns this failure.
    struct Wait {
        std::chrono::milliseconds limit;
        std::function<Status()> meanwhile = {};
    };

    /// A description for log lines, for example "ucx 1.13.1".
    [[nodiscard]] virtual std::string description() const = 0;
    /// Returns the bytes that other ranks need to send messages to this rank.
    [[nodiscard]] virtual Bytes address() const = 0;
    /// Gives this rank the addresses of all ranks, indexed by rank. Call it once, before the first message. It does
    /// not wait for other ranks.
    [[nodiscard]] virtual Status connect(std::vector<Bytes> addresses) = 0;
    /// Waits until all ranks have called this function. Each rank exchanges messages with a few others.
    [[nodiscard]] virtual Status barrier(const Wait& wait) = 0;
    /// Waits until the messages of all ranks have been sent and received. All ranks must call this function, and no
    /// rank may send a message afterwards.
    [[nodiscard]] virtual Status finish(const Wait& wait) = 0;
    /// Ends all messages in progress and all connections. Waits for no other rank. If this rank did not fail, call
    /// close() only after all ranks have returned from finish(), because close() may destroy messages that a rank has
    /// not read. In a forked child, close() does nothing.
    virtual void close() noexcept = 0;
};

}  // namespace rueda::collectives
