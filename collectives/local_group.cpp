// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/local_group.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

/// The maximum length of a name. Linux allows 64 bytes for a hostname, and a boot id has 36 bytes.
constexpr std::size_t kMaxName = 256;

std::uint64_t inode_of(const char* path) {
    struct stat facts {};
    return ::stat(path, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_ino) : 0;
}

std::string own_hostname() {
    std::array<char, kMaxName + 1> name{};
    return ::gethostname(name.data(), kMaxName) == 0 ? std::string(name.data()) : std::string("localhost");
}

auto host_key(const RankFacts& facts) {
    return std::tie(facts.hostname, facts.boot_id, facts.uid, facts.pid_namespace, facts.ipc_namespace);
}

/// Returns the host's name for messages, which is usually the hostname. If another host of the job has the same
/// hostname, the name also contains facts that distinguish the two hosts.
std::string host_name(const RankFacts& facts, std::span<const RankFacts* const> hosts) {
    const auto same_name = [&](const RankFacts* other) { return other->hostname == facts.hostname; };
    if (std::count_if(hosts.begin(), hosts.end(), same_name) == 1) {
        return facts.hostname;
    }
    return fmt::format("{} (user {}, pid namespace {}, ipc namespace {}, boot {})", facts.hostname, facts.uid,
                       facts.pid_namespace, facts.ipc_namespace, facts.boot_id);
}

/// Sets group.host_of and group.host_names.
void find_hosts(LocalGroup& group) {
    std::vector<const RankFacts*> hosts;
    for (const RankFacts& facts : group.facts) {
        const auto same_host = [&](const RankFacts* other) { return host_key(*other) == host_key(facts); };
        const auto found = std::find_if(hosts.begin(), hosts.end(), same_host);
        group.host_of.push_back(static_cast<int>(found - hosts.begin()));
        if (found == hosts.end()) {
            hosts.push_back(&facts);
        }
    }
    for (const RankFacts* host : hosts) {
        group.host_names.push_back(host_name(*host, hosts));
    }
}

}  // namespace

bool LocalGroup::is_homogeneous() const {
    std::vector<int> ranks_of(static_cast<std::size_t>(host_count), 0);
    for (const int host : host_of) {
        ++ranks_of[static_cast<std::size_t>(host)];
    }
    return std::all_of(ranks_of.begin(), ranks_of.end(), [&](int ranks) { return ranks == ranks_of.front(); });
}

RankFacts own_facts(const std::string& hostname) {
    RankFacts facts;
    facts.hostname = hostname.empty() ? own_hostname() : hostname;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> facts.boot_id;
    facts.uid = ::geteuid();
    facts.pid_namespace = inode_of("/proc/self/ns/pid");
    facts.ipc_namespace = inode_of("/proc/self/ns/ipc");
    facts.pid = ::getpid();
    return facts;
}

Bytes encode_facts(const RankFacts& facts) {
    WireWriter writer;
    writer.text(std::string_view(facts.hostname).substr(0, kMaxName));
    writer.text(std::string_view(facts.boot_id).substr(0, kMaxName));
    writer.number(facts.uid);
    writer.number(facts.pid_namespace);
    writer.number(facts.ipc_namespace);
    writer.number(facts.pid);
    return std::move(writer).take();
}

Result<RankFacts> parse_facts(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    RankFacts facts;
    facts.hostname = base::printable(reader.text(kMaxName));
    facts.boot_id = base::printable(reader.text(kMaxName));
    facts.uid = reader.number<std::uint32_t>();
    facts.pid_namespace = reader.number<std::uint64_t>();
    facts.ipc_namespace = reader.number<std::uint64_t>();
    facts.pid = reader.number<std::int32_t>();
    if (!reader.complete() || facts.hostname.empty() || facts.pid <= 0) {
        return failure(ErrorCode::internal,
                       "the description of its host is damaged ({} bytes): do all ranks run the same build of Rueda?",
                       bytes.size());
    }
    return facts;
}

LocalGroup group_by_host(int rank, std::vector<RankFacts> facts) {
    LocalGroup group;
    group.rank = rank;
    group.size = static_cast<int>(facts.size());
    group.facts = std::move(facts);
    find_hosts(group);
    group.host_count = static_cast<int>(group.host_names.size());
    group.job_ranks.resize(static_cast<std::size_t>(group.size));
    std::iota(group.job_ranks.begin(), group.job_ranks.end(), 0);
    group.host_index = group.host_of[static_cast<std::size_t>(rank)];

    std::vector<int> local_sizes(static_cast<std::size_t>(group.host_count), 0);
    for (int r = 0; r < group.size; ++r) {
        const int host = group.host_of[static_cast<std::size_t>(r)];
        ++local_sizes[static_cast<std::size_t>(host)];
        if (host == group.host_index) {
            if (r == rank) {
                group.local_rank = static_cast<int>(group.members.size());
            }
            group.members.push_back(r);
        }
    }
    group.local_size = static_cast<int>(group.members.size());
    group.cross_size = 0;
    for (int host = 0; host < group.host_count; ++host) {
        if (local_sizes[static_cast<std::size_t>(host)] > group.local_rank) {
            group.cross_rank = host == group.host_index ? group.cross_size : group.cross_rank;
            ++group.cross_size;
        }
    }
    return group;
}

Result<LocalGroup> find_local_group(ControlPlane& control_plane, const std::string& hostname) {
    auto gathered = control_plane.allgather(encode_facts(own_facts(hostname)));
    if (!gathered.is_ok()) {
        return gathered.status();
    }
    std::vector<RankFacts> facts;
    for (const Bytes& bytes : gathered.value()) {
        auto parsed = parse_facts(bytes);
        if (!parsed.is_ok()) {
            return failure(ErrorCode::internal, "rank {}: {}", facts.size(), parsed.status().message());
        }
        facts.push_back(std::move(parsed).value());
    }
    return group_by_host(control_plane.rank(), std::move(facts));
}

}  // namespace rueda::collectives
