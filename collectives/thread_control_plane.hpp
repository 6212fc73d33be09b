// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// Ranks that are threads of this process, for tests: element r is for the thread that plays rank r. They share a hub;
/// it lives as long as the last of them.
///
/// A rank that closes (or destroys) its plane while others wait for it ends their waits with `Aborted`, naming it; a
/// rank that does not come within `timeout` ends the others' waits with `Timeout`, naming it. After a failure every
/// further call fails with the same status on all ranks.
///
/// Their transports are those of make_thread_transports: cut_thread_transport(*plane.transport(), rank) pulls a cable.
///
/// Threads: each element by one thread at a time; different elements at the same time.
[[nodiscard]] std::vector<std::unique_ptr<ControlPlane>> make_thread_control_planes(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// Ends the waits of all ranks of the hub that `plane` belongs to, with `Aborted` and this reason. `plane` is one of
/// make_thread_control_planes. Any thread may call it.
void abort_thread_control_planes(ControlPlane& plane, const std::string& reason);

}  // namespace rueda::collectives
