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

/// How many processes the kernel has ended for want of memory, and which file says so. To a process that is ended so,
/// and to its parent, it is SIGKILL like any other: only the difference of two counts tells.
struct OomKills {
    std::uint64_t processes = 0;
    std::string counted_in;  ///< the file; empty: no file tells
};

/// The number of memory.events (control groups version 2), memory.oom_control (version 1) or /proc/vmstat: the value of
/// the line "oom_kill N". Nothing where there is no such line, or no number in it.
[[nodiscard]] std::optional<std::uint64_t> parse_oom_kills(std::string_view text);

/// The count of this process's own control group, which its children share: what the kernel ends in other groups is
/// none of ours. Where the group has none (the root of version 2, kernels before 4.13), that of the whole machine.
[[nodiscard]] OomKills count_oom_kills(const base::FileReader& read = base::read_small_file);

/// What came between two counts. None where they are of different files: the process was moved to another group.
[[nodiscard]] OomKills grown(const OomKills& before, const OomKills& after);

/// "the kernel ended 2 processes for want of memory meanwhile (oom_kill of /sys/fs/cgroup/memory.events); …what to do"
[[nodiscard]] std::string describe(const OomKills& kills);

/// The process ended by SIGKILL, or is a shell that says so of its last command (exit status 137).
[[nodiscard]] bool is_kill(int wait_status);

/// Looks at the count before a process starts and after its end. Threads: one.
class OomWatch {
public:
    explicit OomWatch(base::FileReader read = base::read_small_file) : read_(std::move(read)) {}

    /// Before the start.
    void begin() { before_ = count_oom_kills(read_); }
    /// After the end, once for each process. The kernel counts before it kills. `sent_by_us`: this process, or who
    /// gives it its orders, has sent SIGKILL.
    [[nodiscard]] OomKills look(int wait_status, bool sent_by_us) const {
        return is_kill(wait_status) && !sent_by_us ? grown(before_, count_oom_kills(read_)) : OomKills();
    }

private:
    base::FileReader read_;
    OomKills before_;
};

}  // namespace rueda::launcher
