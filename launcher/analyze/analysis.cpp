// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.hpp"

namespace rueda::launcher {

namespace {

using base::RecordedOperation;
using base::Recording;

/// Identifies an operation of a process set on all its ranks: set, name, and a number. For an operation in a batch, the
/// number is the batch's position, which no other operation with this name has. Otherwise it is the generation of the
/// name's slot, or the number of the call for an operation without a name.
using Key = std::tuple<std::int32_t, std::string, std::uint32_t, std::uint64_t>;

constexpr std::uint64_t kOfBatch = std::uint64_t{1} << 32U;

Key key_of(const RecordedOperation& operation) {
    const std::uint64_t number = operation.batch ? kOfBatch | *operation.batch : operation.generation;
    return {operation.set_id, operation.name, operation.name_hash, number};
}

OperationText text_of_operation(const RecordedOperation& operation) {
    return {std::string(base::name_of_record_kind(operation.kind)), operation.name, operation.generation};
}

bool counts_as_operation(const RecordedOperation& operation) {
    return operation.kind < base::RecordKind::kStep && operation.has_name_record;
}

/// Whether the operation was pending when its rank ended, or when the file was written.
bool was_pending(const RecordedOperation& operation) {
    return counts_as_operation(operation) &&
           (!operation.ended_ns || operation.status == static_cast<std::uint8_t>(ErrorCode::aborted));
}

class Analyzer {
public:
    explicit Analyzer(const std::vector<Recording>& recordings) : recordings_(recordings) { find_members(); }

    Analysis run() {
        Analysis analysis;
        analysis.size = recordings_.front().size;
        analysis.reason = recordings_.front().reason;
        for (std::int32_t rank = 0; rank < analysis.size; ++rank) {
            if (of_rank(rank) == nullptr) {
                analysis.without_file.push_back(rank);
            }
        }
        for (const Recording& recording : recordings_) {
            analysis.ranks.push_back(last_of(recording));
            analysis.several_hosts = analysis.several_hosts || recording.host != recordings_.front().host;
        }
        analysis.pending = find_pending();
        analysis.divergences = find_divergences(analysis.pending);
        analysis.lateness = find_lateness();
        return analysis;
    }

private:
    [[nodiscard]] const Recording* of_rank(std::int32_t rank) const {
        const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                        [&](const Recording& recording) { return recording.rank == rank; });
        return found != recordings_.end() ? &*found : nullptr;
    }

    /// Finds the members of each process set: ranks that recorded the set's list of members, and ranks that used the
    /// set.
    void find_members() {
        for (const Recording& recording : recordings_) {
            for (const base::RecordedSet& set : recording.sets) {
                const std::vector<std::int32_t> members = parse_members(set.ranks, recording.size);
                members_[set.id].insert(members.begin(), members.end());
            }
            for (const RecordedOperation& operation : recording.operations) {
                if (counts_as_operation(operation)) {
                    members_[operation.set_id].insert(recording.rank);
                }
            }
        }
    }

    static LastOfRank last_of(const Recording& recording) {
        LastOfRank last{.rank = recording.rank,
                        .host = recording.host,
                        .state = recording.state,
                        .step = recording.step,
                        .busy = recording.busy,
                        .operations = 0,
                        .last = std::nullopt,
                        .since_ns = 0};
        std::int64_t latest = 0;
        for (const RecordedOperation& operation : recording.operations) {
            if (counts_as_operation(operation) && operation.ended_ns && !was_pending(operation) &&
                (!last.last || *operation.ended_ns >= latest)) {
                latest = *operation.ended_ns;
                last.last = text_of_operation(operation);
                last.since_ns = recording.written_ns - latest;
            }
        }
        last.operations = recording.counters.announced - recording.counters.steps - recording.counters.scopes;
        return last;
    }

    // ---- what is pending --------------------------------------------------------------------------------------------

