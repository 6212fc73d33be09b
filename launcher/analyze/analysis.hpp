// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/recorder/recording_file.hpp"

namespace rueda::launcher {

/// An operation of a process set, as messages describe it.
struct OperationText {
    std::string kind;              ///< for example "allreduce"
    std::string name;              ///< empty for an operation without a name
    std::uint32_t generation = 0;  ///< generation of the name's slot; for an operation without a name, the number of
                                   ///< the call
    /// Returns "allreduce 'x'", or "allreduce without a name (call 17)".
    [[nodiscard]] std::string describe() const;
};

/// A rank's call of an operation that had not ended, or that failed because the job ended.
struct PendingCall {
    std::int32_t rank = 0;
    std::uint64_t ordinal = 0;   ///< the number of the operation among all that the rank called in this set
    std::int64_t waited_ns = 0;  ///< from the call until the file was written
    bool is_executing = false;   ///< all ranks had called the operation, and it was being executed
};

struct PendingOperation {
    std::int32_t set_id = 0;
    OperationText what;
    std::vector<PendingCall> calls;     ///< ordered by rank
    std::vector<std::int32_t> missing;  ///< members that have not called the operation
    std::vector<std::int32_t> unknown;  ///< members without a file, or whose recording does not reach back to this
                                        ///< operation
};

/// Two operations of a process set in which ranks wait for each other.
struct Divergence {
    std::int32_t set_id = 0;
    struct Side {
        OperationText what;
        std::uint64_t ordinal = 0;
        std::vector<std::int32_t> ranks;
    };
    Side most;   ///< the operation that more ranks called
    Side other;  ///< the operation that the other ranks called instead
};

/// How often a rank was the last to call an operation. Only operations that all members have recorded are compared.
struct Lateness {
    std::int32_t rank = 0;
    std::uint64_t compared = 0;   ///< number of compared operations
    std::uint64_t last = 0;       ///< number of these operations in which the rank was the last, by more than kLateNs
    std::int64_t awaited_ns = 0;  ///< how long the other ranks waited for this rank alone, over all these operations
    std::int64_t longest_ns = 0;  ///< the longest of these waits
    std::string longest_in;       ///< the operation of the longest wait
    static constexpr std::int64_t kLateNs = 100'000;  ///< in a loop without work, ranks of one host differ by less
};

/// The last things that a rank did.
struct LastOfRank {
    std::int32_t rank = 0;
    std::string host;
    std::string state;
    std::int64_t step = -1;
    std::string busy;
    std::uint64_t operations = 0;       ///< number of operations that the rank has called
    std::optional<OperationText> last;  ///< the last operation that ended
    std::int64_t since_ns = 0;          ///< how long before the file was written this operation ended
};

struct Analysis {
    std::int32_t size = 0;
    std::string reason;                      ///< the reason in the first file
    std::vector<std::int32_t> without_file;  ///< ranks of the job that have no file
    std::vector<LastOfRank> ranks;
    std::vector<Divergence> divergences;
    std::vector<PendingOperation> pending;
    std::vector<Lateness> lateness;
    bool several_hosts = false;  ///< if true, times of different hosts were compared by CLOCK_REALTIME
    [[nodiscard]] bool is_clean() const { return divergences.empty() && pending.empty(); }
};

/// Compares the recordings of one job. There must be at least one, and they must be ordered by rank.
[[nodiscard]] Analysis analyze(const std::vector<base::Recording>& recordings);

/// Parses the text of a process set's members, which format_ranks() wrote. If the text was shortened or is damaged,
/// returns the part that can be read. Ranks from `size` on are left out.
[[nodiscard]] std::vector<std::int32_t> parse_members(std::string_view text, std::int32_t size);

}  // namespace rueda::launcher
