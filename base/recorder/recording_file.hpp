// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// The flight recorder of one rank at one moment, as a file has it. Times are nanoseconds of CLOCK_MONOTONIC on the
/// rank's host.
struct Recording {
    std::int32_t rank = 0;
    std::int32_t size = 1;  ///< of the job
    std::string host;
    std::int32_t pid = 0;
    std::string state;                    ///< of the rank when this was written: "running", "dead", …
    std::int32_t written_by = 0;          ///< the rank that wrote the file
    std::string reason;                   ///< why it was written
    std::int64_t written_ns = 0;          ///< when
    std::int64_t began_ns = 0;            ///< when the rank began
    std::int64_t realtime_offset_ns = 0;  ///< what to add to get CLOCK_REALTIME
    std::int64_t step = -1;               ///< the training step that the rank began last; -1: none
    std::string busy;                     ///< the innermost declared scope; "" outside
    RecordedCounters counters;
    std::vector<RecordedSet> sets;
    std::vector<RecordedOperation> operations;  ///< in the order of their numbers

    [[nodiscard]] bool operator==(const Recording&) const = default;
};

/// The file's name in the folder of the diagnostics, "recorder-rank3.json".
[[nodiscard]] std::string recording_file_name(std::int32_t rank);
/// The rank of a file with such a name; empty for another name.
[[nodiscard]] std::optional<std::int32_t> rank_of_recording_file(std::string_view name);

/// The content of the file: JSON, with one line for each operation.
[[nodiscard]] std::string format_recording(const Recording& recording);
/// Reads it again. Fails with InvalidArgument for text that is not the whole content of such a file.
[[nodiscard]] Result<Recording> parse_recording(std::string_view text);

}  // namespace rueda::base
