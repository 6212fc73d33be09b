// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/master_choice.hpp"

#include <algorithm>

#include "base/network/socket_address.hpp"
#include "launcher/connection/reachability.hpp"

namespace rueda::launcher {

void MasterChoice::take(int rank, std::string_view answer) {
    if (asked_.contains(rank)) {
        answers_.insert_or_assign(rank, parse_endpoints(answer));
    }
}

std::string MasterChoice::address(const std::string& usual) const {
    std::string best = usual;
    std::ptrdiff_t most = 0;
    for (const std::string& endpoint : endpoints_) {
        const auto reached = std::count_if(answers_.begin(), answers_.end(), [&](const auto& answer) {
            return std::find(answer.second.begin(), answer.second.end(), endpoint) != answer.second.end();
        });
        const auto where = base::parse_endpoint(endpoint);
        const std::string address = where ? base::numeric_text(*where) : "";
        if (reached > most || (reached == most && reached > 0 && address == usual)) {
            best = address;
            most = reached;
        }
    }
    return best;
}

}  // namespace rueda::launcher
