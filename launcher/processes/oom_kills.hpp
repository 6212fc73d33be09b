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

/// The number of processes that the kernel has killed because memory ran out, and the file that says so. The parent of
/// such a process sees an ordinary SIGKILL, so only the difference between two counts tells the reason.
struct OomKills {
    std::uint64_t processes = 0;
    std::string counted_in;  ///< the file; empty: there is none
};

/// Reads the line "oom_kill N" of memory.events (control groups version 2), memory.oom_control (version 1) or
/// /proc/vmstat. Returns nothing if there is no such line, or no number in it.
[[nodiscard]] std::optional<std::uint64_t> parse_oom_kills(std::string_view text);

/// The count of this process's own control group, which its children share. If the group has none (the root of version
/// 2, kernels before 4.13), the count of the whole machine.
[[nodiscard]] OomKills count_oom_kills(const base::FileReader& read = base::read_small_file);

/// The difference between two counts. None if they are from different files, because then the process was moved to
/// another group.
[[nodiscard]] OomKills grown(const OomKills& before, const OomKills& after);

/// "the kernel ended 2 processes for want of memory meanwhile (oom_kill of /sys/fs/cgroup/memory.events); …what to do"
[[nodiscard]] std::string describe(const OomKills& kills);

/// True if the process was killed by SIGKILL, or is a shell whose last command was (exit status 137).
[[nodiscard]] bool is_kill(int wait_status);

/// Compares the count before a process starts with the count after its end. Threads: one.
class OomWatch {
public:
    explicit OomWatch(base::FileReader read = base::read_small_file) : read_(std::move(read)) {}

    /// To be called before the start.
    void begin() { before_ = count_oom_kills(read_); }
    /// To be called after the end, once for each process. The kernel counts before it kills. `sent_by_us` says that
    /// ruedarun or its supervisor has sent SIGKILL; then the kernel's count says nothing about this process.
    [[nodiscard]] OomKills look(int wait_status, bool sent_by_us) const {
        return is_kill(wait_status) && !sent_by_us ? grown(before_, count_oom_kills(read_)) : OomKills();
    }

private:
    base::FileReader read_;
    OomKills before_;
};

}  // namespace rueda::launcher
