// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/diagnostics/files/stall_json.hpp"

namespace rueda::core {

/// The file stall.rank.<N>.json in RUEDA_DIAGNOSTICS_DIR, with the last reports that rank N has made. Each report
/// replaces the file. So a job has at most one file for each rank, and usually only rank 0's.
///
/// A thread of this object writes. If the file system hangs, only this thread hangs, and the job can still be ended.
///
/// Threads: one, the background thread; stop() by the thread that has ended the background thread.
class StallFile {
public:
    static constexpr std::size_t kMostEntries = 16;
    /// How long add() waits for the file, so that it is there when the program learns that the job ends; and how long
    /// stop() waits.
    static constexpr std::chrono::milliseconds kPatience{1000};

    /// An empty folder: nothing is written.
    explicit StallFile(std::string folder);
    ~StallFile() { stop(); }
    StallFile(const StallFile&) = delete;
    StallFile& operator=(const StallFile&) = delete;

    [[nodiscard]] bool is_wanted() const { return !folder_.empty(); }
    /// Returns why the file cannot be written, the first time that this is known.
    std::optional<std::string> add(const StallWriter& writer, StallEntry entry);
    /// Ends the thread once it has written what it was given. A thread that hangs is left behind.
    void stop();

private:
    struct Shared;

    [[nodiscard]] bool start();
    static void run(Shared& shared);

    std::string folder_;
    std::deque<StallEntry> entries_;
    std::shared_ptr<Shared> shared_;  // the thread shares it, because it may outlive this object
    std::thread thread_;
};

}  // namespace rueda::core
