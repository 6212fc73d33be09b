// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/job_summary.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <system_error>

#include "base/checkpoint_name.hpp"
#include "base/system/atomic_file.hpp"
#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "training/log_warning.hpp"

namespace rueda::training {
namespace {

using SummaryJson = nlohmann::ordered_json;

/// A rank is awaited if the other ranks wait for it. This is only possible if they spend at least this share of the
/// time in communication. `rueda top` uses the same two limits for stragglers.
constexpr double kAwaitedShare = 0.1;
/// An awaited rank itself spends little time in communication: at most this share of the other ranks' time in
/// communication.
constexpr double kAwaitedRanksOwnShare = 0.25;
/// In a job that is shorter than this, no rank counts as awaited, because such short waits come from the start of the
/// processes.
constexpr double kShortJobSeconds = 1.0;

/// The numbers that the ranks exchange. Doubles hold counts exactly up to 2^53.
constexpr std::size_t kNumbers = 5;
constexpr std::size_t kHostBytes = 64;

std::string host_of_this_process() {
    const char* const by_setting = std::getenv("RUEDA_HOSTNAME");  // NOLINT(concurrency-mt-unsafe): no thread sets it
    if (by_setting != nullptr && *by_setting != 0) {
        return by_setting;
    }
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Gathers the reports of all ranks.
std::vector<RankReport> gather_reports(const RankReport& mine) {
    std::array<double, kNumbers> numbers = {mine.seconds, static_cast<double>(mine.steps),
                                            static_cast<double>(mine.samples), mine.in_communication,
                                            mine.waiting_for_data};
    std::array<std::uint8_t, kHostBytes> host{};
    std::memcpy(host.data(), mine.host.data(), std::min(mine.host.size(), kHostBytes - 1));
    const Handle all_numbers = allgather("rueda.training.job_summary", TensorView(std::span<double>(numbers)));
    const Handle all_hosts = allgather("rueda.training.job_summary.hosts", TensorView(std::span<std::uint8_t>(host)));
    const auto* number = static_cast<const double*>(all_numbers.output().data());
    const auto* name = static_cast<const char*>(all_hosts.output().data());
    std::vector<RankReport> reports(static_cast<std::size_t>(size()));
    for (RankReport& report : reports) {
        report = {.host = std::string(name, ::strnlen(name, kHostBytes)),
                  .seconds = number[0],
                  .steps = static_cast<std::int64_t>(number[1]),
                  .samples = static_cast<std::int64_t>(number[2]),
                  .in_communication = number[3],
                  .waiting_for_data = number[4]};
        number += kNumbers;
        name += kHostBytes;
    }
    return reports;
}

/// The first words of JobReport::checkpoint_failure if the folder of the checkpoints cannot be listed.
constexpr std::string_view kNotListed = "the last one is unknown: ";

/// The age of a checkpoint: the time since its last file was written, by the clock of this host.
double age_of(const std::filesystem::path& folder) {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(folder / base::kCheckpointStateFile, error);
    const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
    return error ? 0.0 : std::max(0.0, age.count());
}

void find_checkpoint(JobReport& report, CheckpointManager& manager) {
    report.checkpoint_failure = manager.last_failure();
    try {
        const std::vector<CheckpointInfo> found = manager.checkpoints();
        if (!found.empty()) {
            report.checkpoint = {found.front().step, age_of(found.front().folder), found.front().folder};
        }
    } catch (const Error& error) {  // the summary must be printed even if the checkpoints cannot be listed
        const std::string& save = report.checkpoint_failure;
        report.checkpoint_failure =
            fmt::format("{}{}{}{}", kNotListed, error.what(), save.empty() ? "" : "; the last save failed: ", save);
    }
}

void write_json(const std::filesystem::path& path, const std::string& text) {
    Result<base::AtomicFile> file = base::AtomicFile::create(path);
    Status status = file.status();
    if (status.is_ok()) {
        status = file.value().write(std::as_bytes(std::span(text)));
    }
    if (status.is_ok()) {
        status = file.value().commit();
    }
    if (!status.is_ok()) {
        warnings_to_the_log(0)(fmt::format("the summary of the job was not written: {}", status.message()));
    }
}

/// The smallest, the median and the largest of the ranks' numbers.
struct Spread {
    std::size_t least = 0;  ///< the rank with the smallest number
    std::size_t most = 0;
    double median = 0;
};

Spread spread_of(const std::vector<RankReport>& ranks, double RankReport::*member) {
    std::vector<std::size_t> order(ranks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return ranks[a].*member < ranks[b].*member; });
    const std::size_t middle = order.size() / 2;
    const double upper = ranks[order[middle]].*member;
    const double lower = ranks[order[(order.size() - 1) / 2]].*member;
    return {order.front(), order.back(), (lower + upper) / 2};
}

bool are_on_several_hosts(const std::vector<RankReport>& ranks) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankReport& each) { return each.host != ranks.front().host; });
}

std::string name_of_rank(const std::vector<RankReport>& ranks, std::size_t rank) {
    return are_on_several_hosts(ranks) ? fmt::format("rank {} on {}", rank, ranks[rank].host)
                                       : fmt::format("rank {}", rank);
}

std::string spread_text(const std::vector<RankReport>& ranks, double RankReport::*member) {
    if (ranks.size() == 1) {
        return fmt::format("{:.1f} s", ranks.front().*member);
    }
    const Spread spread = spread_of(ranks, member);
    return fmt::format("{:.1f} s ({}) to {:.1f} s ({}), median {:.1f} s", ranks[spread.least].*member,
                       name_of_rank(ranks, spread.least), ranks[spread.most].*member, name_of_rank(ranks, spread.most),
                       spread.median);
}

