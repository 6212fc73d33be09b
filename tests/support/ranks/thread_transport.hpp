// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace rueda::collectives {

/// Messages between ranks that are threads of this process, for tests. Element r of the result is for the thread that
/// acts as rank r. The transports share the messages in flight, which live as long as the last transport.
///
/// Threads: one thread at a time may use an element; different elements may be used at the same time.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_thread_transports(int size);

/// Cuts the connection of `rank`. Afterwards, no message from `rank` and no message to `rank` arrives. `transport` is
/// one of make_thread_transports. Any thread may call it.
void cut_thread_transport(Transport& transport, int rank);

}  // namespace rueda::collectives
