// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/activity/waits.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/recorder/operation_key.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

using base::RecordedOperation;

/// Whether this record of one rank shows that all ranks have announced the operation.
bool is_called(const RecordedOperation& operation) {
    return operation.batch.has_value() || operation.started_ns.has_value() || operation.ended_ns.has_value();
}

bool are_same(const RecordedOperation& left, const RecordedOperation& right) {
    return base::name_key_of(left) == base::name_key_of(right) &&
           (left.batch && right.batch ? *left.batch == *right.batch : left.ordinal == right.ordinal);
}

bool contains(const std::vector<base::RankRange>& ranks, std::int32_t rank) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [rank](const base::RankRange& part) { return part.first <= rank && rank <= part.last; });
}

std::int64_t count(const std::vector<base::RankRange>& ranks) {
    std::int64_t sum = 0;
    for (const base::RankRange& part : ranks) {
        sum += std::int64_t{part.last} - part.first + 1;
    }
    return sum;
}

bool is_blocking_message(const RecordedOperation& operation) {
    return base::RecordKind::is_message(operation.kind) && operation.is_blocking;
}

/// Whether a thread of the program caused this record by calling Rueda.
bool is_call(const RecordedOperation& operation) {
    return base::RecordKind::is_collective(operation.kind) || base::RecordKind::is_message(operation.kind) ||
           operation.kind == base::RecordKind::kStep;
}

/// The time when a rank announced an operation. `index` is the rank's position in the list of ranks.
struct Announcement {
    std::size_t index = 0;
    std::int64_t ns = 0;
};

struct WaitSpan {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int32_t whom = kOtherHosts;
};

using TimeByRank = std::map<std::int32_t, std::int64_t>;

std::vector<Wait> longest_first(const TimeByRank& times) {
    std::vector<Wait> waits;
    for (const auto& [whom, ns] : times) {
        if (ns > 0) {
            waits.push_back({whom, ns});
        }
    }
    std::stable_sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) { return a.ns > b.ns; });
    return waits;
}

class WaitFinder {
public:
    WaitFinder(std::span<const RecordedRank> ranks, std::int64_t from_ns, std::int64_t to_ns)
        : ranks_(ranks), from_ns_(from_ns), to_ns_(to_ns), newest_(ranks.size()) {
        for (std::size_t index = 0; index < ranks.size(); ++index) {
            if (ranks[index].rank >= 0) {
                index_of_rank_.emplace(ranks[index].rank, index);
            }
            blocked_.push_back(find_blocked(ranks[index].operations));
            for (const RecordedOperation& operation : ranks[index].operations) {
                if (base::has_key(operation)) {
                    note(index, operation);
                }
            }
        }
    }

    [[nodiscard]] RankWaits waits_of(std::size_t index) const {
        const std::vector<RecordedOperation>& operations = ranks_[index].operations;
        // The records of earlier operations were overwritten. So nothing is known about the time before the first
        // operation that is still recorded.
        const bool has_all = operations.empty() || operations.front().number == 0;
        const std::int64_t from = has_all ? from_ns_ : std::max(from_ns_, operations.front().announced_ns);
        std::vector<WaitSpan> spans;
        for (const RecordedOperation& operation : operations) {
            if (base::has_key(operation)) {
                add_spans(index, operation, spans);
            } else if (is_blocking_message(operation)) {
                spans.push_back(message_span(operation));
            }
        }
        return sum_up(std::move(spans), std::min(from, to_ns_));
    }

private:
    /// Returns the time in which the rank waited for the peer of a message. This time ends at `started_ns`, when the
    /// rank knew that the peer had called the matching send or receive. A small message has no `started_ns`; its wait
    /// lasts until the message has ended.
    [[nodiscard]] WaitSpan message_span(const RecordedOperation& message) const {
        const std::int64_t end = message.started_ns ? *message.started_ns : message.ended_ns.value_or(to_ns_);
        return {message.announced_ns, end, message.message.peer >= 0 ? message.message.peer : kAnyRank};
    }

