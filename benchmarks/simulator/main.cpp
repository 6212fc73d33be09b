// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Simulates the negotiation in jobs with thousands of ranks. Compares Rueda's tree of leaders with Horovod's cycles.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/simulator/model.hpp"

namespace {

using namespace rueda::simulator;

struct Options {
    std::vector<std::uint32_t> ranks{8, 64, 512, 4096, 16384};
    std::uint32_t steps = 3;
    double backward_ms = 100;
    double skew_ms = 1;
    double noise_us = 50;
    double straggler_ms = 10;
    double latency_us = 5;
    double message_us = 1;
    double item_us = 0.4;
    double cycle_ms = 1;
    double tensor_kib = 256;
    double fusion_mib = 64;
    std::string json;
};

struct Row {
    std::string scheme;
    std::string step;
    std::uint32_t ranks = 0;
    std::uint32_t hosts = 0;
    std::uint32_t tensors = 0;
    std::uint32_t depth = 0;
    StepResult result;
};

Nanoseconds nanoseconds(double value, double unit) { return std::llround(value * unit); }
double microseconds(Nanoseconds value) { return static_cast<double>(value) / 1e3; }

std::vector<Row> rows_of(const Job& job, const Costs& costs, std::uint32_t steps) {
    const auto tree = simulate_tree(job, costs, steps);
    const auto cycles = simulate_cycles(job, costs, steps);
    Job alone = job;
    alone.tensors = 1;
    const auto tree_alone = simulate_tree(alone, costs, 2);
    const auto cycles_alone = simulate_cycles(alone, costs, 2);
    const auto row = [&job](const char* scheme, const char* step, std::uint32_t tensors, std::uint32_t depth,
                            const StepResult& result) {
        return Row{scheme, step, job.ranks(), job.hosts, tensors, depth, result};
    };
    const std::uint32_t tree_depth = depth_of_tree(job);
    const std::uint32_t cycles_depth = depth_of_cycles(job);
    return {row("tree", "first", job.tensors, tree_depth, tree.front()),
            row("tree", "later", job.tensors, tree_depth, tree.back()),
            row("tree", "one tensor", 1, tree_depth, tree_alone.back()),
            row("cycles", "first", job.tensors, cycles_depth, cycles.front()),
            row("cycles", "later", job.tensors, cycles_depth, cycles.back()),
            row("cycles", "one tensor", 1, cycles_depth, cycles_alone.back())};
}

void print_head() {
    fmt::print("{:>6} {:>6} {:<7} {:<10} {:>7} {:>5} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>5}\n",
               "ranks", "hosts", "scheme", "step", "tensors", "depth", "rounds", "messages", "KiB", "delay p50",
               "delay max", "busiest", "all", "per rank", "once");
    fmt::print("{:>96} {:>10} {:>10} {:>10} {:>10}\n", "us", "us", "us", "ms", "ns");
}

void print_row(const Row& row) {
    const StepResult& r = row.result;
    fmt::print(
        "{:>6} {:>6} {:<7} {:<10} {:>7} {:>5} {:>6} {:>10} {:>10} {:>10.0f} {:>10.0f} {:>10.0f} {:>10.1f} {:>10.0f} "
        "{:>5}\n",
        row.ranks, row.hosts, row.scheme, row.step, row.tensors, row.depth, r.rounds, r.messages, r.bytes / 1024,
        microseconds(r.delay(0.5)), microseconds(r.delay(1)), microseconds(r.busiest), microseconds(r.work) / 1e3,
        static_cast<double>(r.coordinator) / row.ranks, r.exactly_once ? "yes" : "NO");
}

nlohmann::json json_of(const Row& row) {
    const StepResult& r = row.result;
    return {{"scheme", row.scheme},
            {"step", row.step},
            {"ranks", row.ranks},
            {"hosts", row.hosts},
            {"tensors", row.tensors},
            {"depth", row.depth},
            {"rounds", r.rounds},
            {"messages", r.messages},
            {"most_messages_of_a_node", r.most_messages},
            {"bytes", r.bytes},
            {"delay_microseconds",
             {{"median", microseconds(r.delay(0.5))},
              {"p90", microseconds(r.delay(0.9))},
              {"max", microseconds(r.delay(1))}}},
            {"busiest_microseconds", microseconds(r.busiest)},
            {"all_microseconds", microseconds(r.work)},
            {"coordinator_microseconds", microseconds(r.coordinator)},
            {"coordinator_nanoseconds_per_rank", static_cast<double>(r.coordinator) / row.ranks},
            {"exactly_once", r.exactly_once}};
}

void declare(CLI::App& app, Options& options, Job& job, Costs& costs) {
    app.add_option("--ranks", options.ranks, "Sizes of the job, each a multiple of --ranks-per-host")
        ->capture_default_str();
    app.add_option("--ranks-per-host", job.ranks_per_host)->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--tensors", job.tensors, "Tensors of a step")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--steps", options.steps, "Steps; the last one is shown as 'later'")
        ->check(CLI::Range(2, 1000))
        ->capture_default_str();
    app.add_option("--seed", job.seed)->capture_default_str();
    app.add_option("--json", options.json, "Writes everything to this file as well");
    auto* work = app.add_option_group("The job");
    work->add_option("--backward-ms", options.backward_ms, "In which the tensors become ready")->capture_default_str();
    work->add_option("--skew-ms", options.skew_ms, "Ranks begin a step up to so much later")->capture_default_str();
    work->add_option("--noise-us", options.noise_us, "Each tensor of a rank is up to so late")->capture_default_str();
    work->add_option("--stragglers", job.stragglers, "Share of ranks that are late in a step")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    work->add_option("--straggler-ms", options.straggler_ms, "By so much")->capture_default_str();
    work->add_option("--tensor-kib", options.tensor_kib)->capture_default_str();
    auto* network = app.add_option_group("The network and the CPUs");
    network->add_option("--latency-us", options.latency_us, "Between hosts, one way")->capture_default_str();
    network->add_option("--gigabytes-per-second", costs.bytes_per_nanosecond, "Each host's way out")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    network->add_option("--message-us", options.message_us, "CPU time to send a message, and to receive one")
        ->capture_default_str();
    network->add_option("--item-us", options.item_us, "CPU time for an announcement or a decision")
        ->capture_default_str();
    auto* schemes = app.add_option_group("The schemes");
    schemes->add_option("--radix", job.radix, "Children of a leader")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    schemes->add_option("--fusion-mib", options.fusion_mib)->capture_default_str();
    schemes->add_option("--cycle-ms", options.cycle_ms, "Horovod's cycle time")->capture_default_str();
    schemes->add_option("--cache", job.cache_capacity, "Horovod's response cache, tensors")->capture_default_str();
    app.footer(
        "Examples:\n"
        "  rueda_simulator                                      the table of docs/simulator.md\n"
        "  rueda_simulator --ranks 4096 --tensors 10000         more tensors than Horovod's cache holds\n"
        "  rueda_simulator --ranks 512 --latency-us 30          TCP between the hosts\n"
        "  rueda_simulator --json simulator.json                for benchmarks/simulator/plot.py\n\n"
        "A row is a step: 'first' (names are new), 'later' (known), 'one tensor' (known, alone). delay: from ready on "
        "the\n"
        "last rank to known on the last host. busiest: CPU time of the node that works most; all: of all together;\n"
        "per rank: of the coordinator, divided by the ranks. once: each host got each tensor once, in one order.");
}

