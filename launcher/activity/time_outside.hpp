// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/recorder/recorder_reader.hpp"
#include "launcher/activity/look.hpp"

namespace rueda::launcher {

/// How much of an interval a rank spent neither in Rueda nor in a scope (an activity that the program declared). The
/// three numbers distinguish what the rank's threads did in this time. Each number is a part of the whole interval,
/// from 0 to 1.
struct TimeOutside {
    double runs = 0;         ///< the part in which the main thread ran, or waited for a core
    double threads_run = 0;  ///< the part in which the main thread slept, and another thread of the process ran
    double sleeps = 0;       ///< no thread ran
};

/// Finds the time that a rank spent outside operations and scopes (declared activities), between two moments of
/// CLOCK_MONOTONIC. The records give the exact length of this time. The looks (what the rank was doing at single
/// moments) are samples of what the threads did during this time. Returns nothing if there are too few looks. Pure
/// function. Costs n log n for n operations.
[[nodiscard]] std::optional<TimeOutside> find_time_outside(std::span<const base::RecordedOperation> operations,
                                                           std::span<const Look> looks, std::int64_t from_ns,
                                                           std::int64_t to_ns);

}  // namespace rueda::launcher
