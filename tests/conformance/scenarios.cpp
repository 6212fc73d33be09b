// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/support/ranks.hpp"

namespace rueda::tests {

std::vector<Scenario> all_scenarios() {
    std::vector<Scenario> all;
    for (const auto& part : {allreduce_scenarios(), exchange_scenarios(), scatter_scenarios(), naming_scenarios(),
                             error_scenarios(), group_scenarios(), root_scenarios(), adasum_scenarios()}) {
        all.insert(all.end(), part.begin(), part.end());
    }
    std::stable_partition(all.begin(), all.end(), [](const Scenario& scenario) { return scenario.early; });
    return all;
}

void run_scenarios(Client& client, std::span<const Scenario> scenarios) {
    for (const Scenario& scenario : scenarios) {
        if (client.size() < scenario.least_ranks) {
            continue;
        }
        try {
            scenario.run(client);
        } catch (const std::exception& error) {
            throw RankCheckFailed(
                fmt::format("{}: rank {} of {}: {}", scenario.name, client.rank(), client.size(), error.what()));
        }
    }
}

void expect_ok(const Status& status, const std::string& what) {
    if (!status.is_ok()) {
        throw RankCheckFailed(fmt::format("{}: {}: {}", what, rueda::name_of(status.code()), status.message()));
    }
}

std::string expect_failure(const Status& status, ErrorCode code, const std::string& what) {
    if (status.code() != code) {
        throw RankCheckFailed(fmt::format("{}: expected {}, got {}: {}", what, rueda::name_of(code),
                                          rueda::name_of(status.code()), status.message()));
    }
    return status.message();
}

std::string without_name(std::string text, const std::string& name) {
    const std::string prefix = fmt::format("tensor '{}': ", name);
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

const char* name_of(Residency residency) {
    switch (residency) {
        case Residency::all_private:
            return "private";
        case Residency::all_resident:
            return "resident";
        case Residency::mixed:
            return "mixed";
    }
    return "unknown";
}

bool is_resident(Residency residency, int rank, int which) {
    return residency == Residency::all_resident || (residency == Residency::mixed && (rank + which) % 3 != 0);
}

}  // namespace rueda::tests
