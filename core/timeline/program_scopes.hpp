// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/recorder/recorder_writer.hpp"

namespace rueda::core {

/// Records scopes of the program in the flight recorder of this rank, for the timeline.
///
/// Threads: any.
class ProgramScopes {
public:
    explicit ProgramScopes(base::RecorderWriter writer) : writer_(writer) {}

    /// A scope that began at this time of CLOCK_MONOTONIC ends now.
    void add(std::string_view name, std::int64_t began_ns);
    /// From now on nothing is recorded, because the recorder goes away.
    void end();

private:
    [[nodiscard]] std::uint64_t number_of(std::string_view name);

    std::mutex mutex_;  // nothing is locked while holding it
    base::RecorderWriter writer_;
    std::unordered_map<std::string, std::uint64_t> names_;  // their numbers in the recorder
};

}  // namespace rueda::core
