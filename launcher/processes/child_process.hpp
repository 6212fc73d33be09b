// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// Stands for a descriptor that the child inherits from its parent with the same number.
inline constexpr int kInherit = -1;

struct ChildSpec {
    std::string file;                ///< the program's file; looked up in PATH if it contains no '/'
    std::vector<std::string> words;  ///< argv
    Environment environment;
    int stdin_fd = kInherit;
    int stdout_fd = kInherit;
    int stderr_fd = kInherit;
    int kept_fd = -1;  ///< another descriptor that the program inherits with the same number; −1 if there is none
    bool own_group = true;
    int death_signal = SIGKILL;  ///< the signal that the child gets when its parent dies
    sigset_t signal_mask{};
};

/// Starts a process and waits until the program runs in it. So if the program cannot be started, this function fails,
/// and `error_number` gets the errno. Threads: the calling process must have only one thread, because the child gets
/// its death signal when the thread that forked it ends.
[[nodiscard]] Result<pid_t> start_child(const ChildSpec& spec, int* error_number = nullptr);

/// Replaces this process by the program (exec). If this is impossible, prints a line that says why, and returns the
/// exit status that a shell would return.
[[nodiscard]] int exec_program(const std::string& file, const std::vector<std::string>& words,
                               const Environment& environment);

/// Makes orphaned descendants become children of this process, so that it can end them.
void adopt_orphans();

/// The children of this process that were not yet reaped.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

/// Ends and reaps all remaining children, including orphans that become children meanwhile. They get SIGTERM first, and
/// SIGKILL later.
void end_leftover_children();

}  // namespace rueda::launcher