void apply(const Options& options, Job& job, Costs& costs) {
    job.backward = nanoseconds(options.backward_ms, 1e6);
    job.skew = nanoseconds(options.skew_ms, 1e6);
    job.noise = nanoseconds(options.noise_us, 1e3);
    job.straggler_delay = nanoseconds(options.straggler_ms, 1e6);
    job.cycle = nanoseconds(options.cycle_ms, 1e6);
    job.tensor_bytes = static_cast<std::uint64_t>(options.tensor_kib * 1024);
    job.fusion_threshold_bytes = static_cast<std::uint64_t>(options.fusion_mib * 1024 * 1024);
    costs.latency = nanoseconds(options.latency_us, 1e3);
    costs.send = costs.receive = nanoseconds(options.message_us, 1e3);
    costs.item = nanoseconds(options.item_us, 1e3);
}

int run(const Options& options, Job job, const Costs& costs) {
    nlohmann::json report{{"ranks_per_host", job.ranks_per_host},
                          {"steps", options.steps},
                          {"seed", job.seed},
                          {"radix", job.radix},
                          {"backward_ms", options.backward_ms},
                          {"skew_ms", options.skew_ms},
                          {"noise_us", options.noise_us},
                          {"stragglers", job.stragglers},
                          {"straggler_ms", options.straggler_ms},
                          {"latency_us", options.latency_us},
                          {"gigabytes_per_second", costs.bytes_per_nanosecond},
                          {"message_us", options.message_us},
                          {"item_us", options.item_us},
                          {"cycle_ms", options.cycle_ms},
                          {"cache", job.cache_capacity},
                          {"rows", nlohmann::json::array()}};
    bool right = true;
    print_head();
    for (const std::uint32_t ranks : options.ranks) {
        if (ranks == 0 || ranks % job.ranks_per_host != 0) {
            fmt::print(stderr, "rueda_simulator: {} ranks are no multiple of {} ranks on a host\n", ranks,
                       job.ranks_per_host);
            return 2;
        }
        job.hosts = ranks / job.ranks_per_host;
        for (const Row& row : rows_of(job, costs, options.steps)) {
            print_row(row);
            report["rows"].push_back(json_of(row));
            right = right && row.result.exactly_once;
        }
        std::fflush(stdout);
    }
    if (!options.json.empty()) {
        std::ofstream file(options.json);
        file << report.dump(2) << '\n';
        if (!file.flush()) {
            fmt::print(stderr, "rueda_simulator: cannot write '{}'\n", options.json);
            return 1;
        }
    }
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    Job job;
    Costs costs;
    CLI::App app("Who is ready, simulated: Rueda's tree of leaders beside Horovod's cycles.", "rueda_simulator");
    declare(app, options, job, costs);
    CLI11_PARSE(app, argc, argv);
    try {
        apply(options, job, costs);
        return run(options, job, costs);
    } catch (const std::exception& error) {
        fmt::print(stderr, "rueda_simulator: {}\n", error.what());
        return 1;
    }
}
