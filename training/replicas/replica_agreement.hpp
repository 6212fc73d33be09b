// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "rueda/rueda.hpp"

namespace rueda::training {

/// Returns success if `mine` is a success on all members of the set, and all have the same number of replicas, `count`.
/// If a member failed, returns the failure of the lowest rank that failed; on other ranks its text begins with that
/// rank. If the numbers of replicas differ, returns InvalidArgument. Collective. A success costs one allreduce of three
/// numbers; the text of a failure is broadcast. Throws an error of these operations.
[[nodiscard]] Status agree_on_replicas(const Status& mine, int count, ProcessSet set);

/// Returns the failure that rank `root` sent, with this rank in its text. Internal if the bytes are no failure.
[[nodiscard]] Status failure_from(std::span<const std::uint8_t> bytes, int root);

}  // namespace rueda::training
