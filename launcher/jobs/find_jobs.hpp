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
    std::string id;  ///< "j" and the inode of its memory: the same until the job ends
    ArenaView arena;
    std::vector<Holder> holders;
    std::string path;  ///< opens its memory again, as long as the process that find_jobs() found first lives
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

/// The jobs of this user on this host, in the order of their first processes. Process sets, and jobs whose ranks have
/// not met yet, are left out.
[[nodiscard]] JobList find_jobs();

/// Looks again for the processes of the job: some may have joined it since it was found.
void find_holders_again(Job& job);

}  // namespace rueda::launcher