SummaryJson spread_json(const std::vector<RankReport>& ranks, double RankReport::*member) {
    const Spread spread = spread_of(ranks, member);
    SummaryJson by_rank = SummaryJson::array();
    for (const RankReport& rank : ranks) {
        by_rank.push_back(rank.*member);
    }
    return {{"least", {{"rank", spread.least}, {"seconds", ranks[spread.least].*member}}},
            {"median_seconds", spread.median},
            {"most", {{"rank", spread.most}, {"seconds", ranks[spread.most].*member}}},
            {"seconds_by_rank", std::move(by_rank)}};
}

std::string count_text(std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string checkpoint_text(const JobReport& report) {
    if (report.checkpoint_failure.starts_with(kNotListed)) {
        return report.checkpoint_failure;
    }
    std::string text = report.checkpoint ? fmt::format("the last one is of step {}, saved {:.1f} s before the end: {}",
                                                       report.checkpoint->step, report.checkpoint->age,
                                                       report.checkpoint->folder.string())
                                         : "none was saved";
    return report.checkpoint_failure.empty()
               ? text
               : fmt::format("{}; the last save failed: {}", text, report.checkpoint_failure);
}

}  // namespace

double JobReport::seconds() const {
    double longest = 0;
    for (const RankReport& rank : ranks) {
        longest = std::max(longest, rank.seconds);
    }
    return longest;
}

std::int64_t JobReport::steps() const {
    std::int64_t most = 0;
    for (const RankReport& rank : ranks) {
        most = std::max(most, rank.steps);
    }
    return most;
}

std::int64_t JobReport::samples() const {
    std::int64_t sum = 0;
    for (const RankReport& rank : ranks) {
        sum += rank.samples;
    }
    return sum;
}

double JobReport::samples_per_second() const {
    const double time = seconds();
    return time > 0 ? static_cast<double>(samples()) / time : 0;
}

std::optional<int> JobReport::awaited_rank() const {
    if (ranks.size() < 2 || seconds() < kShortJobSeconds) {
        return std::nullopt;
    }
    const std::size_t least = spread_of(ranks, &RankReport::in_communication).least;
    double others = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        others += rank == least ? 0 : ranks[rank].in_communication;
    }
    others /= static_cast<double>(ranks.size() - 1);
    const bool is_awaited =
        others >= kAwaitedShare * seconds() && ranks[least].in_communication <= kAwaitedRanksOwnShare * others;
    return is_awaited ? std::optional(static_cast<int>(least)) : std::nullopt;
}

std::string JobReport::text() const {
    std::string text = fmt::format("job: {:.1f} s on {}, {}, {}, {:.1f} samples/s", seconds(),
                                   count_text(static_cast<std::int64_t>(ranks.size()), "rank"),
                                   count_text(steps(), "step"), count_text(samples(), "sample"), samples_per_second());
    if (ranks.size() > 1) {
        text += fmt::format("\ncommunication: the ranks were blocked for {}",
                            spread_text(ranks, &RankReport::in_communication));
        if (const std::optional<int> awaited = awaited_rank()) {
            text += fmt::format("; they waited for {}", name_of_rank(ranks, static_cast<std::size_t>(*awaited)));
        }
    }
    text += fmt::format("\ndata: the {} for {}", ranks.size() == 1 ? "rank waited" : "ranks waited",
                        spread_text(ranks, &RankReport::waiting_for_data));
    return has_checkpoints ? fmt::format("{}\ncheckpoints: {}", text, checkpoint_text(*this)) : text;
}

std::string JobReport::json() const {
    SummaryJson hosts = SummaryJson::array();
    for (const RankReport& rank : ranks) {
        hosts.push_back(rank.host);
    }
    SummaryJson object{{"ranks", ranks.size()},
                       {"hosts_by_rank", std::move(hosts)},
                       {"seconds", seconds()},
                       {"steps", steps()},
                       {"samples", samples()},
                       {"samples_per_second", samples_per_second()},
                       {"communication", spread_json(ranks, &RankReport::in_communication)},
                       {"data", spread_json(ranks, &RankReport::waiting_for_data)},
                       {"awaited_rank", nullptr},
                       {"checkpoint", nullptr},
                       {"checkpoint_failure", nullptr}};
    if (const std::optional<int> awaited = awaited_rank()) {
        object["awaited_rank"] = *awaited;
    }
    if (checkpoint) {
        object["checkpoint"] = {
            {"step", checkpoint->step}, {"age_seconds", checkpoint->age}, {"folder", checkpoint->folder.string()}};
    }
    if (!checkpoint_failure.empty()) {
        object["checkpoint_failure"] = checkpoint_failure;
    }
    return object.dump(2, ' ', false, SummaryJson::error_handler_t::replace);
}

JobSummary::JobSummary() : began_(Clock::now()), blocked_before_(blocked_seconds()) {
    mine_.host = host_of_this_process();
}

void JobSummary::step(std::int64_t samples) {
    ++mine_.steps;
    mine_.samples += samples;
}

void JobSummary::waited_for_data(double seconds) { mine_.waiting_for_data += seconds; }

JobReport JobSummary::finish(const JobSummaryOptions& options) {
    mine_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    mine_.in_communication = blocked_seconds() - blocked_before_;
    JobReport report{.ranks = gather_reports(mine_), .has_checkpoints = options.checkpoints != nullptr};
    if (rank() != 0) {
        return report;
    }
    if (options.checkpoints != nullptr) {
        find_checkpoint(report, *options.checkpoints);
    }
    if (options.print) {
        options.print(report.text());
    } else {
        fmt::print("{}\n", report.text());
        std::fflush(stdout);
    }
    if (!options.json.empty()) {
        write_json(options.json, report.json() + "\n");
    }
    return report;
}

}  // namespace rueda::training
