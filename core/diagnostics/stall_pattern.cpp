// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/text.hpp"

namespace rueda::core {
namespace {

using Kind = StallPattern::Kind;
using Tensor = StallReport::Tensor;
using Rank = StallReport::Rank;
using Ranks = std::vector<std::int32_t>;

constexpr std::size_t kMostPatterns = 3;
/// At most this many tensors are compared. The tensors are compared in pairs, and the number of pairs grows with the
/// square of the number of tensors. If more tensors are stalled, the oldest of them are enough to find the pattern.
constexpr std::size_t kMostCompared = 20;

Ranks without(const Ranks& some, const Ranks& others) {
    Ranks rest;
    std::copy_if(some.begin(), some.end(), std::back_inserter(rest),
                 [&](std::int32_t rank) { return std::find(others.begin(), others.end(), rank) == others.end(); });
    return rest;
}

bool contains(const Ranks& ranks, std::int32_t rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Ranks joined(const Ranks& some, const Ranks& others) {
    std::set<std::int32_t> all(some.begin(), some.end());
    all.insert(others.begin(), others.end());
    return {all.begin(), all.end()};
}

const char* waits_or_wait(const Ranks& ranks) { return ranks.size() == 1 ? "waits" : "wait"; }
const char* is_or_are(const Ranks& ranks) { return ranks.size() == 1 ? "is" : "are"; }

/// Two tensors for which ranks wait crosswise: some ranks have announced only the first tensor, and some ranks only the
/// second.
struct Crossing {
    const Tensor& first;
    const Tensor& second;
    Ranks in_first;
    Ranks in_second;
};

/// Returns a pair of tensors for which `is_wanted` is true. If there are several such pairs, returns the pair that has
/// stalled longest.
template <class IsWanted>
std::optional<Crossing> find_crossing(const std::vector<Tensor>& tensors, IsWanted&& is_wanted) {
    const std::size_t count = std::min(tensors.size(), kMostCompared);
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = i + 1; j < count; ++j) {
            Crossing crossing{tensors[i], tensors[j], without(tensors[i].ready, tensors[j].ready),
                              without(tensors[j].ready, tensors[i].ready)};
            if (!crossing.in_first.empty() && !crossing.in_second.empty() && is_wanted(crossing)) {
                return crossing;
            }
        }
    }
    return std::nullopt;
}

/// Replaces each number in the name by one '0', and returns the result.
std::string without_numbers(const std::string& name) {
    std::string text;
    for (const char c : name) {
        const bool is_digit = c >= '0' && c <= '9';
        if (!is_digit || text.empty() || text.back() != '0') {
            text += is_digit ? '0' : c;
        }
    }
    return text;
}

bool differ_in_a_number(const Tensor& one, const Tensor& other) {
    return !one.message && !other.message && !one.name.empty() && one.name != other.name &&
           without_numbers(one.name) == without_numbers(other.name);
}

std::optional<StallPattern> numbered_names(const StallReport& report) {
    const auto found = find_crossing(
        report.tensors, [](const Crossing& crossing) { return differ_in_a_number(crossing.first, crossing.second); });
    if (!found) {
        return std::nullopt;
    }
    return StallPattern{
        Kind::numbered_names, joined(found->in_first, found->in_second),
        fmt::format("the names differ only in a number: {} {} for {}, {} {} for {}; look for a counter "
                    "in the name that has different values on the ranks",
                    base::format_ranks(found->in_first), waits_or_wait(found->in_first), name_of(found->first),
                    base::format_ranks(found->in_second), waits_or_wait(found->in_second), name_of(found->second))};
}

std::optional<StallPattern> crosswise(const StallReport& report) {
    const auto found = find_crossing(
        report.tensors, [](const Crossing& crossing) { return !crossing.first.message && !crossing.second.message; });
    if (!found) {
        return std::nullopt;
    }
    return StallPattern{Kind::crosswise, joined(found->in_first, found->in_second),
                        fmt::format("the ranks are waiting for each other crosswise: {} in {}, {} in {}",
                                    base::format_ranks(found->in_first), name_of(found->first),
                                    base::format_ranks(found->in_second), name_of(found->second))};
}

/// Whether the entry is a send to `peer` and its sender has no pending receive that `peer` could complete.
bool is_lone_send_to(const Tensor& tensor, std::int32_t peer) {
    return tensor.message && tensor.message->sends && !tensor.message->receives_too && !tensor.message->waits_for_gpu &&
           tensor.message->peer == peer;
}

std::optional<StallPattern> sends_to_each_other(const StallReport& report) {
    for (const Tensor& tensor : report.tensors) {
        if (!tensor.message || tensor.ready.size() != 1 || !is_lone_send_to(tensor, tensor.message->peer)) {
            continue;
        }
        const std::int32_t own = tensor.ready.front();
        const auto other =
            std::find_if(report.missing_ranks.begin(), report.missing_ranks.end(), [&](const Rank& rank) {
                return rank.rank == tensor.message->peer &&
                       std::any_of(rank.waits_in.begin(), rank.waits_in.end(),
                                   [own](const Tensor& waits_in) { return is_lone_send_to(waits_in, own); });
            });
        if (other != report.missing_ranks.end()) {
            const Ranks both = joined({own}, {other->rank});
            return StallPattern{Kind::sends_to_each_other, both,
                                fmt::format("ranks {} and {} are both in a send to each other, and neither receives; "
                                            "one of them must receive first, or send with send_async",
                                            both.front(), both.back())};
        }
    }
    return std::nullopt;
}

std::optional<std::int64_t> step_of(const StallReport& report, std::int32_t rank) {
    for (const auto& [step, ranks] : report.steps) {
        if (step >= 0 && contains(ranks, rank)) {
            return step;
        }
    }
    return std::nullopt;
}

/// The ranks that wait for a certain rank, the lowest step of these ranks, and the step of that rank. ranks_ahead_of()
/// returns them, or nothing if one of these ranks is not in a later step than `rank`.
struct Ahead {
    std::int64_t own_step = 0;
    std::int64_t step = 0;
    Ranks ranks;
};
std::optional<Ahead> ranks_ahead_of(const StallReport& report, std::int32_t rank) {
    const std::optional<std::int64_t> own = step_of(report, rank);
    Ahead ahead;
    for (const Tensor& tensor : report.tensors) {
        if (own && contains(tensor.awaited(), rank)) {
            ahead.ranks = joined(ahead.ranks, without(tensor.ready, {rank}));
        }
    }
    for (const std::int32_t other : ahead.ranks) {
        const std::optional<std::int64_t> step = step_of(report, other);
        if (!step || *step <= *own) {
            return std::nullopt;
        }
        ahead.step = other == ahead.ranks.front() ? *step : std::min(ahead.step, *step);
    }
    if (ahead.ranks.empty()) {
        return std::nullopt;
    }
    ahead.own_step = *own;
    return ahead;
}

/// Returns a tensor for which `rank` waits, and for which no other rank of the report waits. Returns null if there is
/// none.
const Tensor* waits_elsewhere(const StallReport& report, const Rank& rank) {
    const auto found = std::find_if(rank.waits_in.begin(), rank.waits_in.end(), [&](const Tensor& waits_in) {
        return std::none_of(report.tensors.begin(), report.tensors.end(), [&](const Tensor& tensor) {
            const bool is_same = tensor.name == waits_in.name && tensor.call == waits_in.call;
            return is_same && !without(tensor.ready, {rank.rank}).empty();
        });
    });
    return found == rank.waits_in.end() ? nullptr : &*found;
}

/// The largest number of steps by which other ranks can be ahead of a rank that has ended its loop. The other ranks
/// must soon wait for that rank, but not always in their next step. For example, if a trainer accumulates gradients,
/// some of its steps call no collective operation.
constexpr std::int64_t kMostStepsWithoutRank = 16;

std::optional<StallPattern> loop_ended(const StallReport& report) {
    for (const Rank& rank : report.missing_ranks) {
        const std::optional<Ahead> ahead = ranks_ahead_of(report, rank.rank);
        const Tensor* const waits_in = waits_elsewhere(report, rank);
        // A rank that is many steps behind probably did not end its loop early. It may count its steps from 0 again.
        if (ahead && ahead->step - ahead->own_step <= kMostStepsWithoutRank && waits_in != nullptr) {
            return StallPattern{
                Kind::loop_ended, joined({rank.rank}, ahead->ranks),
                fmt::format("rank {} ended its loop with step {} and waits in {}, while {} {} in step {}; with data of "
                            "different length, a rank that has no more calls join()",
                            rank.rank, ahead->own_step, name_of(*waits_in), base::format_ranks(ahead->ranks),
                            is_or_are(ahead->ranks), ahead->step)};
        }
    }
    return std::nullopt;
}

std::optional<StallPattern> step_behind(const StallReport& report) {
    for (const Rank& rank : report.missing_ranks) {
        const std::optional<Ahead> ahead = ranks_ahead_of(report, rank.rank);
        if (ahead && rank.waits_in.empty()) {
            return StallPattern{
                Kind::step_behind, joined({rank.rank}, ahead->ranks),
                fmt::format("rank {} is still in step {}, while {} {} in step {}", rank.rank, ahead->own_step,
                            base::format_ranks(ahead->ranks), is_or_are(ahead->ranks), ahead->step)};
        }
    }
    return std::nullopt;
}

/// Whether the rank has launched the operation on GPUs that the report is about. A report about ranks that have not
/// launched the operation also describes other ranks. If such a rank has launched it, it is not the reason for the
/// stall.
bool has_launched(const StallReport& report, const Rank& rank) {
    return report.on_gpus == StallReport::OnGpus::launching && !report.tensors.empty() &&
           contains(report.tensors.front().ready, rank.rank);
}

/// Finds missing ranks that are in a scope declared by their program, and names the rank that has been in its scope for
/// longest.
std::optional<StallPattern> busy(const StallReport& report) {
    const Rank* longest = nullptr;
    for (const Rank& rank : report.missing_ranks) {
        if (!rank.busy.empty() && !has_launched(report, rank) &&
            (longest == nullptr || rank.busy_seconds > longest->busy_seconds)) {
            longest = &rank;
        }
    }
    if (longest == nullptr) {
        return std::nullopt;
    }
    const std::string since =
        longest->busy_seconds < 0 ? "" : fmt::format(" for {} s", seconds_text(longest->busy_seconds));
    return StallPattern{
        Kind::busy,
        {longest->rank},
        fmt::format("rank {} has been busy with {}{}", longest->rank, base::quote(longest->busy), since)};
}

std::optional<StallPattern> does_not_run(const StallReport& report) {
    for (const Rank& rank : report.missing_ranks) {
        // The text after a semicolon does not belong to the state of the process.
        const std::string state = rank.process_state.substr(0, rank.process_state.find(';'));
        const bool runs = !state.starts_with("stopped") && state != "ended" && state != "gone";
        if (!runs && !has_launched(report, rank)) {
            return StallPattern{
                Kind::does_not_run,
                {rank.rank},
                fmt::format("the process of rank {} (pid {}) does not run: {}", rank.rank, rank.pid, state)};
        }
    }
    return std::nullopt;
}

/// Says why undelivered() names these ranks. `first` is the first of them.
std::string reason_of_undelivered(const Ranks& ranks, const Rank& first) {
    const bool is_one = ranks.size() == 1;
    const bool is_stuck = first.takes_turns == false;
    std::string reason;
    if (first.steps_behind > 0 && (is_one || !is_stuck)) {  // several stuck ranks may have different numbers of steps
        reason = fmt::format("{} step{} behind the rank that has done most", first.steps_behind,
                             first.steps_behind == 1 ? "" : "s");
    }
    if (is_stuck) {
        reason += reason.empty() ? "" : ", and ";
        reason += is_one ? "the thread that executes the operation does not respond"
                         : "the threads that execute the operation do not respond";
    }
    return reason;
}

/// Names the ranks that hold up an operation that is being executed.
std::optional<StallPattern> undelivered(const StallReport& report) {
    const Ranks ranks = ranks_that_hold_up(report);
    if (!ranks.empty()) {
        const auto first = std::find_if(report.missing_ranks.begin(), report.missing_ranks.end(),
                                        [&](const Rank& rank) { return rank.rank == ranks.front(); });
        const bool is_one = ranks.size() == 1;
        const std::string part = is_one ? first->part ? name_of(*first->part) : "its part" : "their parts";
        return StallPattern{Kind::undelivered, ranks,
                            fmt::format("{} {} not delivered {}: {}", base::format_ranks(ranks),
                                        is_one ? "has" : "have", part, reason_of_undelivered(ranks, *first))};
    }
    const bool is_silent = std::any_of(report.missing_ranks.begin(), report.missing_ranks.end(), [](const Rank& rank) {
        return rank.silent_seconds > 0 && rank.takes_turns != true;
    });
    if (report.elsewhere.empty() || is_silent) {
        return std::nullopt;
    }
    return StallPattern{
        Kind::other_host, report.elsewhere,
        fmt::format("no rank of this host holds up the operation; another host has not delivered its part ({})",
                    base::format_ranks(report.elsewhere))};
}

/// Names the ranks whose GPUs have not reached an operation on GPUs. The GPUs of the other ranks perhaps only wait for
/// these GPUs.
std::optional<StallPattern> program_on_gpu(const StallReport& report) {
    Ranks ranks;
    for (const Rank& rank : report.missing_ranks) {
        if (rank.waits_for_program) {
            ranks.push_back(rank.rank);
        }
    }
    if (ranks.empty()) {
        return std::nullopt;
    }
    const bool is_one = ranks.size() == 1;
    return StallPattern{Kind::program_on_gpu, ranks,
                        fmt::format("the GPU{} of {} {} not done the work that the program put into its stream before "
                                    "the call; a kernel of the program may hang",
                                    is_one ? "" : "s", base::format_ranks(ranks), is_one ? "has" : "have")};
}

/// Whether the ranks exchange the operation's data in the CPU's memory. Only in this case can the ranks' steps be
/// compared.
bool is_on_cpu(const StallReport& report) {
    return report.on_gpus == StallReport::OnGpus::no ||
           std::any_of(report.missing_ranks.begin(), report.missing_ranks.end(),
                       [](const Rank& rank) { return rank.is_on_cpu; });
}

}  // namespace

