// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The conformance suite as a user's program: started by mpirun, over the public interface and the settings of the
// environment. Exit status 0, or 1 with the first failure on the standard error.
#include <cstdio>
#include <exception>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_client.hpp"
#include "tests/conformance/scenarios.hpp"

int main() {
    try {
        rueda::init();
        rueda::tests::PublicClient client;
        rueda::tests::run_scenarios(client, rueda::tests::all_scenarios());
        rueda::shutdown();
        // A second job of the same processes.
        rueda::init();
        rueda::tests::PublicClient again;
        rueda::tests::run_scenarios(again, rueda::tests::error_scenarios());
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
