// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "rueda/rueda.hpp"

namespace rueda::training {

/// All members of the set must call this function. Returns success if `mine` is a success on all members, and `count`
/// (the number of replicas) is the same on all members. If members failed, returns the failure of the lowest rank among
/// them. On the other ranks, the text begins with this rank. If the counts differ, returns InvalidArgument. A success
/// costs one allreduce of three numbers. The text of a failure is broadcast. Throws the errors of these operations.
[[nodiscard]] Status agree_on_replicas(const Status& mine, int count, ProcessSet set);

/// Decodes the failure that rank `root` sent, and adds `root` to its text. Returns Internal if it is no failure.
[[nodiscard]] Status failure_from(std::span<const std::uint8_t> bytes, int root);

}  // namespace rueda::training
