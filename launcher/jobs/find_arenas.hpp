// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rueda::launcher {

/// A process that has the shared memory of a job open: a rank, or a child of a rank.
struct Holder {
    std::int32_t pid = 0;        ///< the process's number in the namespace of the calling process
    std::int32_t inner_pid = 0;  ///< the process's number in its own namespace; differs from `pid` in a container
    std::uint64_t start_time = 0;
};

/// The shared memory of a job or of one of its process sets. find_arenas() finds it because processes have it open as a
/// file.
struct FoundArena {
    std::uint64_t inode = 0;
    std::string path;  ///< /proc/<pid>/fd/<n>; this path can be used as long as the process <pid> has the file open
    std::vector<Holder> holders;
};

/// Searches the open files of all processes of this user on this host, in the order of the process numbers. A process
/// is left out if the system does not allow this program to inspect it, or if it ends during the search.
[[nodiscard]] std::vector<FoundArena> find_arenas();

/// Returns the last number in the line "NSpid:" of /proc/<pid>/status, which is the process's number in its own
/// namespace. Returns 0 if there is no such line.
[[nodiscard]] std::int32_t parse_inner_pid(const std::string& status);

}  // namespace rueda::launcher
