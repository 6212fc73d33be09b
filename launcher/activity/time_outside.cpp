// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/activity/time_outside.hpp"

#include <algorithm>
#include <vector>

namespace rueda::launcher {

namespace {

using base::RecordedOperation;

/// The smallest number of looks for a result. With fewer looks, the result would be too inexact. (A look says what one
/// rank was doing at one moment.)
constexpr std::size_t kFewestLooks = 10;

bool is_scope(const RecordedOperation& operation) { return operation.kind == base::RecordKind::kScope; }

/// Returns the time from which on `operations` is complete. Entries before the first one may have been overwritten, so
/// this is the time when the first entry was recorded. A scope (a declared activity) is recorded when it ends;
/// operations, messages and steps are recorded when they begin.
std::int64_t complete_since(std::span<const RecordedOperation> operations, std::int64_t from_ns) {
    if (operations.empty() || operations.front().number == 0) {
        return from_ns;
    }
    const RecordedOperation& first = operations.front();
    return std::max(from_ns, is_scope(first) ? first.ended_ns.value_or(first.announced_ns) : first.announced_ns);
}

struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Returns how much of the time from `from_ns` to `to_ns` is covered by at least one of the spans.
std::int64_t covered_ns(std::vector<Span> spans, std::int64_t from_ns, std::int64_t to_ns) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::int64_t sum = 0;
    std::int64_t covered = from_ns;
    for (const Span& span : spans) {
        const std::int64_t begin = std::max(span.begin, covered);
        const std::int64_t end = std::min(span.end, to_ns);
        if (begin < end) {
            sum += end - begin;
            covered = end;
        }
    }
    return sum;
}

/// Returns which share of the interval, from 0 to 1, lies outside all operations and all recorded scopes (declared
/// activities).
double share_outside(std::span<const RecordedOperation> operations, std::int64_t from_ns, std::int64_t to_ns) {
    const std::int64_t from = complete_since(operations, from_ns);
    if (from >= to_ns) {
        return 0;
    }
    std::vector<Span> spans;
    for (const RecordedOperation& operation : operations) {
        // A program can start a receive without waiting for it. Such a receive does not occupy the program.
        const bool is_waited_for = base::RecordKind::is_message(operation.kind) && operation.is_blocking;
        if (base::RecordKind::is_collective(operation.kind) || is_waited_for || is_scope(operation)) {
            const std::int64_t end = operation.launched_ns.value_or(to_ns);
            spans.push_back({operation.announced_ns, operation.ended_ns.value_or(end)});
        }
    }
    return 1 - static_cast<double>(covered_ns(std::move(spans), from, to_ns)) / static_cast<double>(to_ns - from);
}

/// Returns whether the time of `look` lies in a scope that was recorded later. Some programs declare a scope only when
/// it ends, so the look itself could not show this scope.
bool is_in_recorded_scope(const Look& look, std::span<const RecordedOperation> operations) {
    return std::any_of(operations.begin(), operations.end(), [&look](const RecordedOperation& operation) {
        return is_scope(operation) && operation.announced_ns <= look.time_ns &&
               look.time_ns < operation.ended_ns.value_or(operation.announced_ns);
    });
}

}  // namespace

std::optional<TimeOutside> find_time_outside(std::span<const RecordedOperation> operations, std::span<const Look> looks,
                                             std::int64_t from_ns, std::int64_t to_ns) {
    if (looks.size() < kFewestLooks) {
        return std::nullopt;
    }
    TimeOutside found;
    double all = 0;
    for (const Look& look : looks) {
        if (look.activity == Activity::in_rueda || is_in_recorded_scope(look, operations)) {
            continue;
        }
        ++all;
        found.runs += look.activity == Activity::runs_outside ? 1 : 0;
        found.threads_run += look.activity == Activity::threads_run_outside ? 1 : 0;
        found.sleeps += look.activity == Activity::sleeps_outside ? 1 : 0;
    }
    const double each = all > 0 ? share_outside(operations, from_ns, to_ns) / all : 0;
    return TimeOutside{found.runs * each, found.threads_run * each, found.sleeps * each};
}

}  // namespace rueda::launcher
