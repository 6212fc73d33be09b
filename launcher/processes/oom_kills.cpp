// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/oom_kills.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include "base/system/control_groups.hpp"

namespace rueda::launcher {

namespace {

constexpr const char* kWholeMachine = "/proc/vmstat";

/// Reads the count in the first folder, which belongs to the process's own control group. The other folders belong to
/// the enclosing groups, whose counts include other processes.
std::optional<OomKills> count_of_group(const base::FileReader& read, const std::vector<std::string>& folders,
                                       const char* file) {
    if (folders.empty()) {
        return std::nullopt;
    }
    const std::string path = folders.front() + file;
    const std::optional<std::uint64_t> processes = parse_oom_kills(read(path).value_or(""));
    return processes ? std::optional(OomKills{*processes, path}) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_oom_kills(std::string_view text) { return base::find_number(text, "oom_kill"); }

OomKills count_oom_kills(const base::FileReader& read) {
    const base::ControlGroupFolders folders = base::control_group_folders(read, "memory");
    if (const auto count = count_of_group(read, folders.version2, "/memory.events")) {
        return *count;
    }
    if (const auto count = count_of_group(read, folders.version1, "/memory.oom_control")) {
        return *count;
    }
    const std::optional<std::uint64_t> processes = parse_oom_kills(read(kWholeMachine).value_or(""));
    return processes ? OomKills{*processes, kWholeMachine} : OomKills();
}

OomKills grown(const OomKills& before, const OomKills& after) {
    const bool comparable = !before.counted_in.empty() && before.counted_in == after.counted_in;
    return comparable && after.processes > before.processes
               ? OomKills{after.processes - before.processes, after.counted_in}
               : OomKills();
}

std::string describe(const OomKills& kills) {
    const bool is_machine = kills.counted_in == kWholeMachine;
    return fmt::format("the kernel ended {} {}{} for want of memory meanwhile (oom_kill of {}); {}", kills.processes,
                       kills.processes == 1 ? "process" : "processes", is_machine ? " of this machine" : "",
                       kills.counted_in,
                       is_machine ? "use fewer processes a host, smaller batches, or a machine with more memory"
                                  : "raise the memory limit of the container or job, or use fewer processes a host");
}

bool is_kill(int wait_status) {
    constexpr int kKilledInShell = 128 + SIGKILL;
    return WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) == SIGKILL : WEXITSTATUS(wait_status) == kKilledInShell;
}

}  // namespace rueda::launcher
