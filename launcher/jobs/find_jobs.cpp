// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/find_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rueda::launcher {

namespace {

std::string id_of(const FoundArena& arena) { return fmt::format("j{}", arena.inode); }

/// Whether the memory is that of a job, and not of a process set. Both have the same form, but ranks register only in
/// the memory of the job.
bool has_ranks(const ArenaView& arena) {
    for (std::uint32_t member = 0; member < arena.members(); ++member) {
        // relaxed: if a rank's store is not visible yet, the next search finds the rank
        if (arena.control().ranks[member].pid.load(std::memory_order_relaxed) != 0) {
            return true;
        }
    }
    return false;
}

std::vector<std::int32_t> pids_of(const FoundArena& arena) {
    std::vector<std::int32_t> pids;
    for (const Holder& holder : arena.holders) {
        pids.push_back(holder.pid);
    }
    return pids;
}

/// Adds the job, unless it is already in the list. A job has shared memory of its own, and so has each of its process
/// sets. Memory of the two kinds looks the same if it cannot be read. So the same job may be found several times.
void add_unreadable(std::vector<UnreadableJob>& jobs, UnreadableJob job) {
    const bool is_known = std::any_of(jobs.begin(), jobs.end(), [&job](const UnreadableJob& other) {
        return std::includes(other.pids.begin(), other.pids.end(), job.pids.begin(), job.pids.end()) &&
               other.problem == job.problem;
    });
    if (!is_known) {
        jobs.push_back(std::move(job));
    }
}

}  // namespace

void find_holders_again(Job& job) {
    job.holders.clear();
    for (FoundArena& found : find_arenas()) {
        if (id_of(found) == job.id) {
            job.holders = std::move(found.holders);
        }
    }
}

JobList find_jobs() {
    JobList list;
    for (const FoundArena& found : find_arenas()) {
        const std::string id = id_of(found);
        Result<ArenaView> arena = ArenaView::open(found.path);
        if (arena.is_ok()) {
            if (has_ranks(arena.value())) {
                list.jobs.push_back({id, std::move(arena).value(), found.holders, found.path});
            }
        } else if (arena.status().code() != ErrorCode::not_initialized) {
            add_unreadable(list.unreadable, {id, pids_of(found), arena.status().message()});
        }
    }
    return list;
}

}  // namespace rueda::launcher
