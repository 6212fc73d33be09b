// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/hosts/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace rueda::launcher {

namespace {

/// Goes through the hosts in their order, and gives each host as many ranks as its capacity allows.
Placement fill(const std::vector<Host>& hosts, const std::vector<std::int64_t>& capacities, std::int64_t ranks) {
    Placement placement;
    for (std::size_t i = 0; i < hosts.size() && ranks > 0; ++i) {
        const std::int64_t share = std::min(capacities[i], ranks);
        if (share > 0) {
            placement.shares.push_back({hosts[i].name, static_cast<int>(share)});
            ranks -= share;
        }
    }
    return placement;
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

std::string counted(std::int64_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// How many ranks each host may get, and why.
struct Capacities {
    std::vector<std::int64_t> most;
    std::string reason;
    bool by_slots = false;
};

Capacities per_host_capacities(const HostList& list, int per_host) {
    return {std::vector<std::int64_t>(list.hosts.size(), per_host), fmt::format("--processes-per-host {}", per_host)};
}

/// For a list without numbers of slots: divides the ranks equally. If there is a remainder, the first hosts get one
/// rank more.
Capacities even_capacities(const HostList& list, std::int64_t ranks) {
    const auto hosts = static_cast<std::int64_t>(list.hosts.size());
    Capacities even;
    for (std::int64_t i = 0; i < hosts; ++i) {
        even.most.push_back(ranks / hosts + (i < ranks % hosts ? 1 : 0));
    }
    even.reason = "spread evenly, as no host says its slots";
    return even;
}

Capacities slot_capacities(const HostList& list, std::int64_t ranks) {
    Capacities slots{{}, "the hosts' slots in their order", true};
    for (const Host& host : list.hosts) {
        slots.most.push_back(std::max(1, host.slots));
    }
    // If there are more ranks than slots, hosts with max_slots get more ranks. Each of these hosts in turn gets one
    // more rank, until all ranks have a host.
    std::int64_t missing = ranks - sum(slots.most);
    for (bool has_room = true; missing > 0 && has_room;) {
        has_room = false;
        for (std::size_t i = 0; i < list.hosts.size() && missing > 0; ++i) {
            if (slots.most[i] < list.hosts[i].max_slots) {
                ++slots.most[i];
                --missing;
                has_room = true;
                slots.reason = "the hosts' slots in their order, then up to max_slots";
            }
        }
    }
    return slots;
}

Capacities capacities_of(const HostList& list, std::optional<int> ranks, std::optional<int> per_host) {
    if (per_host) {
        return per_host_capacities(list, *per_host);
    }
    const bool none_says =
        std::all_of(list.hosts.begin(), list.hosts.end(), [](const Host& host) { return host.slots == 0; });
    if (none_says && ranks) {
        return even_capacities(list, *ranks);
    }
    return slot_capacities(list, ranks.value_or(0));
}

}  // namespace

int ranks_of(const Placement& placement) {
    return std::accumulate(placement.shares.begin(), placement.shares.end(), 0,
                           [](int total, const HostShare& share) { return total + share.ranks; });
}

int most_ranks_on_a_host(const Placement& placement) {
    int most = 0;
    for (const HostShare& share : placement.shares) {
        most = std::max(most, share.ranks);
    }
    return most;
}

bool all_are_equal(const std::vector<HostShare>& shares) {
    return std::all_of(shares.begin(), shares.end(),
                       [&](const HostShare& share) { return share.ranks == shares.front().ranks; });
}

Result<Placement> place_ranks(const HostList& list, std::optional<int> ranks, std::optional<int> per_host) {
    if (!ranks && !per_host) {
        ranks = list.ranks;
    }
    const Capacities capacities = capacities_of(list, ranks, per_host);
    const std::int64_t places = sum(capacities.most);
    if (ranks && *ranks > places) {
        return failure(ErrorCode::invalid_argument, "there are to be {} processes, but {} has place for {} ({}); {}",
                       *ranks, list.origin, places, format_hosts(list.hosts),
                       capacities.by_slots ? "give the hosts more slots, or use --processes-per-host"
                                           : "name more hosts, or raise --processes-per-host");
    }
    Placement placement = fill(list.hosts, capacities.most, ranks ? *ranks : places);
    placement.reason = fmt::format("{} on {} from {}: {}", counted(ranks_of(placement), "rank"),
                                   counted(static_cast<std::int64_t>(placement.shares.size()), "host"), list.origin,
                                   capacities.reason);
    return placement;
}

}  // namespace rueda::launcher
