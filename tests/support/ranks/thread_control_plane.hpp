// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// Control planes for ranks that are threads of this process, for tests. Element r is for the thread that plays rank r.
/// They share a hub, which lives as long as the last of them.
///
/// If a rank closes (or destroys) its plane while others wait for it, their waits end with `Aborted`, and the error
/// names that rank. If a rank does not arrive within `timeout`, the others' waits end with `Timeout`, and the error
/// names it. After a failure every further call fails with the same status on all ranks.
///
/// Their transports are those of make_thread_transports: cut_thread_transport(*plane.transport(), rank) pulls a cable.
///
/// Threads: each element by one thread at a time; different elements at the same time.
[[nodiscard]] std::vector<std::unique_ptr<ControlPlane>> make_thread_control_planes(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// Ends the waits of all ranks that share `plane`'s hub, with `Aborted` and this reason. `plane` is one of
/// make_thread_control_planes. Any thread may call it.
void abort_thread_control_planes(ControlPlane& plane, const std::string& reason);

}  // namespace rueda::collectives
