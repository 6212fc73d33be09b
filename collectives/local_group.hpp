// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// What a rank tells the others about where it runs. Ranks share a host when everything but `pid` is the same: the boot
/// id tells machines with one name apart, the namespaces tell containers of one machine apart (their pids say nothing
/// to each other, and liveness needs pids), and another user's memory is private.
struct RankFacts {
    std::string hostname;
    std::string boot_id;
    std::uint32_t uid = 0;
    std::uint64_t pid_namespace = 0;  ///< inode number; 0 where /proc does not tell
    std::uint64_t ipc_namespace = 0;
    std::int32_t pid = 0;
};

/// Which ranks share my host, and the numbers that follow from it.
struct LocalGroup {
    int rank = 0;
    int size = 1;
    std::vector<int> members;  ///< ranks of my host, ascending; the first is the leader
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;  ///< my position among the ranks with my local rank
    int cross_size = 1;  ///< how many those are
    int host_index = 0;  ///< hosts are in the order of their lowest ranks
    int host_count = 1;
    std::vector<int> host_of;             ///< by rank
    std::vector<RankFacts> facts;         ///< by rank
    std::vector<std::string> host_names;  ///< by host index; told apart where hostnames are equal
    std::vector<int> job_ranks;           ///< by rank; of a process set: what its ranks are in the job

    [[nodiscard]] int leader() const { return members.front(); }
    [[nodiscard]] int job_rank(int of) const { return job_ranks[static_cast<std::size_t>(of)]; }
    [[nodiscard]] bool is_leader() const { return local_rank == 0; }
    /// Every host has as many ranks.
    [[nodiscard]] bool is_homogeneous() const;
};

/// Of the calling process. `hostname` is the setting RUEDA_HOSTNAME; empty: the machine's own name.
[[nodiscard]] RankFacts own_facts(const std::string& hostname = "");
[[nodiscard]] Bytes encode_facts(const RankFacts& facts);
/// Bytes of another process, unchecked so far.
[[nodiscard]] Result<RankFacts> parse_facts(std::span<const std::byte> bytes);

/// Pure: what rank `rank` makes of everybody's facts.
[[nodiscard]] LocalGroup group_by_host(int rank, std::vector<RankFacts> facts);

/// Collective over the control plane. `hostname` as in own_facts().
[[nodiscard]] Result<LocalGroup> find_local_group(ControlPlane& control_plane, const std::string& hostname = "");

}  // namespace rueda::collectives