    /// Returns the times in which a rank could do nothing because it was in a blocking send or receive. The times are
    /// in ascending order and do not overlap. If the rank calls Rueda again while the send or receive blocks, another
    /// thread makes this call. So the rank no longer counts as blocked from this call on.
    [[nodiscard]] std::vector<WaitSpan> find_blocked(const std::vector<RecordedOperation>& operations) const {
        std::vector<WaitSpan> spans;
        std::int64_t next_call_ns = to_ns_;
        for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation) {
            if (is_blocking_message(*operation)) {
                WaitSpan span = message_span(*operation);
                span.end = std::min(span.end, next_call_ns);
                if (span.begin < span.end) {
                    spans.push_back(span);
                }
            }
            if (is_call(*operation)) {
                next_call_ns = std::min(next_call_ns, operation->announced_ns);
            }
        }
        std::reverse(spans.begin(), spans.end());
        return spans;
    }

    /// Adds the time of a wait to the ranks that caused the wait. Usually this is the awaited rank. But while the
    /// awaited rank was itself blocked in a send or receive, the peer of this message caused the wait.
    void add_causes(const WaitSpan& wait, TimeByRank& causes) const {
        std::vector<WaitSpan> parts = {wait};
        // If a chain of blocked ranks is longer than the list of ranks, the ranks wait for each other in a circle. Then
        // no rank has caused the wait.
        for (std::size_t length = 0; !parts.empty() && length <= ranks_.size(); ++length) {
            std::vector<WaitSpan> passed_on;
            for (const WaitSpan& part : parts) {
                causes[part.whom] += pass_on(part, passed_on);
            }
            parts = std::move(passed_on);
        }
    }

    /// Appends to `passed_on` the parts of the wait in which the awaited rank was itself blocked in a send or a
    /// receive. Returns the length of the remaining parts.
    [[nodiscard]] std::int64_t pass_on(const WaitSpan& wait, std::vector<WaitSpan>& passed_on) const {
        std::int64_t rest = wait.end - wait.begin;
        const auto awaited = index_of_rank_.find(wait.whom);
        if (awaited == index_of_rank_.end()) {
            return rest;
        }
        const std::vector<WaitSpan>& blocked = blocked_[awaited->second];
        auto span = std::lower_bound(blocked.begin(), blocked.end(), wait.begin,
                                     [](const WaitSpan& one, std::int64_t time) { return one.end <= time; });
        for (; span != blocked.end() && span->begin < wait.end; ++span) {
            passed_on.push_back({std::max(wait.begin, span->begin), std::min(wait.end, span->end), span->whom});
            rest -= passed_on.back().end - passed_on.back().begin;
        }
        return rest;
    }

    void note(std::size_t index, const RecordedOperation& operation) {
        newest_[index][base::name_key_of(operation)] = &operation;
        if (is_called(operation)) {
            note_last(base::key_by_ordinal(operation), index, operation.announced_ns);
            if (operation.batch) {
                note_last(base::key_by_batch(operation), index, operation.announced_ns);
            }
        }
    }

    void note_last(const base::OperationKey& key, std::size_t index, std::int64_t announced_ns) {
        Announcement& last = last_[key];
        if (last.ns <= announced_ns) {
            last = {index, announced_ns};
        }
    }

    [[nodiscard]] std::vector<base::RankRange> members_of(std::size_t index, std::int32_t set_id) const {
        for (const base::RecordedSet& set : ranks_[index].sets) {
            if (set.id == set_id) {
                return base::parse_ranks(set.ranks);
            }
        }
        return {};
    }

    [[nodiscard]] bool has_members_elsewhere(const std::vector<base::RankRange>& members) const {
        const auto here = std::count_if(ranks_.begin(), ranks_.end(),
                                        [&members](const RecordedRank& rank) { return contains(members, rank.rank); });
        return count(members) > here;
    }

    /// Whether the rank has called join() for the process set and is waiting in it.
    [[nodiscard]] bool has_joined(std::size_t index, std::int32_t set_id) const {
        const std::vector<RecordedOperation>& operations = ranks_[index].operations;
        return std::any_of(operations.begin(), operations.end(), [set_id](const RecordedOperation& operation) {
            return operation.kind == base::RecordKind::kJoin && operation.set_id == set_id && !operation.ended_ns;
        });
    }

    /// Returns whether rank `index` has announced `operation`. Rank `other` has announced `operation`, but not started
    /// it. (`index` and `other` are positions in the list of ranks.) The function looks at the newest operation with
    /// this name on rank `index`. If the records of both ranks show that all ranks have announced this newest
    /// operation, it is older than `operation`, and the result is false.
    [[nodiscard]] bool has_announced(std::size_t index, std::size_t other, const RecordedOperation& operation) const {
        const auto newest = newest_[index].find(base::name_key_of(operation));
        if (newest == newest_[index].end()) {
            return false;
        }
        const RecordedOperation& own = *newest->second;
        const std::vector<RecordedOperation>& theirs = ranks_[other].operations;
        return !is_called(own) || std::none_of(theirs.begin(), theirs.end(), [&own](const RecordedOperation& called) {
            return base::has_key(called) && is_called(called) && are_same(called, own);
        });
    }

    /// Adds the waits for an operation that some members have not announced yet.
    void add_pending(std::size_t index, const RecordedOperation& operation, std::vector<WaitSpan>& spans) const {
        const std::vector<base::RankRange> members = members_of(index, operation.set_id);
        for (std::size_t other = 0; other < ranks_.size(); ++other) {
            if (other != index && contains(members, ranks_[other].rank) && !has_joined(other, operation.set_id) &&
                !has_announced(other, index, operation)) {
                spans.push_back({operation.announced_ns, to_ns_, ranks_[other].rank});
                return;
            }
        }
        if (has_members_elsewhere(members)) {
            spans.push_back({operation.announced_ns, to_ns_, kOtherHosts});
        }
    }

    [[nodiscard]] Announcement last_announcement(const RecordedOperation& operation) const {
        // A small operation belongs to no batch, so it is found by its ordinal (its number among the operations that
        // the rank has started in the process set). Small operations are blocking, so the ordinal is the same on all
        // ranks, unless the ranks call their operations in different orders.
        const Announcement last = last_.at(base::key_by_ordinal(operation));
        const Announcement in_batch = operation.batch ? last_.at(base::key_by_batch(operation)) : last;
        return in_batch.ns > last.ns ? in_batch : last;
    }

    void add_spans(std::size_t index, const RecordedOperation& operation, std::vector<WaitSpan>& spans) const {
        if (!is_called(operation)) {
            add_pending(index, operation, spans);
            return;
        }
        const Announcement last = last_announcement(operation);
        if (last.ns > operation.announced_ns) {
            spans.push_back({operation.announced_ns, last.ns, ranks_[last.index].rank});
        }
        if (operation.started_ns && *operation.started_ns > last.ns &&
            has_members_elsewhere(members_of(index, operation.set_id))) {
            spans.push_back({last.ns, *operation.started_ns, kOtherHosts});
        }
    }

    /// Adds up the waits for each rank. If several waits overlap, the overlapping time counts only for the operation
    /// that was announced first.
    [[nodiscard]] RankWaits sum_up(std::vector<WaitSpan> spans, std::int64_t from) const {
        std::sort(spans.begin(), spans.end(), [](const WaitSpan& a, const WaitSpan& b) { return a.begin < b.begin; });
        TimeByRank sums;
        TimeByRank causes;
        std::int64_t covered = from;
        for (const WaitSpan& span : spans) {
            const std::int64_t begin = std::max(span.begin, covered);
            const std::int64_t end = std::min(span.end, to_ns_);
            if (begin < end) {
                sums[span.whom] += end - begin;
                add_causes({begin, end, span.whom}, causes);
                covered = end;
            }
        }
        return {to_ns_ - from, longest_first(sums), longest_first(causes)};
    }

    std::span<const RecordedRank> ranks_;
    std::int64_t from_ns_;
    std::int64_t to_ns_;
    using NewestOfNames = std::unordered_map<base::NameKey, const RecordedOperation*, base::NameKeyHash>;
    std::vector<NewestOfNames> newest_;           // for each rank in the list of ranks: the newest operation of each
                                                  // name
    std::vector<std::vector<WaitSpan>> blocked_;  // for each rank in the list of ranks: the result of find_blocked()
    std::unordered_map<std::int32_t, std::size_t> index_of_rank_;
    // for each operation: the announcement of the rank that announced it last
    std::unordered_map<base::OperationKey, Announcement, base::OperationKeyHash> last_;
};

