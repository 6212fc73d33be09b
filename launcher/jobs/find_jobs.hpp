// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/jobs/arena_view.hpp"
#include "launcher/jobs/find_arenas.hpp"

namespace rueda::launcher {

/// A job that runs on this host.
struct Job {
    std::string id;  ///< "j" and the inode of the job's memory; it stays the same until the job ends
    ArenaView arena;
    std::vector<Holder> holders;
    std::string path;  ///< /proc/<pid>/fd/<n>, a path of the job's memory; it can be used until the process <pid> has
                       ///< ended
};

/// A job whose memory this program cannot read.
struct UnreadableJob {
    std::string id;
    std::vector<std::int32_t> pids;
    std::string problem;
};

struct JobList {
    std::vector<Job> jobs;
    std::vector<UnreadableJob> unreadable;
};

/// Returns the jobs of this user on this host, ordered by their first process. Process sets are left out, and so are
/// jobs whose ranks have not found each other yet.
[[nodiscard]] JobList find_jobs();

/// Searches again for the job's processes, because ranks may have joined the job since it was found.
void find_holders_again(Job& job);

}  // namespace rueda::launcher
