// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/analysis.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/recorder/operation_key.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

using base::OperationKey;
using base::OperationKeyHash;
using base::RecordedOperation;
using base::Recording;

/// Compares the recordings. Files of hundreds of ranks have millions of operations. So every function looks at each
/// operation only once, and compares only keys that contain no texts.
class Analyzer {
public:
    explicit Analyzer(const std::vector<Recording>& recordings)
        : recordings_(recordings), by_rank_(static_cast<std::size_t>(recordings.front().size)) {
        for (const Recording& recording : recordings_) {
            by_rank_[static_cast<std::size_t>(recording.rank)] = &recording;
            several_hosts_ = several_hosts_ || recording.host != recordings_.front().host;
        }
        find_members();
    }

    Analysis run() {
        Analysis analysis;
        analysis.size = recordings_.front().size;
        analysis.reason = recordings_.front().reason;
        analysis.several_hosts = several_hosts_;
        for (std::int32_t rank = 0; rank < analysis.size; ++rank) {
            if (of_rank(rank) == nullptr) {
                analysis.without_file.push_back(rank);
            }
        }
        for (const Recording& recording : recordings_) {
            analysis.ranks.push_back(last_of(recording));
        }
        analysis.pending = find_pending();
        analysis.pending_messages = find_pending_messages(recordings_);
        analysis.divergences = find_divergences(analysis.pending);
        analysis.lateness = find_lateness();
        return analysis;
    }

private:
    [[nodiscard]] const Recording* of_rank(std::int32_t rank) const { return by_rank_[static_cast<std::size_t>(rank)]; }

    /// The oldest operation of a process set that is still in a rank's ring of records.
    struct OldestOfSet {
        std::int32_t set_id = 0;
        std::uint64_t ordinal = 0;
    };

    /// Finds the members of each process set. The members are the ranks in the recorded lists of members, and all ranks
    /// that used the set.
    void find_members() {
        // The texts that were parsed already. The members of a set usually recorded the same text.
        std::set<std::pair<std::int32_t, std::string_view>> read;
        for (const Recording& recording : recordings_) {
            for (const base::RecordedSet& set : recording.sets) {
                if (read.emplace(set.id, set.ranks).second) {
                    const std::vector<std::int32_t> members = parse_members(set.ranks, recording.size);
                    members_[set.id].insert(members.begin(), members.end());
                }
            }
            for (const OldestOfSet& set : oldest_.emplace_back(oldest_of_sets(recording))) {
                members_[set.set_id].insert(recording.rank);
            }
        }
    }

    static std::vector<OldestOfSet> oldest_of_sets(const Recording& recording) {
        std::vector<OldestOfSet> sets;
        std::size_t current = 0;  // the index of the set of the previous operation; usually the next operation belongs
                                  // to the same set
        for (const RecordedOperation& operation : recording.operations) {
            if (!base::has_key(operation)) {
                continue;
            }
            if (current == sets.size() || sets[current].set_id != operation.set_id) {
                const auto found = std::find_if(sets.begin(), sets.end(),
                                                [&](const OldestOfSet& set) { return set.set_id == operation.set_id; });
                current = static_cast<std::size_t>(found - sets.begin());
                if (found == sets.end()) {
                    sets.push_back({operation.set_id, operation.ordinal});
                }
            }
            sets[current].ordinal = std::min(sets[current].ordinal, operation.ordinal);
        }
        return sets;
    }

    static LastOfRank last_of(const Recording& recording) {
        const RecordedOperation* latest = nullptr;
        for (const RecordedOperation& operation : recording.operations) {
            const bool is_listed = base::has_key(operation) || base::RecordKind::is_message(operation.kind);
            if (is_listed && !was_pending(operation) &&
                (latest == nullptr || *operation.ended_ns >= *latest->ended_ns)) {
                latest = &operation;
            }
        }
        const base::RecordedCounters& counters = recording.counters;
        // If the file was written while the rank wrote a record, the rank may have counted a message that it had not
        // yet recorded.
        const std::uint64_t others = counters.steps + counters.scopes + counters.messages + counters.parts;
        LastOfRank last{.rank = recording.rank,
                        .host = recording.host,
                        .state = recording.state,
                        .step = recording.step,
                        .busy = recording.busy,
                        .operations = counters.announced > others ? counters.announced - others : 0,
                        .messages = counters.messages,
                        .last = std::nullopt,
                        .since_ns = 0};
        if (latest != nullptr) {
            last.last = text_of_operation(*latest);
            last.since_ns = recording.written_ns - *latest->ended_ns;
        }
        return last;
    }

    // ---- what is pending --------------------------------------------------------------------------------------------

    /// How many operations with the same key a rank has called. The key contains the name and the generation. As long
    /// as a name has no slot, all its operations have the generation 0, so several operations may have the same key.
    struct Count {
        const Recording* recording = nullptr;
        std::uint32_t operations = 0;
    };
    struct Found {
        PendingOperation pending;
        std::vector<Count> counts;  // the counts of the ranks that have called the operation, ordered by rank
    };

