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

    /// Records a scope that began at `began_ns` (CLOCK_MONOTONIC) and ends now.
    void add(std::string_view name, std::int64_t began_ns);
    /// Ends the recording, because the recorder's memory is about to be released. Later calls of add() record nothing.
    void end();

private:
    [[nodiscard]] std::uint64_t number_of(std::string_view name);

    std::mutex mutex_;  // a thread that holds this mutex locks no other mutex
    base::RecorderWriter writer_;
    std::unordered_map<std::string, std::uint64_t> names_;  // maps a name to its number in the recorder
};

}  // namespace rueda::core
