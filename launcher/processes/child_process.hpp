// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// This value of a descriptor means that the child inherits the parent's descriptor with the same number (0, 1 or 2).
inline constexpr int kInherit = -1;

struct ChildSpec {
    std::string file;                ///< the program's file; looked up in PATH if it contains no '/'
    std::vector<std::string> words;  ///< argv
    Environment environment;
    int stdin_fd = kInherit;
    int stdout_fd = kInherit;
    int stderr_fd = kInherit;
    int kept_fd = -1;  ///< one more descriptor that the program inherits with the same number; −1: none
    bool own_group = true;
    int death_signal = SIGKILL;  ///< the signal that the child gets when its parent dies
    sigset_t signal_mask{};
};

/// A pipe for the output of a child. Both ends are closed on exec. Reading from an empty pipe does not block.
struct OutputPipe {
    base::UniqueFd read_end;
    base::UniqueFd write_end;
};
[[nodiscard]] Result<OutputPipe> open_output_pipe();

/// Starts a process and waits until the program runs in it. If the program cannot be started, fails and stores the
/// errno in `error_number`. Threads: the calling process must have only one thread, because the child gets its death
/// signal when the thread that forked it ends.
[[nodiscard]] Result<pid_t> start_child(const ChildSpec& spec, int* error_number = nullptr);

/// Replaces this process by the program (exec). If this fails, prints the reason, and returns the exit status that a
/// shell would return.
[[nodiscard]] int exec_program(const std::string& file, const std::vector<std::string>& words,
                               const Environment& environment);

/// Collects the exit statuses of all children that have ended. Calls `ends` for each child before the child's exit
/// status is collected. Until then, no other process or process group can get the same number. Then calls `ended` with
/// the wait status. Does not block.
void collect_ended_children(const std::function<void(pid_t pid, bool is_well)>& ends,
                            const std::function<void(pid_t pid, int wait_status)>& ended);

/// Makes this process the parent of descendants whose own parent has ended, so that this process can end them.
void adopt_orphans();

/// Returns the children of this process whose exit status was not yet collected.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

/// Returns the parent of a process. Returns 0 if the parent is outside of this container, and nothing if there is no
/// such process, or no /proc.
[[nodiscard]] std::optional<pid_t> parent_of(pid_t pid);

/// Ends all remaining children and collects their exit status. This includes orphans that become children meanwhile.
/// Children get SIGTERM first, and SIGKILL later.
void end_leftover_children();

}  // namespace rueda::launcher