    std::vector<PendingOperation> find_pending() const {
        std::map<Key, PendingOperation> found;
        for (const Recording& recording : recordings_) {
            for (const RecordedOperation& operation : recording.operations) {
                if (!was_pending(operation)) {
                    continue;
                }
                // The batch's position is left out of the key. A rank that has not seen the batch does not know it.
                Key key = key_of(operation);
                std::get<3>(key) = operation.generation;
                PendingOperation& pending = found[key];
                pending.set_id = operation.set_id;
                pending.what = text_of_operation(operation);
                pending.calls.push_back(
                    {recording.rank, operation.ordinal,
                     (operation.ended_ns ? *operation.ended_ns : recording.written_ns) - operation.announced_ns,
                     operation.started_ns.has_value()});
            }
        }
        std::vector<PendingOperation> all;
        for (auto& [key, pending] : found) {
            find_missing(key, pending);
            // If nobody is missing and another rank has ended the operation, the job ended just before this rank would
            // have ended it. This is not a problem to report.
            if (!pending.missing.empty() || !pending.unknown.empty() || !has_ended_elsewhere(key, pending)) {
                all.push_back(std::move(pending));
            }
        }
        std::stable_sort(all.begin(), all.end(), [](const PendingOperation& a, const PendingOperation& b) {
            return first_ordinal(a) < first_ordinal(b);
        });
        return all;
    }

    static std::uint64_t first_ordinal(const PendingOperation& pending) {
        return std::min_element(pending.calls.begin(), pending.calls.end(),
                                [](const PendingCall& a, const PendingCall& b) { return a.ordinal < b.ordinal; })
            ->ordinal;
    }

    void find_missing(const Key& key, PendingOperation& pending) const {
        for (const std::int32_t member : members_.at(pending.set_id)) {
            const bool calls = std::any_of(pending.calls.begin(), pending.calls.end(),
                                           [&](const PendingCall& call) { return call.rank == member; });
            if (calls) {
                continue;
            }
            const Recording* const recording = of_rank(member);
            if (recording == nullptr) {
                pending.unknown.push_back(member);
            } else if (!has_called(*recording, key, pending)) {
                (reaches_back(*recording, pending) ? pending.missing : pending.unknown).push_back(member);
            }
        }
    }

    static std::ptrdiff_t count_of(const Recording& recording, const Key& key) {
        return std::count_if(recording.operations.begin(), recording.operations.end(),
                             [&](const RecordedOperation& operation) {
                                 Key other = key_of(operation);
                                 std::get<3>(other) = operation.generation;
                                 return counts_as_operation(operation) && other == key;
                             });
    }

    /// Whether a rank that is not waiting for the operation has called it nevertheless. Before a name has a slot, all
    /// its uses have generation 0 and thus the same key, so the calls are counted.
    bool has_called(const Recording& recording, const Key& key, const PendingOperation& pending) const {
        return count_of(recording, key) >= count_of(*of_rank(pending.calls.front().rank), key);
    }

    bool has_ended_elsewhere(const Key& key, const PendingOperation& pending) const {
        return std::any_of(recordings_.begin(), recordings_.end(), [&](const Recording& recording) {
            const bool waits = std::any_of(pending.calls.begin(), pending.calls.end(),
                                           [&](const PendingCall& call) { return call.rank == recording.rank; });
            return !waits && has_called(recording, key, pending);
        });
    }

    /// Whether the recording still has all operations that the rank has called since the other ranks began to wait.
    bool reaches_back(const Recording& recording, const PendingOperation& pending) const {
        if (recording.counters.announced <= recording.operations.size() || recording.operations.empty()) {
            return true;
        }
        const std::uint64_t oldest =
            std::min_element(recording.operations.begin(), recording.operations.end(),
                             [&](const RecordedOperation& a, const RecordedOperation& b) {
                                 return order_in(a, pending.set_id) < order_in(b, pending.set_id);
                             })
                ->ordinal;
        return oldest <= first_ordinal(pending);
    }
    /// Returns the position of the operation in the set's order. Operations of other sets come last.
    static std::uint64_t order_in(const RecordedOperation& operation, std::int32_t set_id) {
        return counts_as_operation(operation) && operation.set_id == set_id ? operation.ordinal : ~std::uint64_t{0};
    }

    // ---- where ranks diverge ----------------------------------------------------------------------------------------

    static bool is_missing(const PendingOperation& pending, const PendingOperation& of_rank) {
        return std::any_of(of_rank.calls.begin(), of_rank.calls.end(), [&](const PendingCall& call) {
            return std::find(pending.missing.begin(), pending.missing.end(), call.rank) != pending.missing.end();
        });
    }

    static Divergence::Side side_of(const PendingOperation& pending, const PendingOperation& other) {
        Divergence::Side side{pending.what, first_ordinal(pending), {}};
        for (const PendingCall& call : pending.calls) {
            if (std::find(other.missing.begin(), other.missing.end(), call.rank) != other.missing.end()) {
                side.ranks.push_back(call.rank);
            }
        }
        return side;
    }

