// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/diagnostics/pending_tensors.hpp"
#include "core/negotiation/call_sites.hpp"

namespace rueda::core {

/// Everything that a stall report says, as data.
struct StallReport {
    struct Tensor {
        std::string name;        ///< empty: unnamed
        std::uint64_t call = 0;  ///< of an unnamed one
        double seconds = 0;      ///< since the first announcement
        std::vector<std::int32_t> ready;
        std::vector<std::int32_t> missing;
        std::vector<SiteOfRanks> sites = {};        ///< where those that are ready have called it, where that is known
        std::vector<std::int32_t> unfinished = {};  ///< have begun the step of the negotiation that comes next
        std::vector<std::int32_t> unread = {};      ///< have to read the log before there is room for it

        /// All of which something is awaited.
        [[nodiscard]] std::vector<std::int32_t> awaited() const;
    };
    /// What a rank is doing of which something is awaited. What is not known is empty, and not printed.
    struct Rank {
        std::int32_t rank = 0;
        std::int32_t pid = 0;
        std::string process_state;
        std::string busy;              ///< the scope that it declared
        std::vector<Tensor> waits_in;  ///< oldest first
        std::string stack;             ///< of its main thread; not captured in this version
        double silent_seconds = 0;     ///< since its background thread last ran, where that is long ago
        std::uint64_t unnamed = 0;     ///< operations without a name that it has started
        std::string host = {};
        std::int64_t step = -1;  ///< the training step that it has begun last; -1: it has told of none
        /// The operation of this process set that it has finished last; `seconds` ago, and without ranks.
        std::optional<Tensor> finished = {};
    };

    double warning_seconds = 60;
    std::vector<Tensor> tensors;  ///< oldest first
    std::vector<Rank> missing_ranks;
    std::vector<std::int32_t> unheard = {};  ///< ranks of hosts that have not said what theirs wait for
    StartedByRank started = {};              ///< unnamed operations, where one of `tensors` is one
};

/// Several lines, without a newline at the end. The first is the sentence that users search for.
[[nodiscard]] std::string format_stall_report(const StallReport& report);

/// Why the job is ended, in one line. `started`: as in a report.
[[nodiscard]] std::string format_stall_shutdown(const StallReport::Tensor& tensor, double shutdown_seconds,
                                                const StartedByRank& started = {});

}  // namespace rueda::core