/// Returns the share of the window, from 0 to 1, in which a rank waited for `whom`. `waits` are all waits of this rank.
double share_in(const std::vector<Wait>& waits, std::int32_t whom, std::int64_t window_ns) {
    const auto wait = std::find_if(waits.begin(), waits.end(), [whom](const Wait& w) { return w.whom == whom; });
    return window_ns > 0 && wait != waits.end() ? static_cast<double>(wait->ns) / static_cast<double>(window_ns) : 0;
}

}  // namespace

std::int64_t RankWaits::total_ns() const {
    std::int64_t sum = 0;
    for (const Wait& wait : waits) {
        sum += wait.ns;
    }
    return sum;
}

double RankWaits::share() const {
    return window_ns > 0 ? static_cast<double>(total_ns()) / static_cast<double>(window_ns) : 0;
}

double RankWaits::share_for(std::int32_t whom) const { return share_in(waits, whom, window_ns); }

double RankWaits::share_caused_by(std::int32_t whom) const { return share_in(causes, whom, window_ns); }

std::vector<RankWaits> find_waits(std::span<const RecordedRank> ranks, std::int64_t from_ns, std::int64_t to_ns) {
    const WaitFinder finder(ranks, from_ns, to_ns);
    std::vector<RankWaits> waits;
    for (std::size_t index = 0; index < ranks.size(); ++index) {
        waits.push_back(finder.waits_of(index));
    }
    return waits;
}

}  // namespace rueda::launcher
