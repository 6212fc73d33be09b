// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "rueda/rueda.hpp"

namespace rueda::training {

/// Returns success if `mine` is a success on all members of the set. Otherwise returns the failure of the lowest rank
/// that failed; on other ranks its text begins with that rank. Collective. A success costs one allreduce of a number;
/// the text of a failure is broadcast. Throws an error of these operations.
[[nodiscard]] Status agree_on_replicas(const Status& mine, ProcessSet set);

}  // namespace rueda::training
