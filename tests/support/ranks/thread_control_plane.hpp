// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// Makes control planes for ranks that are threads of this process. Element r of the result is for rank r. The planes
/// share a hub, which lives as long as the last plane.
///
/// If a rank closes or destroys its plane, the other ranks' waits end with `Aborted`, and the error names the rank. If
/// a rank does not arrive within `timeout`, the other ranks' waits end with `Timeout`, and the error names the missing
/// rank. After a failure, every further call of all ranks fails with the same status.
///
/// The planes have the transports of make_thread_transports(), so that a test can cut the connection of a rank with
/// cut_thread_transport(*plane.transport(), rank).
///
/// Threads: each element may be used by one thread at a time.
[[nodiscard]] std::vector<std::unique_ptr<ControlPlane>> make_thread_control_planes(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// Ends the waits of all ranks that share the hub of `plane`, with `Aborted` and this reason. `plane` must come from
/// make_thread_control_planes(). Any thread may call this function.
void abort_thread_control_planes(ControlPlane& plane, const std::string& reason);

}  // namespace rueda::collectives
