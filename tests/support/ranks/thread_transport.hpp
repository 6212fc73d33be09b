// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace rueda::collectives {

/// Messages between ranks that are threads of this process, for tests. Element r is for the thread that plays rank r.
/// They share the messages under way, which live as long as the last of them.
///
/// Threads: each element by one thread at a time; different elements at the same time.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_thread_transports(int size);

/// Pulls the cable of `rank`: from now on nothing that `rank` sends arrives, and nothing that others send to it
/// arrives. `transport` is one of make_thread_transports. Any thread may call it.
void cut_thread_transport(Transport& transport, int rank);

}  // namespace rueda::collectives
