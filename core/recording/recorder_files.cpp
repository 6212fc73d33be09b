// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/recording/recorder_files.hpp"

#include <exception>
#include <utility>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/recorder/recording_file.hpp"
#include "base/system/clock.hpp"
#include "base/text.hpp"
#include "core/diagnostics/liveness.hpp"

namespace rueda::core {

namespace {

/// If a rank's last heartbeat is older than this, the rank counts as silent. The background thread of a healthy rank
/// writes its heartbeat several times in this time.
constexpr std::int64_t kSilentNs = 1'000'000'000;
/// The maximum length of the reason in a file; a longer reason is cut. The maximum is large, because the reason may be
/// a stall report with a line for each rank.
constexpr std::size_t kLongestReason = 4096;

std::string_view describe(base::RankState state) {
    switch (state) {
        case base::RankState::absent:
            return "absent";
        case base::RankState::running:
            return "running";
        case base::RankState::shutting_down:
            return "shutting down";
        case base::RankState::left:
            return "left";
        case base::RankState::dead:
            return "dead";
    }
    return "unknown";
}

}  // namespace

std::optional<std::string> RecorderFiles::write_all(std::string_view reason) noexcept {
    return write(reason, [](std::uint32_t /*member*/) { return true; });
}

std::optional<std::string> RecorderFiles::write_at_end(std::string_view reason) noexcept {
    const std::int64_t now = base::monotonic_ns();
    const bool writes_for_others = files_.is_wanted() && is_lowest_alive();
    return write(reason, [&](std::uint32_t member) {
        const std::int64_t heartbeat =
            arena_->control().ranks[member].heartbeat_ns.load(std::memory_order_relaxed);  // any value does no harm
        return member == arena_->rank() || (writes_for_others && (is_dead(member) || now - heartbeat > kSilentNs));
    });
}

/// Reads the recorders at once, because the arena may be unmapped while a slow file system still writes. To make the
/// texts takes longer, so the writing thread makes them.
template <class Choose>
std::optional<std::string> RecorderFiles::write(std::string_view reason, Choose&& choose) noexcept {
    if (!files_.is_wanted() || arena_->recorder(0) == nullptr) {
        return std::nullopt;
    }
    try {
        std::vector<WholeFile> files;
        for (std::uint32_t member = 0; member < arena_->plan().members; ++member) {
            if (choose(member) && base::RecorderReader(*arena_->recorder(member)).is_ready()) {
                const std::int32_t rank = arena_->control().ranks[member].global_rank.load(std::memory_order_relaxed);
                files.emplace_back(base::recording_file_name(rank),
                                   [recording = std::make_shared<const base::Recording>(recording_of(member, reason))] {
                                       return base::format_recording(*recording);
                                   });
            }
        }
        return files_.write(std::move(files));
    } catch (const std::exception&) {
        return std::nullopt;  // there is no memory for the texts, and probably none for an error message either
    }
}

base::Recording RecorderFiles::recording_of(std::uint32_t member, std::string_view reason) const {
    const base::RankBlock& block = arena_->control().ranks[member];
    const base::RankRecorder& recorder = *arena_->recorder(member);
    const base::RecorderReader reader(recorder);
    base::Recording recording;
    recording.rank = block.global_rank.load(std::memory_order_relaxed);
    recording.size = size_;
    recording.host = host_;
    recording.pid = block.pid.load(std::memory_order_relaxed);
    recording.state = is_dead(member)
                          ? describe(base::RankState::dead)
                          : describe(static_cast<base::RankState>(block.state.load(std::memory_order_acquire)));
    recording.written_by = arena_->control().ranks[arena_->rank()].global_rank.load(std::memory_order_relaxed);
    recording.reason = base::shortened(reason, kLongestReason);
    recording.written_ns = base::monotonic_ns();
    recording.began_ns = recorder.begin_ns.load(std::memory_order_acquire);
    recording.realtime_offset_ns = reader.realtime_offset_ns();
    recording.step = block.step.load(std::memory_order_relaxed);
    recording.busy = block.busy.read();
    recording.counters = reader.counters();
    recording.sets = reader.sets();
    recording.operations = reader.operations();
    return recording;
}

bool RecorderFiles::is_dead(std::uint32_t member) const {
    const base::RankBlock& block = arena_->control().ranks[member];
    const auto state = static_cast<base::RankState>(block.state.load(std::memory_order_acquire));
    return state == base::RankState::dead || (state != base::RankState::left && process_has_ended(block));
}

/// Whether every lower rank is dead, or has left the job and writes nothing.
bool RecorderFiles::is_lowest_alive() const {
    for (std::uint32_t member = 0; member < arena_->rank(); ++member) {
        const auto state =
            static_cast<base::RankState>(arena_->control().ranks[member].state.load(std::memory_order_acquire));
        if (state != base::RankState::left && !is_dead(member)) {
            return false;
        }
    }
    return true;
}

}  // namespace rueda::core
