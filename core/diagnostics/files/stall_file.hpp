// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "core/diagnostics/files/file_writer.hpp"
#include "core/diagnostics/files/stall_json.hpp"

namespace rueda::core {

/// The file stall.rank.<N>.json in RUEDA_DIAGNOSTICS_DIR, with the last reports that rank N has made. Each report
/// replaces the file. A job therefore has at most one such file for each rank. Usually only rank 0 writes one.
///
/// Threads: one, the background thread.
class StallFile {
public:
    static constexpr std::size_t kMostEntries = 16;

    /// `files` outlives this object.
    explicit StallFile(FileWriter& files) : files_(files) {}

    /// Call this only if files are wanted. Returns the result of FileWriter::write().
    [[nodiscard]] std::optional<std::string> add(const StallWriter& writer, StallEntry entry);

private:
    FileWriter& files_;
    std::deque<StallEntry> entries_;
};

}  // namespace rueda::core
