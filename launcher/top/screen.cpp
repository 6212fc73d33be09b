// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/screen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "launcher/jobs/columns.hpp"
#include "launcher/jobs/job_table.hpp"

namespace rueda::launcher {

namespace {

/// If a rank waits for another rank during less than this part of the interval, the screen does not show this wait.
constexpr double kSmallShare = 0.01;

/// The row of a rank shows at most this many of the ranks that it waits for.
constexpr std::size_t kShownWaits = 2;

constexpr std::size_t kProgramBytes = 60;

/// A column that can be left out on a narrow terminal, to leave more room for the column DOING. DOING should have room
/// for its longest text, but `room_of_doing` is always enough. The column is left out if DOING would have less room.
struct Dispensable {
    std::string_view title;
    std::size_t room_of_doing = 0;
};

constexpr std::size_t kWholeText = 1000;
/// The length of a short text in the column DOING, such as "receive from rank 12".
constexpr std::size_t kShortText = 20;

/// The columns in the order in which a narrow terminal leaves them out.
constexpr std::array<Dispensable, 4> kDispensable = {
    {{"BATCHES/S", kWholeText}, {"OPS/S", kWholeText}, {"BYTES/S", kShortText}, {"MEMORY", kShortText}}};

/// A value of ScreenLine::wraps.
constexpr bool kWraps = true;

const std::string kNothing = "-";

std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

/// 0.52 → "0.5", 1234 → "1234".
std::string number(double value) { return value < 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value); }

std::string bytes(double value) { return base::format_bytes(static_cast<std::uint64_t>(std::llround(value))); }

template <class F>
std::string cell_text(const std::optional<double>& value, F&& format) {
    return value ? format(*value) : kNothing;
}

std::string name_of(std::int32_t whom) {
    return whom == kOtherHosts ? "other hosts" : whom == kAnyRank ? "any rank" : fmt::format("rank {}", whom);
}

/// Returns the ranks that this rank waited for, for example "rank 2". If there are several, the text also says how long
/// this rank waited for each of them, as a part of the interval: "rank 2 40%, rank 3 10%".
std::string waited_for(const RankRow& row) {
    const double all = [&row] {
        std::int64_t sum = 0;
        for (const Wait& wait : row.waits) {
            sum += wait.ns;
        }
        return static_cast<double>(sum);
    }();
    std::vector<std::string> parts;
    const double share = row.waiting_share.value_or(0);
    for (const Wait& wait : row.waits) {
        const double part = all > 0 ? share * static_cast<double>(wait.ns) / all : 0;
        if (part >= kSmallShare && parts.size() < kShownWaits) {
            parts.push_back(name_of(wait.whom) + " " + percent(part));
        }
    }
    if (parts.empty()) {
        return "";
    }
    return parts.size() == 1 ? name_of(row.waits.front().whom) : parts[0] + ", " + parts[1];
}

/// Whether the current step already takes much longer than the earlier steps. If so, the screen shows the time since
/// the step began, instead of the time of an earlier step.
bool is_in_long_step(const RankRow& row) {
    return row.in_step_seconds && row.step_seconds && *row.in_step_seconds > 2 * *row.step_seconds &&
           *row.in_step_seconds > 1;
}

std::string long_step(double seconds) { return ">" + format_duration(seconds); }

std::string step_time(const RankRow& row) {
    return is_in_long_step(row) ? long_step(*row.in_step_seconds) : cell_text(row.step_seconds, format_duration);
}

std::string doing(const RankRow& row) {
    const std::string scope = row.scope.empty() ? "" : "in scope " + base::quote(row.scope, kProgramBytes);
    return scope + (scope.empty() || row.pending.empty() ? "" : "; ") + row.pending;
}

bool has_hosts(const TopView& view) { return !view.rows.empty() && !view.rows.front().host.empty(); }

std::vector<Column> columns_for(const TopView& view) {
    constexpr bool kRight = true;
    std::vector<Column> made = {{"RANK", kRight},
                                {"PID", kRight},
                                {"PROCESS"},
                                {"STEP", kRight},
                                {"STEP TIME", kRight},
                                {"WAITS", kRight},
                                {"FOR"},
                                {"BYTES/S", kRight},
                                {"OPS/S", kRight},
                                {"BATCHES/S", kRight},
                                {"CPU", kRight},
                                {"MEMORY", kRight},
                                {"DOING"}};
    if (view.has_gpus) {
        made.insert(made.end() - 1, {{"GPU", kRight}, {"GPU MEMORY", kRight}});
    }
    if (has_hosts(view)) {
        made.insert(made.begin(), {"HOST"});
    }
    return made;
}

/// Returns how much memory of the rank's GPUs is in use, by this rank or by other processes.
std::string gpu_memory(const RankRow& row) {
    std::uint64_t sum = 0;
    for (const RankGpu& gpu : row.gpus) {
        sum += gpu.used_bytes.value_or(0);
    }
    return sum != 0 ? base::format_bytes(sum) : kNothing;
}

std::vector<std::string> cells_of(const RankRow& row, const TopView& view) {
    std::vector<std::string> cells = {(row.is_straggler ? "! " : "") + fmt::format("{}", row.rank),
                                      row.pid != 0 ? fmt::format("{}", row.pid) : kNothing,
                                      row.process,
                                      row.step >= 0 ? fmt::format("{}", row.step) : kNothing,
                                      step_time(row),
                                      cell_text(row.waiting_share, percent),
                                      waited_for(row),
                                      cell_text(row.bytes_per_second, bytes),
                                      cell_text(row.operations_per_second, number),
                                      cell_text(row.batches_per_second, number),
                                      cell_text(row.cpu_share, percent),
                                      row.resident_bytes != 0 ? base::format_bytes(row.resident_bytes) : kNothing,
                                      doing(row)};
    if (view.has_gpus) {
        cells.insert(cells.end() - 1, {cell_text(gpu_utilization(row), percent), gpu_memory(row)});
    }
    if (has_hosts(view)) {
        cells.insert(cells.begin(), row.host);
    }
    return cells;
}

/// Returns the sum of a value over the rows that have it, or the average if `is_average` is true. Returns nothing if no
/// row has the value.
std::optional<double> over_rows(const std::vector<RankRow>& rows, std::optional<double> RankRow::*value,
                                bool is_average) {
    double sum = 0;
    int count = 0;
    for (const RankRow& row : rows) {
        if (row.*value) {
            sum += *(row.*value);
            ++count;
        }
    }
    return count == 0 ? std::nullopt : std::optional(is_average ? sum / count : sum);
}

/// Returns the average time of a step. If some ranks are in a long step, returns the time of the longest of these
/// steps.
std::string step_time_of_all(const std::vector<RankRow>& rows) {
    double longest = 0;
    for (const RankRow& row : rows) {
        longest = is_in_long_step(row) ? std::max(longest, *row.in_step_seconds) : longest;
    }
    return longest > 0 ? long_step(longest)
                       : cell_text(over_rows(rows, &RankRow::step_seconds, /*is_average=*/true), format_duration);
}

std::vector<std::string> sums_of(const TopView& view) {
    std::uint64_t memory = 0;
    for (const RankRow& row : view.rows) {
        memory += row.resident_bytes;
    }
    std::vector<std::string> cells = {
        "all",
        "",
        "",
        format_steps(view.job),
        step_time_of_all(view.rows),
        cell_text(over_rows(view.rows, &RankRow::waiting_share, /*is_average=*/true), percent),
        "",
        cell_text(over_rows(view.rows, &RankRow::bytes_per_second, false), bytes),
        cell_text(over_rows(view.rows, &RankRow::operations_per_second, false), number),
        cell_text(over_rows(view.rows, &RankRow::batches_per_second, false), number),
        cell_text(over_rows(view.rows, &RankRow::cpu_share, false), percent),
        base::format_bytes(memory),
        ""};
    if (view.has_gpus) {
        // these two columns have no sum, because several ranks may share a GPU
        cells.insert(cells.end() - 1, {"", ""});
    }
    if (has_hosts(view)) {
        cells.insert(cells.begin(), "");
    }
    return cells;
}

/// Returns a text that says how much time the marked ranks lose, for example "Rank 1 waits: 84% of the time …" or
/// "Ranks 0-2 wait: at least 42% of …".
void add_loss(const TopView& view, bool RankRow::*mark, double (*share)(const RankRow&), const char* one,
              const char* several, std::vector<ScreenLine>& foot) {
    std::vector<std::int32_t> ranks;
    double least = 1;
    for (const RankRow& row : view.rows) {
        if (row.*mark) {
            ranks.push_back(row.rank);
            least = std::min(least, share(row));
        }
    }
    if (!ranks.empty()) {
        std::string who = base::format_ranks(ranks);
        who.front() = 'R';
        foot.push_back({who + " " +
                            (ranks.size() == 1 ? fmt::format(fmt::runtime(one), percent(least))
                                               : fmt::format(fmt::runtime(several), "at least " + percent(least))),
                        Style::plain, kWraps});
    }
}

void add_findings(const TopView& view, std::vector<ScreenLine>& foot) {
    for (const RankRow& row : view.rows) {
        if (row.is_straggler) {
            foot.push_back({fmt::format("! Rank {} is a straggler: the other ranks wait for it.", row.rank),
                            Style::straggler, kWraps});
        }
    }
    add_loss(
        view, &RankRow::seems_bound_by_input, [](const RankRow& row) { return row.idle_share.value_or(0); },
        "seems to wait for input: {} of the time it neither computes nor is in Rueda or in a declared scope.",
        "seem to wait for input: {} of the time they neither compute nor are in Rueda or in a declared scope.", foot);
    add_loss(
        view, &RankRow::waits_for_own_threads,
        [](const RankRow& row) { return row.outside ? row.outside->threads_run : 0; },
        "waits for other threads of its process: {} of the time its main thread sleeps outside of Rueda, while "
        "another thread runs.",
        "wait for other threads of their processes: {} of the time the main thread sleeps outside of Rueda, while "
        "another thread runs.",
        foot);
}

/// Returns the ANSI sequence that begins a style: bold for a title, red for a straggler, bold red for a failure. kPlain
/// ends every style.
const char* start_of(Style style) {
    switch (style) {
        case Style::plain:
            return "";
        case Style::title:
            return "\x1b[1m";
        case Style::straggler:
            return "\x1b[31m";
        case Style::failure:
            return "\x1b[1;31m";
    }
    return "";
}
constexpr const char* kPlain = "\x1b[0m";

std::string render(const ScreenLine& line, std::size_t columns, bool with_colours) {
    std::string text = line.text;
    text.erase(text.find_last_not_of(' ') + 1);
    if (columns > 0 && columns_of(text) > columns) {
        text = std::string(cut_to_columns(text, columns - 1)) + "…";
    }
    return with_colours && line.style != Style::plain ? start_of(line.style) + text + kPlain : text;
}

/// Breaks those lines that are sentences, so that they fit into the width.
std::vector<ScreenLine> wrapped(const std::vector<ScreenLine>& lines, std::size_t columns) {
    std::vector<ScreenLine> all;
    for (const ScreenLine& line : lines) {
        if (!line.wraps) {
            all.push_back(line);
            continue;
        }
        for (std::string& part : wrap_to_columns(line.text, columns)) {
            all.push_back({std::move(part), line.style});
        }
    }
    return all;
}

std::size_t widest_of(const std::vector<std::string>& lines) {
    std::size_t widest = 0;
    for (const std::string& line : lines) {
        widest = std::max(widest, columns_of(line));
    }
    return widest;
}

void leave_out(std::string_view title, std::vector<Column>& columns, std::vector<std::vector<std::string>>& cells) {
    const auto found =
        std::find_if(columns.begin(), columns.end(), [title](const Column& column) { return column.title == title; });
    const auto place = std::distance(columns.begin(), found);
    columns.erase(found);
    for (std::vector<std::string>& row : cells) {
        row.erase(row.begin() + place);
    }
}

/// Returns the lines of the table: the titles, one line for each rank, and the sums.
std::vector<std::string> table_of(const TopView& view, std::size_t width) {
    std::vector<Column> columns = columns_for(view);
    std::vector<std::vector<std::string>> cells;
    for (const RankRow& row : view.rows) {
        cells.push_back(cells_of(row, view));
    }
    cells.push_back(sums_of(view));
    std::vector<std::string> lines = lay_out(columns, cells);
    for (const Dispensable& column : kDispensable) {
        const std::size_t room = columns_of(lines.front()) - columns.back().title.size() + column.room_of_doing;
        if (width > 0 && std::min(widest_of(lines), room) > width) {
            leave_out(column.title, columns, cells);
            lines = lay_out(columns, cells);
        }
    }
    return lines;
}

}  // namespace

