// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/job_sample.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/files.hpp"
#include "base/system/clock.hpp"
#include "base/system/process_status.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

/// Returns the time in the clock that the kernel uses for the start times of processes.
double seconds_since_boot() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::optional<ProcessSample> sample_process(const Holder& holder) {
    const std::optional<base::ProcessStatus> status = base::read_process_status(holder.pid);
    if (!status || status->has_ended() || status->start_time != holder.start_time) {
        return std::nullopt;
    }
    const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
    ProcessSample sample;
    sample.state = status->state;
    sample.cpu_seconds = static_cast<double>(status->cpu_ticks) / ticks_per_second;
    sample.age_seconds =
        std::max(0.0, seconds_since_boot() - static_cast<double>(status->start_time) / ticks_per_second);
    sample.resident_bytes = status->resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return sample;
}

/// Finds the rank's process among those that have the memory open. The pid that the rank has stored is the pid in the
/// rank's own namespace.
const Holder* holder_of(const base::RankBlock& block, const std::vector<Holder>& holders) {
    const std::int32_t pid = block.pid.load(std::memory_order_relaxed);
    const std::uint64_t start = block.process_start.load(std::memory_order_relaxed);
    const auto holder = std::find_if(holders.begin(), holders.end(), [pid, start](const Holder& candidate) {
        return candidate.inner_pid == pid && (start == 0 || candidate.start_time == start);
    });
    return holder != holders.end() ? &*holder : nullptr;
}

RankSample sample_rank(const base::RankBlock& block, const std::vector<Holder>& holders) {
    RankSample sample;
    // The rank first fills `block`, and then stores its state with memory_order_release. So the state is loaded first
    // here, with memory_order_acquire.
    sample.state = static_cast<base::RankState>(block.state.load(std::memory_order_acquire));
    sample.rank = block.global_rank.load(std::memory_order_relaxed);
    sample.step = std::max<std::int64_t>(-1, block.step.load(std::memory_order_relaxed));
    sample.scope = base::printable(block.busy.read());
    if (const Holder* const holder = holder_of(block, holders); holder != nullptr) {
        sample.process = sample_process(*holder);
        sample.pid = sample.process ? holder->pid : 0;
    }
    return sample;
}

/// Returns the command line of a process, with blanks between the arguments.
std::string program_of(std::int32_t pid) {
    std::string text = base::read_small_file(fmt::format("/proc/{}/cmdline", pid)).value_or("");
    while (!text.empty() && text.back() == '\0') {
        text.pop_back();
    }
    std::replace(text.begin(), text.end(), '\0', ' ');
    return base::printable(text);
}

}  // namespace

JobState JobSample::state() const {
    if (was_aborted) {
        return JobState::aborted;
    }
    const auto has = [this](base::RankState state) {
        return std::any_of(ranks.begin(), ranks.end(),
                           [state](const RankSample& rank) { return rank.state == state && rank.process.has_value(); });
    };
    return has(base::RankState::running)         ? JobState::running
           : has(base::RankState::shutting_down) ? JobState::shutting_down
                                                 : JobState::ended;
}

bool JobSample::has_processes() const {
    return std::any_of(ranks.begin(), ranks.end(), [](const RankSample& rank) { return rank.process.has_value(); });
}

double JobSample::age_seconds() const {
    double oldest = 0;
    for (const RankSample& rank : ranks) {
        oldest = std::max(oldest, rank.process ? rank.process->age_seconds : 0);
    }
    return oldest;
}

const char* name_of(JobState state) {
    switch (state) {
        case JobState::running:
            return "running";
        case JobState::shutting_down:
            return "shutting down";
        case JobState::aborted:
            return "aborted";
        case JobState::ended:
            return "ended";
    }
    return "?";
}

JobSample take_sample(const Job& job) {
    JobSample sample;
    sample.id = job.id;
    const base::ControlBlock& control = job.arena.control();
    for (std::uint32_t member = 0; member < job.arena.members(); ++member) {
        sample.ranks.push_back(sample_rank(control.ranks[member], job.holders));
        sample.ranks.back().member = member;
    }
    std::stable_sort(sample.ranks.begin(), sample.ranks.end(),
                     [](const RankSample& left, const RankSample& right) { return left.rank < right.rank; });
    const auto first = std::find_if(sample.ranks.begin(), sample.ranks.end(),
                                    [](const RankSample& rank) { return rank.process.has_value(); });
    sample.program = first != sample.ranks.end() ? program_of(first->pid) : "";
    sample.was_aborted = control.abort.raised();
    sample.abort_reason = sample.was_aborted ? base::printable(control.abort.reason_in_place().text) : std::string();
    sample.time_ns = base::monotonic_ns();
    return sample;
}

std::optional<base::RecorderReader> reader_of(const Job& job, const RankSample& rank) {
    const base::RankRecorder* const recorder = job.arena.recorder(rank.member);
    if (recorder == nullptr) {
        return std::nullopt;
    }
    const base::RecorderReader reader(*recorder);
    return reader.is_ready() ? std::optional(reader) : std::nullopt;
}

}  // namespace rueda::launcher
