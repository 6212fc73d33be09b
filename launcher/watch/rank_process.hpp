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

/// The program of a rank, as a child of this process: of ruedarun, or of a supervisor. Only the parent of a process
/// learns how it ended, so this class collects everything that ruedarun needs to know about the end. Threads: one.
class RankProcess {
public:
    explicit RankProcess(base::FileReader read = base::read_small_file) : oom_watch_(std::move(read)) {}

    /// Lets the program be notified when other ranks end. To be called before start(), if at all.
    [[nodiscard]] Status open_line(int rank, int ranks);
    /// Starts the program. `error_number` gets the errno if the system refuses to run it.
    [[nodiscard]] Status start(ChildSpec spec, int& error_number);
    /// 0 before the start, and after end().
    [[nodiscard]] pid_t pid() const { return pid_; }
    void notify(std::string_view notification) const { line_.notify(notification); }
    /// Sends the signal to the program and, if it has a process group of its own, to the whole group: the program may
    /// be a script that runs the trainer.
    void signal(int signal_number);
    /// To be called once, after waitpid() returned `wait_status` for pid().
    [[nodiscard]] RankEnd end(int rank, int wait_status);

private:
    RankLine line_;
    std::string line_address_;
    OomWatch oom_watch_;
    pid_t pid_ = 0;
    bool has_own_group_ = true;
    bool kill_sent_ = false;  ///< this process has sent SIGKILL, so the kernel's count of memory kills says nothing
};

}  // namespace rueda::launcher
