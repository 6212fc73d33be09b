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

/// The content of a flight recorder file: what one rank did last. Times are nanoseconds of CLOCK_MONOTONIC on the
/// rank's host.
struct Recording {
    std::int32_t rank = 0;
    std::int32_t size = 1;  ///< number of ranks of the job
    std::string host;
    std::int32_t pid = 0;
    std::string state;                    ///< the rank's state when the file was written: "running", "dead", …
    std::int32_t written_by = 0;          ///< the rank that wrote the file
    std::string reason;                   ///< why the file was written
    std::int64_t written_ns = 0;          ///< when the file was written
    std::int64_t began_ns = 0;            ///< when the rank began to record
    std::int64_t realtime_offset_ns = 0;  ///< CLOCK_REALTIME minus CLOCK_MONOTONIC
    std::int64_t step = -1;               ///< the training step that the rank began last; -1: it has begun none
    std::string busy;                     ///< the innermost scope (declared activity) of the rank; empty if there was
                                          ///< none
    RecordedCounters counters;
    std::vector<RecordedSet> sets;
    std::vector<RecordedOperation> operations;  ///< the operations in the order of their numbers

    [[nodiscard]] bool operator==(const Recording&) const = default;
};

/// Returns the name of a rank's file in the diagnostics folder, for example "recorder-rank3.json".
[[nodiscard]] std::string recording_file_name(std::int32_t rank);
/// Returns the rank in the name of a flight recorder file; nothing if the name has another form.
[[nodiscard]] std::optional<std::int32_t> rank_of_recording_file(std::string_view name);

/// Returns the content of a flight recorder file: JSON, with each operation on its own line.
[[nodiscard]] std::string format_recording(const Recording& recording);
/// Parses the content of a flight recorder file. Fails with InvalidArgument if the text is damaged or incomplete.
[[nodiscard]] Result<Recording> parse_recording(std::string_view text);

}  // namespace rueda::base
