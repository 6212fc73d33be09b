// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "launcher/analyze/operation_text.hpp"
#include "launcher/analyze/pending_messages.hpp"

namespace rueda::launcher {

/// One rank's call of a pending operation. Pending means that the operation had not ended on this rank, or that it
/// failed because the job ended.
struct PendingCall {
    std::int32_t rank = 0;
    std::uint64_t ordinal = 0;   ///< the operation's number among all operations that the rank called in this set
    std::int64_t waited_ns = 0;  ///< the time from the call until the operation failed or the file was written
    bool is_executing = false;   ///< all ranks had called the operation, and this rank was executing it
    bool is_launched = false;    ///< the rank had launched the operation on its GPU, and the GPU had not completed it
};

struct PendingOperation {
    std::int32_t set_id = 0;
    OperationText what;
    std::vector<PendingCall> calls;     ///< the calls of this operation, ordered by rank
    std::vector<std::int32_t> missing;  ///< members that have not called the operation
    /// members that have no file, or whose records of the time since the first call of the operation were overwritten
    std::vector<std::int32_t> unknown;
    std::vector<std::int32_t> ended{};  ///< members on which the operation has ended
    std::uint64_t first_ordinal = 0;    ///< the smallest `ordinal` in `calls`
    /// If all members have called an operation, and it has ended on some of them, it is usually not reported. It is
    /// reported only if the GPU of another member has worked on it for at least this time.
    static constexpr std::int64_t kLongOnGpuNs = 1'000'000'000;
    [[nodiscard]] bool is_long_on_gpu() const {
        return std::any_of(calls.begin(), calls.end(),
                           [](const PendingCall& call) { return call.is_launched && call.waited_ns >= kLongOnGpuNs; });
    }
};

/// Two operations of a process set that ranks called in different orders. Some ranks called the first operation and
/// wait in it for ranks that called the second operation.
struct Divergence {
    std::int32_t set_id = 0;
    struct Side {
        OperationText what;
        std::uint64_t ordinal = 0;
        std::vector<std::int32_t> ranks;
    };
    Side most;   ///< of the two operations, the one that more ranks called
    Side other;  ///< of the two operations, the one that fewer ranks called
};

/// How often a rank was the last to call an operation. Only operations that all members have recorded are compared.
struct Lateness {
    std::int32_t rank = 0;
    std::uint64_t compared = 0;   ///< number of compared operations
    std::uint64_t last = 0;       ///< number of compared operations that this rank called more than kLateNs after all
                                  ///< other ranks
    std::int64_t awaited_ns = 0;  ///< the total time in which all other ranks waited only for this rank
    std::int64_t longest_ns = 0;  ///< the longest of these waits
    std::string longest_in;       ///< the operation of the longest wait
    /// If a rank calls an operation more than this time after all other ranks, the rank is late. The ranks of one host
    /// call an operation within this time, unless they do other work between their operations.
    static constexpr std::int64_t kLateNs = 100'000;
};

/// The last things that a rank did.
struct LastOfRank {
    std::int32_t rank = 0;
    std::string host;
    std::string state;
    std::int64_t step = -1;
    std::string busy;
    std::uint64_t operations = 0;       ///< the number of operations that the rank has called; sends and receives do
                                        ///< not count
    std::uint64_t messages = 0;         ///< the number of sends and receives that the rank has called
    std::optional<OperationText> last;  ///< the operation, send or receive of this rank that ended last
    std::int64_t since_ns = 0;          ///< the time from the end of `last` until the file was written
};

struct Analysis {
    std::int32_t size = 0;
    std::string reason;                      ///< why the files were written; this text comes from the first file
    std::vector<std::int32_t> without_file;  ///< ranks of the job that have no file
    std::vector<LastOfRank> ranks;
    std::vector<Divergence> divergences;
    std::vector<PendingOperation> pending;
    PendingMessages pending_messages;
    std::vector<Lateness> lateness;
    bool several_hosts = false;  ///< whether the ranks are on several hosts; if so, times were compared by
                                 ///< CLOCK_REALTIME
    [[nodiscard]] bool is_clean() const {
        return divergences.empty() && pending.empty() && pending_messages.messages.empty();
    }
};

/// Compares the recordings of one job. There must be at least one, and they must be ordered by rank.
[[nodiscard]] Analysis analyze(const std::vector<base::Recording>& recordings);

/// Parses the list of a process set's members, which format_ranks() wrote. If the text was shortened or is damaged,
/// returns the ranks that can be read. Ranks that are not less than `size` are left out.
[[nodiscard]] std::vector<std::int32_t> parse_members(std::string_view text, std::int32_t size);

}  // namespace rueda::launcher