    /// Finds pairs of operations of a set in which ranks wait for each other. Each rank appears once for each set, with
    /// the first operation in which it left the order of the other ranks.
    static std::vector<Divergence> find_divergences(const std::vector<PendingOperation>& pending) {
        std::vector<Divergence> found;
        std::set<std::pair<std::int32_t, std::int32_t>> named;
        for (std::size_t i = 0; i < pending.size(); ++i) {
            for (std::size_t j = i + 1; j < pending.size(); ++j) {
                const PendingOperation& a = pending[i];
                const PendingOperation& b = pending[j];
                if (a.set_id != b.set_id || !is_missing(a, b) || !is_missing(b, a)) {
                    continue;
                }
                Divergence::Side most = side_of(a, b);
                Divergence::Side other = side_of(b, a);
                if (most.ranks.size() < other.ranks.size()) {
                    std::swap(most, other);
                }
                bool is_new = false;
                for (const std::int32_t rank : other.ranks) {
                    is_new = named.emplace(a.set_id, rank).second || is_new;
                }
                if (is_new) {
                    found.push_back({a.set_id, std::move(most), std::move(other)});
                }
            }
        }
        return found;
    }

    // ---- who is late ------------------------------------------------------------------------------------------------

    /// Returns when a rank called an operation, in a clock that all ranks share: CLOCK_MONOTONIC for a job on one host,
    /// CLOCK_REALTIME for several hosts.
    [[nodiscard]] std::int64_t time_of(const Recording& recording, std::int64_t ns, bool several_hosts) const {
        return several_hosts ? ns + recording.realtime_offset_ns : ns;
    }

    std::vector<Lateness> find_lateness() const {
        struct Called {
            std::int32_t rank;
            std::int64_t at_ns;
        };
        bool several_hosts = false;
        for (const Recording& recording : recordings_) {
            several_hosts = several_hosts || recording.host != recordings_.front().host;
        }
        std::map<Key, std::pair<OperationText, std::vector<Called>>> operations;
        for (const Recording& recording : recordings_) {
            for (const RecordedOperation& operation : recording.operations) {
                if (counts_as_operation(operation) && operation.ended_ns && !was_pending(operation)) {
                    auto& [text, calls] = operations[key_of(operation)];
                    text = text_of_operation(operation);
                    calls.push_back({recording.rank, time_of(recording, operation.announced_ns, several_hosts)});
                }
            }
        }
        std::map<std::int32_t, Lateness> found;
        for (auto& [key, operation] : operations) {
            auto& [text, calls] = operation;
            const std::set<std::int32_t>& members = members_.at(std::get<0>(key));
            if (calls.size() < 2 || calls.size() != members.size()) {
                continue;
            }
            std::sort(calls.begin(), calls.end(), [](const Called& a, const Called& b) { return a.at_ns < b.at_ns; });
            for (const Called& called : calls) {
                Lateness& lateness = found[called.rank];
                lateness.rank = called.rank;
                ++lateness.compared;
            }
            const std::int64_t late = calls.back().at_ns - calls[calls.size() - 2].at_ns;
            if (late > Lateness::kLateNs) {
                Lateness& lateness = found[calls.back().rank];
                ++lateness.last;
                lateness.awaited_ns += late;
                if (late > lateness.longest_ns) {
                    lateness.longest_ns = late;
                    lateness.longest_in = text.describe();
                }
            }
        }
        std::vector<Lateness> all;
        for (auto& [rank, lateness] : found) {
            all.push_back(std::move(lateness));
        }
        return all;
    }

    const std::vector<Recording>& recordings_;
    std::map<std::int32_t, std::set<std::int32_t>> members_;
};

}  // namespace

std::string OperationText::describe() const {
    return name.empty() ? fmt::format("{} without a name (call {})", kind, generation)
                        : fmt::format("{} {}", kind, base::quote(name, 200));
}

Analysis analyze(const std::vector<Recording>& recordings) { return Analyzer(recordings).run(); }

std::vector<std::int32_t> parse_members(std::string_view text, std::int32_t size) {
    std::vector<std::int32_t> members;
    for (const base::RankRange& range : base::parse_ranks(text)) {
        for (std::int32_t rank = range.first; rank <= range.last && rank < size; ++rank) {
            members.push_back(rank);
        }
    }
    return members;
}

}  // namespace rueda::launcher
