// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// A descriptor that the child shares with its parent under the same number.
inline constexpr int kInherit = -1;

struct ChildSpec {
    std::string file;                ///< looked up in PATH where it contains no '/'
    std::vector<std::string> words;  ///< argv
    std::map<std::string, std::string> environment;
    int stdin_fd = kInherit;
    int stdout_fd = kInherit;
    int stderr_fd = kInherit;
    int kept_fd = -1;  ///< besides those, stays open in the program under its number; −1: none
    bool own_group = true;
    int death_signal = SIGKILL;  ///< what it gets when the process that starts it is gone
    sigset_t signal_mask{};
};

/// Starts a process and waits until the program runs in it, so that a program that cannot be started is an error here;
/// `error_number` then gets its errno.
/// Threads: the calling process must have only one, for the child's death signal hangs on the thread that forked.
[[nodiscard]] Result<pid_t> start_child(const ChildSpec& spec, int* error_number = nullptr);

/// This process becomes the program. Returns the exit status of a shell where that cannot be, after a line that says
/// why.
[[nodiscard]] int exec_program(const std::string& file, const std::vector<std::string>& words,
                               const std::map<std::string, std::string>& environment);

/// Lets orphaned descendants become children of this process, so that it can end them.
void adopt_orphans();

/// The children of this process that are not yet reaped.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

/// Ends and reaps every child that is left, and those that become ours by that: SIGTERM, then SIGKILL.
void end_leftover_children();

}  // namespace rueda::launcher
