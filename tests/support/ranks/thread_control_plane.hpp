// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// Control planes for ranks that are threads of this process, for tests. Element r of the result is for the thread that
/// acts as rank r. The planes share a hub, which lives as long as the last plane.
///
/// If a rank closes (or destroys) its plane while others wait for it, their waits end with `Aborted`, and the error
/// names that rank. If a rank does not arrive within `timeout`, the waits of the others end with `Timeout`, and the
/// error names the missing rank. After a failure, every further call on all ranks fails with the same status.
///
/// The planes have the transports of make_thread_transports(). So a test can call
/// cut_thread_transport(*plane.transport(), rank) to cut the connection of a rank.
///
/// Threads: one thread at a time may use an element; different elements may be used at the same time.
[[nodiscard]] std::vector<std::unique_ptr<ControlPlane>> make_thread_control_planes(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// Ends the waits of all ranks that share the hub of `plane`. The waits fail with `Aborted` and this reason. `plane` is
/// one of make_thread_control_planes. Any thread may call it.
void abort_thread_control_planes(ControlPlane& plane, const std::string& reason);

}  // namespace rueda::collectives
