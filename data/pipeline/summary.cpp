// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace rueda::data {

std::string describe_slowest(const Statistics& statistics) {
    // A run that is shorter than this spends most of its time on the start of the threads. So its times do not say
    // which stage is slow.
    constexpr double kShortRunSeconds = 1.0;
    if (statistics.batches == 0 || statistics.seconds < kShortRunSeconds) {
        return {};
    }
    // If the consumer waited for less than this share of the time, its wait is only the usual cost of getting batches.
    constexpr double kNoticeable = 0.02;
    if (statistics.consumer_waited < kNoticeable * statistics.seconds) {
        return "the consumer is the slowest stage";
    }
    const double working = statistics.parsing + statistics.mapping;
    if (statistics.starved > working) {
        return fmt::format(
            "the slowest stage is reading ({:.2f} s in {} lanes); more lanes or less compression would help",
            statistics.reading, statistics.lanes);
    }
    return fmt::format("the slowest stage is {} ({:.2f} s in {} threads); more threads would help if there are cores",
                       statistics.mapping > statistics.parsing ? "mapping" : "parsing",
                       std::max(statistics.mapping, statistics.parsing), statistics.threads);
}

std::string summarize(const Statistics& statistics) {
    const double seconds = std::max(statistics.seconds, 1e-9);
    std::string text = fmt::format(
        "input: {} batches, {} samples, {} in {:.2f} s ({:.0f} samples/s); the consumer waited {:.2f} s "
        "({:.0f} %)",
        statistics.batches, statistics.records, base::format_bytes(static_cast<std::uint64_t>(statistics.bytes)),
        statistics.seconds, static_cast<double>(statistics.records) / seconds, statistics.consumer_waited,
        100 * statistics.consumer_waited / seconds);
    if (const std::string slowest = describe_slowest(statistics); !slowest.empty()) {
        text += "; " + slowest;
    }
    if (statistics.malformed > 0) {
        text += fmt::format("; {} malformed records were left out", statistics.malformed);
    }
    if (statistics.cache_opened > 0) {
        text += fmt::format("; {} times a file came from the cache", statistics.cache_opened);
    }
    if (statistics.cache_refused > 0) {
        text += fmt::format("; {} times the cache could not keep a file, first because: {}", statistics.cache_refused,
                            statistics.cache_refusal);
    }
    return text;
}

}  // namespace rueda::data
