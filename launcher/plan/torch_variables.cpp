// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/torch_variables.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>

#include "base/numbers.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

bool is_torchruns_own(std::string_view name) {
    // Only these three of the names that begin with ROLE_ belong to torchrun. Other such names may be the user's own.
    constexpr std::array<std::string_view, 3> kRoleNames = {"ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"};
    return name.starts_with("TORCHELASTIC_") ||
           std::find(kRoleNames.begin(), kRoleNames.end(), name) != kRoleNames.end();
}

std::optional<int> first_number(const Environment& environment, std::initializer_list<const char*> names) {
    for (const char* const name : names) {
        if (const auto number = base::parse_integer<int>(text_of(environment, name)); number && *number >= 0) {
            return number;
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<EnvironmentChange> torch_variables(const TorchPlace& place, const MasterAddress& master) {
    std::vector<EnvironmentChange> changes = {{"RANK", std::to_string(place.rank)},
                                              {"WORLD_SIZE", std::to_string(place.ranks)},
                                              {"LOCAL_RANK", std::to_string(place.local_rank)},
                                              {"LOCAL_WORLD_SIZE", std::to_string(place.local_ranks)},
                                              {"GROUP_RANK", std::to_string(place.host)},
                                              {"NODE_RANK", std::to_string(place.host)},
                                              {"GROUP_WORLD_SIZE", std::to_string(place.hosts)}};
    if (master.port != 0) {
        changes.push_back({"MASTER_ADDR", master.host});
        changes.push_back({"MASTER_PORT", std::to_string(master.port)});
    }
    return changes;
}

std::vector<std::string> names_of_outer_torchrun(const Environment& environment) {
    std::vector<std::string> names;
    for (const auto& [name, value] : environment) {
        const bool is_set_by_us =
            std::find(kTorchVariables.begin(), kTorchVariables.end(), name) != kTorchVariables.end();
        if (is_set_by_us || is_torchruns_own(name)) {
            names.push_back(name);
        }
    }
    return names;
}

std::vector<EnvironmentChange> torch_variables_of_mpirun(const Environment& environment) {
    const auto rank = first_number(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
    const auto ranks = first_number(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
    const auto local_rank = first_number(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"});
    const auto local_ranks = first_number(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
    if (!rank || !ranks) {
        return {};
    }
    TorchPlace place;
    place.rank = *rank;
    place.ranks = *ranks;
    place.local_rank = local_rank.value_or(0);
    place.local_ranks = local_ranks.value_or(1);
    std::vector<EnvironmentChange> changes = torch_variables(place, {});
    std::erase_if(changes, [&](const EnvironmentChange& change) {
        const bool is_local = change.name.starts_with("LOCAL_");
        const bool is_global = change.name == "RANK" || change.name == "WORLD_SIZE";
        return is_local ? !local_rank || !local_ranks : !is_global && local_ranks != ranks;
    });
    return changes;
}

std::string encode_variables(const std::vector<EnvironmentChange>& changes) {
    std::string text;
    for (const EnvironmentChange& change : changes) {
        if (change.value) {
            text += change.name + "=" + *change.value + "\n";
        }
    }
    return text;
}

std::vector<EnvironmentChange> decode_variables(std::string_view text) {
    std::vector<EnvironmentChange> changes;
    while (!text.empty()) {
        const std::string_view line = take_until(text, '\n');
        if (const std::size_t equals = line.find('='); equals != std::string_view::npos && equals != 0) {
            changes.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
        }
    }
    return changes;
}

std::vector<TorchPlace> torch_places(const std::vector<std::string>& host_of_rank) {
    struct KnownHost {
        int number = 0;
        int ranks = 0;
    };
    std::map<std::string, KnownHost> hosts;
    std::vector<TorchPlace> places;
    for (const std::string& name : host_of_rank) {
        KnownHost& host = hosts.try_emplace(name, KnownHost{static_cast<int>(hosts.size()), 0}).first->second;
        TorchPlace place;
        place.rank = static_cast<int>(places.size());
        place.local_rank = host.ranks++;
        place.host = host.number;
        places.push_back(place);
    }
    for (TorchPlace& place : places) {
        place.ranks = static_cast<int>(places.size());
        place.local_ranks = hosts.at(host_of_rank[static_cast<std::size_t>(place.rank)]).ranks;
        place.hosts = static_cast<int>(hosts.size());
    }
    return places;
}

}  // namespace rueda::launcher
