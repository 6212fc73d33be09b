// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/launch_watch.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/launcher_notification.hpp"
#include "base/text.hpp"
#include "core/diagnostics/gpu_states.hpp"
#include "core/diagnostics/seconds.hpp"
#include "core/diagnostics/stall_pattern.hpp"

namespace rueda::core {

LaunchWatch::LaunchWatch(const StallSettings& settings, const base::HostBlocks& blocks,
                         const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t own)
    : blocks_(blocks), memory_(memory), own_(own), settings_(settings) {}

std::optional<StallMonitor::Finding> LaunchWatch::tick(std::int64_t now_ns, const Source& source) {
    // The loads in this function are relaxed. They need no order, because the thread that drives progress wrote the
    // values long before a report is due.
    const std::uint64_t launched =
        settings_.enabled ? memory_.cursor(own_).launched.load(std::memory_order_relaxed) : 0;
    if (launched == 0 || launched != launched_) {
        launched_ = launched;
        since_ns_ = now_ns;
        next_report_ns_ = now_ns + settings_.warning_ns();
        return std::nullopt;
    }
    const bool ends_job =
        settings_.shutdown_seconds > 0 && now_ns - since_ns_ >= nanoseconds(settings_.shutdown_seconds);
    if (now_ns < next_report_ns_ && !ends_job) {
        return std::nullopt;
    }
    std::optional<StallMonitor::Finding> finding;
    const std::optional<LaunchedBatch> batch = source.oldest();
    if (batch && batch->position + 1 == launched && is_reporter(now_ns) && have_all_launched()) {
        StallReport report = make_report(*batch, now_ns, source);
        const auto reason = ends_job ? std::optional(reason_of_end(report)) : std::nullopt;
        finding = StallMonitor::Finding::of(std::move(report), reason);
    }
    next_report_ns_ = now_ns + 2 * (now_ns - since_ns_);
    return finding;
}

/// Whether this rank makes the report. Among the members that respond, the member whose GPU works on the oldest batch
/// makes it. If there are several such members, the lowest of them makes it.
bool LaunchWatch::is_reporter(std::int64_t now_ns) const {
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const std::uint64_t launched = memory_.cursor(member).launched.load(std::memory_order_relaxed);
        const bool is_before = launched != 0 && (launched < launched_ || (launched == launched_ && member < own_));
        if (is_before &&
            now_ns - blocks_.of(member).heartbeat_ns.load(std::memory_order_relaxed) <= settings_.silence_limit_ns) {
            return false;
        }
    }
    return true;
}

bool LaunchWatch::have_all_launched() const {
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        // acquire; partner: LogCursor::advance_to()
        if (memory_.cursor(member).position.load(std::memory_order_acquire) < launched_) {
            return false;
        }
    }
    return true;
}

StallReport LaunchWatch::make_report(const LaunchedBatch& batch, std::int64_t now_ns, const Source& source) const {
    StallReport report;
    report.executing = true;
    report.on_gpus = StallReport::OnGpus::launched;
    report.operation = collectives::name_of(batch.operation);
    report.others = batch.others;
    report.warning_seconds = settings_.warning_seconds;
    report.elsewhere = source.elsewhere();
    StallReport::Tensor hangs;
    hangs.name = batch.name;
    hangs.call = batch.call;
    hangs.seconds = seconds(now_ns - batch.since_ns);
    std::vector<StallReport::Rank> ranks = source.ranks();
    for (std::uint32_t member = 0; member < ranks.size(); ++member) {
        StallReport::Rank& rank = ranks[member];
        report.steps[rank.step].push_back(rank.rank);
        const GpuState state = gpu_state_of(memory_, member, batch.position);
        if (state.stage == GpuState::Stage::done) {
            hangs.ready.push_back(rank.rank);
            continue;
        }
        hangs.missing.push_back(rank.rank);
        add_gpu_state(rank, state, now_ns);
        report.missing_ranks.push_back(std::move(rank));
    }
    report.tensors.push_back(std::move(hangs));
    return report;
}

std::string LaunchWatch::reason_of_end(const StallReport& report) const {
    const StallReport::Tensor& tensor = report.tensors.front();
    const std::vector<StallPattern> patterns = find_stall_patterns(report);
    return fmt::format(
        "the {} of {} was launched on the GPUs of {} and is not done after {} s, {}{:g}); not done by the GPUs of: "
        "{}{}{}; the job is ended",
        report.operation, name_of(tensor), known_to_have_launched(report), seconds_text(tensor.seconds),
        base::kReasonOfStall, settings_.shutdown_seconds, base::format_ranks(tensor.missing),
        report.elsewhere.empty() ? "" : "; " + text_about_elsewhere(report),
        patterns.empty() ? "" : "; " + patterns.front().text);
}

}  // namespace rueda::core
