// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.hpp"

namespace rueda::launcher {

/// How many processes the kernel has killed because memory ran out, and the file that contains this number. A parent
/// sees only that its child was killed by SIGKILL. If the number has grown since the child was started, lack of memory
/// was the reason.
struct OomKills {
    std::uint64_t processes = 0;
    std::string counted_in;  ///< the file that contains the number of killed processes; empty if there is none
};

/// Reads the line "oom_kill N" of memory.events (control groups version 2), memory.oom_control (version 1) or
/// /proc/vmstat. Returns nothing if there is no such line, or no number in it.
[[nodiscard]] std::optional<std::uint64_t> parse_oom_kills(std::string_view text);

/// Returns how many processes the kernel has killed in this process's control group because memory ran out. The group
/// includes this process's children. The root group of version 2 does not have this number, and neither has any group
/// on kernels before 4.13. In these cases, returns the number of the whole machine.
[[nodiscard]] OomKills count_oom_kills(const base::FileReader& read = base::read_small_file);

/// Returns the difference between two counts. Returns nothing if the counts come from different files: the process was
/// then moved to another group.
[[nodiscard]] OomKills grown(const OomKills& before, const OomKills& after);

/// Describes the kills for a message: "the kernel ended 2 processes for want of memory meanwhile (oom_kill of
/// /sys/fs/cgroup/memory.events); …what to do".
[[nodiscard]] std::string describe(const OomKills& kills);

/// Whether the process was killed by SIGKILL, or is a shell whose last command was killed by SIGKILL (exit status 137).
[[nodiscard]] bool is_kill(int wait_status);

/// Finds out whether the kernel killed a process because memory ran out. It compares the counts before the start and
/// after the end of the process. Threads: only one thread may use an object.
class OomWatch {
public:
    explicit OomWatch(base::FileReader read = base::read_small_file) : read_(std::move(read)) {}

    /// Call this before the process starts.
    void begin() { before_ = count_oom_kills(read_); }
    /// Call this once for each process, after its end. (The kernel increments the count before it kills a process.)
    /// `sent_by_us` says whether ruedarun, or the process's parent, sent SIGKILL. If it did, the result is empty.
    [[nodiscard]] OomKills look(int wait_status, bool sent_by_us) const {
        return is_kill(wait_status) && !sent_by_us ? grown(before_, count_oom_kills(read_)) : OomKills();
    }

private:
    base::FileReader read_;
    OomKills before_;
};

}  // namespace rueda::launcher
