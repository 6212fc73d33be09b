// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "core/diagnostics/stall_report.hpp"

namespace rueda::core {

/// One report of the file, and the facts around it that a job's output also contains.
struct StallEntry {
    StallReport report;
    std::string process_set = {};  ///< the name of the process set; "" for the set of all ranks
    double unix_seconds = 0;       ///< when the report was made
    std::string ends_job = {};     ///< the reason of the job's end if the job ends because of this stall; otherwise ""
};

/// The rank that writes the file.
struct StallWriter {
    std::int32_t rank = 0;
    std::int32_t pid = 0;
    std::string host = {};
};

/// The file's content, the oldest entry first. docs/troubleshooting.md describes the fields. Bytes that are not UTF-8
/// are replaced.
[[nodiscard]] std::string to_json(const StallWriter& writer, const std::deque<StallEntry>& entries);

}  // namespace rueda::core
