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

/// The program of a rank, as a child of this process. (This process is ruedarun, or a supervisor, which mpirun starts
/// for each rank.) Only the parent of a process learns how the process ended. So this class collects everything that
/// ruedarun needs to know about the end. Threads: only one thread may use an object.
class RankProcess {
public:
    explicit RankProcess(base::FileReader read = base::read_small_file) : oom_watch_(std::move(read)) {}

    /// Opens a socket over which the program is notified when other ranks end. Calling this function is optional. If it
    /// is called, this must happen before start().
    [[nodiscard]] Status open_line(int rank, int ranks);
    /// Starts the program. If the system refuses to run it, stores the errno in `error_number`.
    [[nodiscard]] Status start(ChildSpec spec, int& error_number);
    /// The program's pid; 0 before the start and after end().
    [[nodiscard]] pid_t pid() const { return pid_; }
    void notify(std::string_view notification) const { line_.notify(notification); }
    [[nodiscard]] int line_fd() const { return line_.fd(); }
    [[nodiscard]] bool take_wait() { return line_.take_wait(); }
    /// Sends a signal to the program. If the program has its own process group, the whole group gets the signal,
    /// because the program may be a script that runs the training program.
    void signal(int signal_number);
    /// Ends what the program has left behind in its process group: its helper processes, or the training program if the
    /// program was a script. Sends SIGTERM if `politely` is true, otherwise SIGKILL. Call this when the program has
    /// ended, but before its exit status is collected. Until it is collected, no other process group can get the same
    /// number.
    void end_group(bool politely) const;
    /// Returns how the program ended. Call this once, after waitpid() returned `wait_status` for pid().
    [[nodiscard]] RankEnd end(int rank, int wait_status);

private:
    RankLine line_;
    std::string line_address_;
    OomWatch oom_watch_;
    pid_t pid_ = 0;
    bool has_own_group_ = true;
    /// Whether this process has sent SIGKILL. If so, the program's end by SIGKILL does not mean that memory ran out.
    bool kill_sent_ = false;
};

}  // namespace rueda::launcher
