// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <string_view>

#include "base/files.hpp"
#include "base/status.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/oom_kills.hpp"
#include "launcher/watch/rank_end.hpp"
#include "launcher/watch/rank_line.hpp"

namespace rueda::launcher {

/// The program of a rank, as a child of this process, which is ruedarun or a supervisor. Only the parent of a process
/// learns how it ended, so this class collects everything that ruedarun needs to know about the end. Threads: one.
class RankProcess {
public:
    explicit RankProcess(base::FileReader read = base::read_small_file) : oom_watch_(std::move(read)) {}

    /// Makes it possible to notify the program when other ranks end. If it is called, it must be called before start().
    [[nodiscard]] Status open_line(int rank, int ranks);
    /// Starts the program. `error_number` gets the errno if the system refuses to run it.
    [[nodiscard]] Status start(ChildSpec spec, int& error_number);
    /// The pid; 0 before the start, and after end().
    [[nodiscard]] pid_t pid() const { return pid_; }
    void notify(std::string_view notification) const { line_.notify(notification); }
    /// Sends the signal to the program. If the program has its own process group, sends it to the whole group, because
    /// the program may be a script that runs the training program.
    void signal(int signal_number);
    /// Call this once, after waitpid() returned `wait_status` for pid().
    [[nodiscard]] RankEnd end(int rank, int wait_status);

private:
    RankLine line_;
    std::string line_address_;
    OomWatch oom_watch_;
    pid_t pid_ = 0;
    bool has_own_group_ = true;
    bool kill_sent_ = false;  ///< whether this process has sent SIGKILL, so that the kernel's count of memory kills
                              ///< says nothing
};

}  // namespace rueda::launcher