    /// Finds the operations that were pending, ordered by their first calls. An operation is recognised on all ranks by
    /// its name and generation. Its batch cannot be used, because a rank that has not begun the batch has not recorded
    /// the batch's position yet.
    [[nodiscard]] std::vector<PendingOperation> find_pending() const {
        std::vector<Found> found = collect_pending();
        std::vector<PendingOperation> all;
        for (Found& one : found) {
            find_missing(one);
            // Suppose that no rank is missing or unknown, and that one rank has ended the operation. Then the ranks on
            // which it is pending were about to end it, too, when the job ended. Such an operation is left out, unless
            // a rank's GPU has worked on it for a long time.
            if (one.pending.is_long_on_gpu() || !one.pending.missing.empty() || !one.pending.unknown.empty() ||
                !has_ended_elsewhere(one)) {
                all.push_back(std::move(one.pending));
            }
        }
        std::stable_sort(all.begin(), all.end(), [](const PendingOperation& a, const PendingOperation& b) {
            return a.first_ordinal < b.first_ordinal;
        });
        return all;
    }

    [[nodiscard]] std::vector<Found> collect_pending() const {
        std::vector<Found> found;
        std::unordered_map<OperationKey, std::size_t, OperationKeyHash> index;
        for (const Recording& recording : recordings_) {
            for (const RecordedOperation& operation : recording.operations) {
                if (base::has_key(operation) && was_pending(operation)) {
                    const auto [place, is_new] = index.emplace(base::key_by_generation(operation), found.size());
                    add_call(is_new ? found.emplace_back() : found[place->second], recording, operation);
                }
            }
        }
        if (found.empty()) {
            return found;
        }
        for (const Recording& recording : recordings_) {
            for (const RecordedOperation& operation : recording.operations) {
                const auto place =
                    base::has_key(operation) ? index.find(base::key_by_generation(operation)) : index.end();
                if (place != index.end()) {
                    count(found[place->second].counts, recording);
                }
            }
        }
        return found;
    }

    static void add_call(Found& found, const Recording& recording, const RecordedOperation& operation) {
        PendingOperation& pending = found.pending;
        if (pending.calls.empty()) {
            pending.set_id = operation.set_id;
            pending.what = text_of_operation(operation);
            pending.first_ordinal = operation.ordinal;
        }
        pending.first_ordinal = std::min(pending.first_ordinal, operation.ordinal);
        pending.calls.push_back({recording.rank, operation.ordinal,
                                 operation.ended_ns.value_or(recording.written_ns) - operation.announced_ns,
                                 operation.started_ns.has_value(), operation.is_launched});
    }

    static void count(std::vector<Count>& counts, const Recording& recording) {
        if (counts.empty() || counts.back().recording != &recording) {
            counts.push_back({&recording, 0});
        }
        ++counts.back().operations;
    }

    void find_missing(Found& found) const {
        PendingOperation& pending = found.pending;
        for (const std::int32_t member : members_.at(pending.set_id)) {
            if (calls(pending, member)) {
                continue;
            }
            const Recording* const recording = of_rank(member);
            if (recording == nullptr) {
                pending.unknown.push_back(member);
            } else if (!has_called(*recording, found)) {
                (reaches_back(*recording, pending) ? pending.missing : pending.unknown).push_back(member);
            } else {
                pending.ended.push_back(member);
            }
        }
    }

    /// Whether the rank is among the calls of the operation, which are ordered by rank.
    static bool calls(const PendingOperation& pending, std::int32_t rank) {
        const auto call =
            std::lower_bound(pending.calls.begin(), pending.calls.end(), rank,
                             [](const PendingCall& one, std::int32_t wanted) { return one.rank < wanted; });
        return call != pending.calls.end() && call->rank == rank;
    }

    static std::uint32_t count_of(const Found& found, std::int32_t rank) {
        const auto count =
            std::lower_bound(found.counts.begin(), found.counts.end(), rank,
                             [](const Count& one, std::int32_t wanted) { return one.recording->rank < wanted; });
        return count != found.counts.end() && count->recording->rank == rank ? count->operations : 0;
    }

    /// For a rank on which the operation is not pending: whether the rank has called the operation. If so, the
    /// operation has ended on this rank.
    static bool has_called(const Recording& recording, const Found& found) {
        return count_of(found, recording.rank) >= count_of(found, found.pending.calls.front().rank);
    }

    static bool has_ended_elsewhere(const Found& found) {
        return std::any_of(found.counts.begin(), found.counts.end(), [&](const Count& count) {
            return !calls(found.pending, count.recording->rank) && has_called(*count.recording, found);
        });
    }

    /// Whether the rank's ring of records still has all operations that the rank has called since the other ranks began
    /// to wait.
    [[nodiscard]] bool reaches_back(const Recording& recording, const PendingOperation& pending) const {
        if (recording.counters.announced <= recording.operations.size() || recording.operations.empty()) {
            return true;
        }
        const std::vector<OldestOfSet>& sets = oldest_[static_cast<std::size_t>(&recording - recordings_.data())];
        return std::any_of(sets.begin(), sets.end(), [&](const OldestOfSet& set) {
            return set.set_id == pending.set_id && set.ordinal <= pending.first_ordinal;
        });
    }

