// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The conformance suite as a user's program: started by mpirun, over the public interface and the settings of the
// environment. Exit status 0, or 1 with the first failure on the standard error.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_client.hpp"
#include "tests/conformance/scenarios.hpp"

namespace {

void run_in_a_set() {
    if (rueda::size() == 1) {
        return;
    }
    // Not all, and a power of two: the averages of the scenarios are exact then in every order of the ranks.
    std::vector<std::int32_t> ranks(std::bit_floor(static_cast<std::size_t>(rueda::size() - 1)));
    std::iota(ranks.begin(), ranks.end(), 0);
    const rueda::ProcessSet set = rueda::add_process_set(ranks);
    if (set.included()) {
        rueda::tests::PublicClient member(set);
        rueda::tests::run_scenarios(member, rueda::tests::all_scenarios());
    }
    rueda::remove_process_set(set);
    rueda::barrier();
}

}  // namespace

int main() {
    try {
        rueda::init();
        rueda::tests::PublicClient client;
        rueda::tests::run_scenarios(client, rueda::tests::all_scenarios());
        rueda::shutdown();
        // A second job of the same processes, in which some ranks are a process set too.
        rueda::init();
        rueda::tests::PublicClient again;
        rueda::tests::run_scenarios(again, rueda::tests::error_scenarios());
        run_in_a_set();
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
