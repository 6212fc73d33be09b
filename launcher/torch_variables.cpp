// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/torch_variables.hpp"

#include <algorithm>
#include <map>

namespace rueda::launcher {

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
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
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