    // ---- where ranks diverge ----------------------------------------------------------------------------------------

    /// Returns the ranks that have called `pending`, but not `other`, ordered by rank.
    static std::vector<std::int32_t> ranks_missing_in(const PendingOperation& pending, const PendingOperation& other) {
        std::vector<std::int32_t> ranks;
        auto missing = other.missing.begin();
        for (const PendingCall& call : pending.calls) {
            while (missing != other.missing.end() && *missing < call.rank) {
                ++missing;
            }
            if (missing == other.missing.end()) {
                break;
            }
            if (*missing == call.rank) {
                ranks.push_back(call.rank);
            }
        }
        return ranks;
    }

    /// Finds pairs of operations of a process set that ranks called in different orders. The ranks that called one of
    /// the two operations wait in it for ranks that called the other one. A pair is left out if every rank of its side
    /// `other` is already on the side `other` of an earlier pair of the set.
    static std::vector<Divergence> find_divergences(const std::vector<PendingOperation>& pending) {
        std::vector<Divergence> found;
        std::set<std::pair<std::int32_t, std::int32_t>> named;
        for (std::size_t i = 0; i < pending.size(); ++i) {
            const PendingOperation& a = pending[i];
            for (std::size_t j = a.missing.empty() ? pending.size() : i + 1; j < pending.size(); ++j) {
                const PendingOperation& b = pending[j];
                if (a.set_id != b.set_id || b.missing.empty()) {
                    continue;
                }
                Divergence::Side most{a.what, a.first_ordinal, ranks_missing_in(a, b)};
                Divergence::Side other{b.what, b.first_ordinal, ranks_missing_in(b, a)};
                if (most.ranks.empty() || other.ranks.empty()) {
                    continue;
                }
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

    /// The calls of one operation that has ended.
    struct Calls {
        const RecordedOperation* first = nullptr;
        std::size_t count = 0;
        std::int32_t last_rank = 0;
        std::int64_t last_ns = 0;
        std::int64_t before_last_ns = 0;
    };

    /// Returns when a rank called an operation, by a clock that all ranks of the job share. On one host this is the
    /// host's CLOCK_MONOTONIC; on several hosts it is CLOCK_REALTIME.
    [[nodiscard]] std::int64_t time_of(const Recording& recording, std::int64_t ns) const {
        return several_hosts_ ? ns + recording.realtime_offset_ns : ns;
    }

    /// Collects the calls of each operation. The operations are in the order in which they were found, beginning with
    /// the first recording.
    [[nodiscard]] std::vector<Calls> collect_calls() const {
        std::vector<Calls> all;
        std::unordered_map<OperationKey, std::size_t, OperationKeyHash> index;
        for (const Recording& recording : recordings_) {
            for (const RecordedOperation& operation : recording.operations) {
                if (!base::has_key(operation) || was_pending(operation)) {
                    continue;
                }
                const auto [place, is_new] = index.emplace(base::key_of(operation), all.size());
                Calls& calls = is_new ? all.emplace_back() : all[place->second];
                const std::int64_t at_ns = time_of(recording, operation.announced_ns);
                calls.first = is_new ? &operation : calls.first;
                if (++calls.count == 1 || at_ns > calls.last_ns) {
                    calls.before_last_ns = calls.last_ns;
                    calls.last_ns = at_ns;
                    calls.last_rank = recording.rank;
                } else if (calls.count == 2 || at_ns > calls.before_last_ns) {
                    calls.before_last_ns = at_ns;
                }
            }
        }
        return all;
    }

    [[nodiscard]] std::vector<Lateness> find_lateness() const {
        std::map<std::int32_t, std::uint64_t> compared;  // by set
        std::map<std::int32_t, Lateness> found;
        for (const Calls& calls : collect_calls()) {
            const std::int32_t set_id = calls.first->set_id;
            if (calls.count < 2 || calls.count != members_.at(set_id).size()) {
                continue;
            }
            ++compared[set_id];
            const std::int64_t late = calls.last_ns - calls.before_last_ns;
            if (late > Lateness::kLateNs) {
                Lateness& lateness = found[calls.last_rank];
                ++lateness.last;
                lateness.awaited_ns += late;
                if (late > lateness.longest_ns) {
                    lateness.longest_ns = late;
                    lateness.longest_in = text_of_operation(*calls.first).describe();
                }
            }
        }
        for (const auto& [set_id, operations] : compared) {
            for (const std::int32_t rank : members_.at(set_id)) {
                found[rank].compared += operations;
            }
        }
        std::vector<Lateness> all;
        for (auto& [rank, lateness] : found) {
            lateness.rank = rank;
            all.push_back(std::move(lateness));
        }
        return all;
    }

    const std::vector<Recording>& recordings_;
    std::vector<const Recording*> by_rank_;
    bool several_hosts_ = false;
    std::map<std::int32_t, std::set<std::int32_t>> members_;  // by set
    std::vector<std::vector<OldestOfSet>> oldest_;            // by recording
};

}  // namespace

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
