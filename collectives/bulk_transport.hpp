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
/// close() frees the memory of messages in progress, even if abandon() was called before. If the transport cannot be
/// closed, the memory stays allocated.
///
/// Threads: as Transport says.
class BulkTransport : public Transport {
public:
    /// How a function waits for other ranks. It waits for at most `limit`, and meanwhile calls the function `meanwhile`
    /// again and again. If `meanwhile` fails, the waiting function returns this failure at once.
    struct Wait {
        std::chrono::milliseconds limit;
        std::function<Status()> meanwhile = {};
    };

    /// A description for log lines, for example "ucx 1.13.1".
    [[nodiscard]] virtual std::string description() const = 0;
    /// Returns this rank's address. Other ranks need it to send messages to this rank.
    [[nodiscard]] virtual Bytes address() const = 0;
    /// Gives this rank the addresses of all ranks, indexed by rank. Call it once, before the first message. It does
    /// not wait for other ranks.
    [[nodiscard]] virtual Status connect(std::vector<Bytes> addresses) = 0;
    /// Waits until all ranks have called this function. To find this out, each rank exchanges messages with a few other
    /// ranks.
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