std::string format_duration(double seconds) {
    return seconds < 0.001  ? fmt::format("{:.0f} us", seconds * 1e6)
           : seconds < 0.1  ? fmt::format("{:.1f} ms", seconds * 1e3)
           : seconds < 1.0  ? fmt::format("{:.0f} ms", seconds * 1e3)
           : seconds < 10.0 ? fmt::format("{:.2f} s", seconds)
           : seconds < 100  ? fmt::format("{:.1f} s", seconds)
                            : fmt::format("{:.0f} s", seconds);
}

Screen screen_of(const TopView& view, std::size_t columns) {
    Screen screen;
    const JobSample& job = view.job;
    screen.head.push_back({fmt::format("{}  {}  {}  age {}  interval {}", job.id, name_of(job.state()),
                                       base::shortened(job.program, kProgramBytes), format_age(job.age_seconds()),
                                       format_duration(view.interval_seconds)),
                           Style::plain});
    if (job.was_aborted) {
        screen.head.push_back({"Aborted: " + job.abort_reason, Style::failure, kWraps});
    }
    screen.head.push_back({});
    const std::vector<std::string> lines = table_of(view, columns);
    screen.head.push_back({lines.front(), Style::title});
    for (std::size_t i = 0; i < view.rows.size(); ++i) {
        screen.rows.push_back({lines[i + 1], view.rows[i].is_straggler ? Style::straggler : Style::plain});
    }
    screen.foot.push_back({lines.back(), Style::title});
    add_findings(view, screen.foot);
    for (const std::string& problem : view.problems) {
        screen.foot.push_back({problem, Style::failure, kWraps});
    }
    return screen;
}

std::vector<std::string> render(const Screen& screen, ScreenSize size, bool with_colours) {
    std::vector<ScreenLine> lines = wrapped(screen.head, size.columns);
    const std::vector<ScreenLine> foot = wrapped(screen.foot, size.columns);
    const std::size_t others = lines.size() + foot.size();
    std::size_t shown = screen.rows.size();
    if (size.lines > 0 && others + shown > size.lines) {
        shown = size.lines > others + 1 ? size.lines - others - 1 : 0;
    }
    lines.insert(lines.end(), screen.rows.begin(), screen.rows.begin() + static_cast<std::ptrdiff_t>(shown));
    if (shown < screen.rows.size()) {
        lines.push_back(
            {fmt::format("... {} more ranks do not fit on the screen", screen.rows.size() - shown), Style::plain});
    }
    lines.insert(lines.end(), foot.begin(), foot.end());
    if (size.lines > 0 && lines.size() > size.lines) {
        lines.resize(size.lines);
    }
    std::vector<std::string> texts;
    for (const ScreenLine& line : lines) {
        texts.push_back(render(line, size.columns, with_colours));
    }
    return texts;
}

}  // namespace rueda::launcher
