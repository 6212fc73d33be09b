// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <string>

#include "base/settings/config.hpp"
#include "tests/conformance/runtime_client.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// Settings that make the tests independent of the machine: the resident memory has a small limit, and no warnings are
/// printed.
[[nodiscard]] inline base::Config test_config() {
    base::Config config;
    config.resident_limit_bytes = 64 * base::kMiB;
    config.log_level = base::LogLevel::off;
    return config;
}

/// The same settings, but with the smallest sizes, so that small tensors take the code paths of large ones: chunks of
/// four cache lines, the smallest number of cells, batches of a few tensors, and few slots.
[[nodiscard]] inline base::Config tiny_config() {
    base::Config config = test_config();
    config.chunk_bytes = 256;
    config.cells_per_rank = 2;
    config.fusion_threshold_bytes = 4 * base::kKiB;
    config.slots = 16;
    config.slots_max = 1984;
    return config;
}

/// A sleeping thread usually looks again by itself several times per second. With these settings it looks again only
/// after an hour. So a lost wake-up makes the test hang, and the test fails.
[[nodiscard]] inline base::Config patient_config() {
    constexpr double kHour = 3600;
    base::Config config = test_config();
    config.look_again_seconds = kHour;
    config.liveness_seconds = kHour;  // otherwise, each liveness check would also take a turn
    return config;
}

/// The host of each rank: "aab" means two ranks on host a and one on host b. Works only if the ranks are threads.
using Layout = std::string;

/// Runs `body` in every rank of a job of `size` ranks. Each rank has a Runtime. If a layout is given, the ranks are on
/// several hosts.
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
