// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// Runs `body` in forked processes with the environment of launched ranks, so that rueda::init() joins them in one job.
[[nodiscard]] inline RanksResult run_public_ranks(int size, const std::function<void(RankContext&)>& body,
                                                  RanksOptions options = {}) {
    static std::atomic<int> counter{0};
    const std::string rendezvous = fmt::format("@rueda-public-{}-{}", ::getpid(), ++counter);
    options.as = RanksAs::processes;
    return run_ranks(
        size,
        [&](RankContext& context) {
            ::setenv("RUEDA_RENDEZVOUS", rendezvous.c_str(), 1);
            ::setenv("RUEDA_RANK", std::to_string(context.rank()).c_str(), 1);
            ::setenv("RUEDA_SIZE", std::to_string(size).c_str(), 1);
            ::setenv("RUEDA_RESIDENT_LIMIT", "64M", 0);
            body(context);
        },
        options);
}

/// Returns the message of the failure that the call must throw. If the call throws nothing or something else, returns a
/// text that says so.
template <class Failure>
[[nodiscard]] std::string refused(const std::function<void()>& call) {
    try {
        call();
        return "accepted";
    } catch (const Failure& error) {
        return error.what();
    } catch (const std::exception& error) {
        return std::string("another error: ") + error.what();
    }
}

}  // namespace rueda::tests