std::string_view name_of(StallPattern::Kind kind) {
    switch (kind) {
        case Kind::sends_to_each_other:
            return "sends_to_each_other";
        case Kind::numbered_names:
            return "numbered_names";
        case Kind::loop_ended:
            return "loop_ended";
        case Kind::busy:
            return "busy";
        case Kind::crosswise:
            return "crosswise";
        case Kind::step_behind:
            return "step_behind";
        case Kind::does_not_run:
            return "does_not_run";
        case Kind::program_on_gpu:
            return "program_on_gpu";
        case Kind::undelivered:
            return "undelivered";
        case Kind::other_host:
            return "other_host";
    }
    return "unknown";
}

std::vector<std::int32_t> ranks_that_hold_up(const StallReport& report) {
    Ranks stuck;
    Ranks behind;
    std::uint64_t most = 0;
    const bool all_take_turns =
        std::all_of(report.missing_ranks.begin(), report.missing_ranks.end(),
                    [&](const Rank& rank) { return rank.takes_turns == true || has_launched(report, rank); });
    for (const Rank& rank : report.missing_ranks) {
        if (rank.takes_turns == false) {
            stuck.push_back(rank.rank);
        }
        const bool only_waits = rank.takes_turns == true && !(all_take_turns && report.elsewhere.empty());
        if (only_waits || rank.steps_behind == 0 || rank.steps_behind < most) {
            continue;
        }
        if (rank.steps_behind > most) {
            behind.clear();
            most = rank.steps_behind;
        }
        behind.push_back(rank.rank);
    }
    return stuck.empty() ? behind : stuck;
}

std::vector<StallPattern> find_stall_patterns(const StallReport& report) {
    std::vector<StallPattern> patterns;
    const auto add = [&](std::optional<StallPattern> pattern) {
        const bool is_found = pattern.has_value();
        if (is_found && patterns.size() < kMostPatterns) {
            patterns.push_back(std::move(*pattern));
        }
        return is_found;
    };
    add(does_not_run(report));
    const bool is_busy = add(busy(report));
    if (report.executing) {
        // The pattern program_on_gpu() comes first. A rank whose GPU waits for the program's own work is also behind
        // the other ranks, but the program's work is the reason.
        if (!add(program_on_gpu(report)) && is_on_cpu(report)) {
            add(undelivered(report));
        }
        return patterns;
    }
    add(sends_to_each_other(report));
    // The crosswise pattern is left out if a pattern about names or loops is found, because those patterns say more. If
    // the loops of the ranks or the names of their tensors differ, the ranks also wait for each other crosswise.
    const bool is_explained = add(numbered_names(report)) || add(loop_ended(report));
    if (!is_explained) {
        add(crosswise(report));
    }
    if (!is_busy) {
        add(step_behind(report));
    }
    return patterns;
}

}  // namespace rueda::core
