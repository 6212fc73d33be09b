// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Runs the conformance suite as a user's program: under mpirun, through the public interface, with settings from the
// environment. The exit status is 0 if the suite passes. Otherwise it is 1, and the first failure is on standard error.
//
// Usage: mpi_conformance [PREFIX…] runs all scenarios, or only those whose names begin with one of the prefixes.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_client.hpp"
#include "tests/conformance/scenarios.hpp"

namespace {

void run_in_a_set() {
    if (rueda::size() == 1) {
        return;
    }
    // This process set leaves out at least one rank. Its number of ranks is a power of two, so the averages in the
    // scenarios are exact in every order of the additions.
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

void expect(bool holds, const char* what) {
    if (!holds) {
        throw std::runtime_error(std::string(what) + ": " + rueda_last_error());
    }
}

/// Tests calls of the C interface that the C++ interface does not have: calls without a handle, and calls without an
/// output.
void use_c_interface() {
    const int rank = rueda::rank();
    const int size = rueda::size();
    const std::int64_t one = 1;
    std::int32_t mine = rank;
    std::vector<std::int32_t> all(static_cast<std::size_t>(size), -1);
    const std::int64_t of_all = size;
    const rueda_tensor in{&mine, &one, 1, RUEDA_INT32};
    const rueda_tensor out{all.data(), &of_all, 1, RUEDA_INT32};
    rueda_options sum = RUEDA_OPTIONS_INIT;
    sum.reduce_op = RUEDA_SUM;
    const int root = size - 1;

    expect(rueda_gather("c.gather", &in, rank == root ? &out : nullptr, root, nullptr, nullptr) == RUEDA_OK, "gather");
    for (int other = 0; other < size && rank == root; ++other) {
        expect(all[static_cast<std::size_t>(other)] == other, "gathered");
    }
    expect(rueda_gather("c.none", &in, nullptr, rank, nullptr, nullptr) == RUEDA_INVALID_ARGUMENT, "no place");
    expect(rueda_scatter("c.none", &in, nullptr, 0, nullptr, rank, nullptr, nullptr) == RUEDA_INVALID_ARGUMENT, "none");
    expect(rueda_reduce("c.none", &in, nullptr, rank, nullptr) == RUEDA_INVALID_ARGUMENT, "no output");

    const rueda_tensor shape_only{nullptr, &of_all, 1, RUEDA_INT32};
    rueda_tensor part{&mine, &one, 1, RUEDA_INT32};
    expect(rueda_scatter("c.scatter", rank == root ? &out : &shape_only, nullptr, 0, &part, root, nullptr, nullptr) ==
                   RUEDA_OK &&
               mine == rank,
           "scatter");
    rueda_handle* handle = nullptr;
    expect(rueda_scatter("c.scatter", rank == root ? &out : &shape_only, nullptr, 0, nullptr, root, nullptr, &handle) ==
               RUEDA_OK,
           "scatter with a handle");
    rueda_tensor got{};
    expect(rueda_handle_output(handle, &got) == RUEDA_OK && got.shape[0] == 1 &&
               *static_cast<const std::int32_t*>(got.data) == rank,
           "scattered");
    expect(rueda_handle_output_of(handle, 1, &got) == RUEDA_INVALID_ARGUMENT, "an output that is not there");
    rueda_handle_release(handle);

    expect(rueda_reduce("c.reduce", &in, rank == root ? &part : nullptr, root, &sum) == RUEDA_OK, "reduce");
    expect(mine == (rank == root ? size * (size - 1) / 2 : rank), "reduced");

    expect(rueda_grouped_reducescatter("c.group", 1, &out, nullptr, &sum) == RUEDA_INVALID_ARGUMENT, "no outputs");
    expect(rueda_grouped_reducescatter("c.group", 1, &out, &part, &sum) == RUEDA_OK, "grouped reducescatter");
}

std::vector<rueda::tests::Scenario> scenarios_that_begin_with(const std::vector<std::string_view>& words) {
    std::vector<rueda::tests::Scenario> chosen;
    for (const rueda::tests::Scenario& scenario : rueda::tests::all_scenarios()) {
        const auto begins = [&](std::string_view word) { return std::string_view(scenario.name).starts_with(word); };
        if (std::any_of(words.begin(), words.end(), begins)) {
            chosen.push_back(scenario);
        }
    }
    return chosen;
}

int run_only(const std::vector<std::string_view>& words) {
    const std::vector<rueda::tests::Scenario> chosen = scenarios_that_begin_with(words);
    if (chosen.empty()) {
        throw std::runtime_error("no scenario begins so");
    }
    rueda::init();
    rueda::tests::PublicClient client;
    rueda::tests::run_scenarios(client, chosen);
    rueda::shutdown();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc > 1) {
            return run_only({argv + 1, argv + argc});
        }
        rueda::init();
        use_c_interface();
        rueda::tests::PublicClient client;
        rueda::tests::run_scenarios(client, rueda::tests::all_scenarios());
        rueda::shutdown();
        // The same processes form a second job, in which some ranks also form a process set.
        rueda::init();
        rueda::tests::PublicClient again;
        rueda::tests::run_scenarios(again, rueda::tests::error_scenarios());
        run_in_a_set();
        rueda::tests::run_scenarios(again, rueda::tests::join_scenarios());
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
