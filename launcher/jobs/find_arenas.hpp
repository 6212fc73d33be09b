// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rueda::launcher {

/// A process that has the memory of a job open: a rank, or a child of a rank.
struct Holder {
    std::int32_t pid = 0;        ///< as this process sees it
    std::int32_t inner_pid = 0;  ///< as it sees itself: another number in a container
    std::uint64_t start_time = 0;
};

/// The memory of a job, or of one of its process sets, as open files of processes show it.
struct FoundArena {
    std::uint64_t inode = 0;
    std::string path;  ///< /proc/<pid>/fd/<n>: opens it as long as that process has it open
    std::vector<Holder> holders;
};

/// Looks through the open files of all processes of this user on this host, in the order of their numbers. Processes
/// that may not be looked into, or that end meanwhile, are left out.
[[nodiscard]] std::vector<FoundArena> find_arenas();

/// The last number in the line "NSpid:" of /proc/<pid>/status, which is the process's number in its own namespace; 0 if
/// there is none.
[[nodiscard]] std::int32_t parse_inner_pid(const std::string& status);

}  // namespace rueda::launcher
