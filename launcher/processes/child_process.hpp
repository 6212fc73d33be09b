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

/// Stands for a descriptor that the child inherits from its parent under the same number.
inline constexpr int kInherit = -1;

struct ChildSpec {
    std::string file;                ///< looked up in PATH if it contains no '/'
    std::vector<std::string> words;  ///< argv
    Environment environment;
    int stdin_fd = kInherit;
    int stdout_fd = kInherit;
    int stderr_fd = kInherit;
    int kept_fd = -1;  ///< another descriptor that the program inherits under its number; −1: none
    bool own_group = true;
    int death_signal = SIGKILL;  ///< the signal that the child gets when its parent dies
    sigset_t signal_mask{};
};

/// Starts a process and waits until the program runs in it. So a program that cannot be started is an error of this
/// function, and `error_number` gets its errno.
/// Threads: the calling process must have only one, because the child gets its death signal when the thread that forked
/// ends.
[[nodiscard]] Result<pid_t> start_child(const ChildSpec& spec, int* error_number = nullptr);

/// This process becomes the program. If that is impossible, prints a line that says why and returns the exit status
/// that a shell would give.
[[nodiscard]] int exec_program(const std::string& file, const std::vector<std::string>& words,
                               const Environment& environment);

/// Lets orphaned descendants become children of this process, so that it can end them.
void adopt_orphans();

/// The children of this process that were not yet reaped.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

/// Ends and reaps every child that is left, and the orphans that become children by that: SIGTERM, then SIGKILL.
void end_leftover_children();

}  // namespace rueda::launcher
