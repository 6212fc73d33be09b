// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <string>

#include "base/settings/config.hpp"
#include "tests/conformance/runtime_client.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// Settings that make tests independent of the machine: a small limit of resident memory, and no warnings.
[[nodiscard]] inline base::Config test_config() {
    base::Config config;
    config.resident_limit_bytes = 64 * base::kMiB;
    config.log_level = base::LogLevel::off;
    return config;
}

/// The settings of test_config() with the smallest sizes: chunks of four cache lines, few cells, batches of a few
/// tensors, and few slots. With these sizes, small tensors take the code paths of large tensors.
[[nodiscard]] inline base::Config tiny_config() {
    base::Config config = test_config();
    config.chunk_bytes = 256;
    config.cells_per_rank = 2;
    config.fusion_threshold_bytes = 4 * base::kKiB;
    config.slots = 16;
    config.slots_max = 1984;
    return config;
}

/// Usually a sleeping thread wakes up by itself several times a second. With these settings it wakes up by itself only
/// after an hour, so a lost wake-up makes a test hang.
[[nodiscard]] inline base::Config patient_config() {
    constexpr double kHour = 3600;
    base::Config config = test_config();
    config.look_again_seconds = kHour;
    // no checks for dead ranks: such a check makes progress, which could hide a lost wake-up
    config.liveness_seconds = kHour;
    return config;
}

/// The host of each rank: "aab" means two ranks on host a and one on host b. Layouts need ranks that are threads.
using Layout = std::string;

/// Runs `body` on each rank of a job. Each rank has a Runtime. A layout places the ranks on several hosts.
[[nodiscard]] inline RanksResult run_clients(int size, const base::Config& config,
                                             const std::function<void(RankContext&, RuntimeClient&)>& body,
                                             const RanksOptions& options = {}, const Layout& layout = {}) {
    return run_ranks(
        size,
        [&](RankContext& context) {
            context.phase("init");
            auto plane = context.open_control_plane();
            plane.status().throw_if_failed();
            base::Config own = config;
            if (!layout.empty()) {
                own.hostname = std::string("host-") + layout.at(static_cast<std::size_t>(context.rank()));
            }
            auto client = RuntimeClient::create(own, std::move(plane).value());
            client.status().throw_if_failed();
            context.phase("body");
            body(context, *client.value());
            context.phase("shutdown");
            client.value()->shutdown().throw_if_failed();
        },
        options);
}

}  // namespace rueda::tests
