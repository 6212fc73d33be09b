// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/recorder/recorder_writer.hpp"

#include <algorithm>
#include <ctime>
#include <functional>

namespace rueda::base {

void RecorderWriter::begin() const {
    if (recorder_ == nullptr) {
        return;
    }
    const ClockPair now = ClockPair::now();
    timespec real{};
    clock_gettime(CLOCK_REALTIME, &real);
    recorder_->begin_ticks.store(now.ticks, std::memory_order_relaxed);
    recorder_->begin_ns.store(now.ns, std::memory_order_relaxed);
    recorder_->realtime_ns.store(real.tv_sec * std::int64_t{1'000'000'000} + real.tv_nsec, std::memory_order_relaxed);
    recorder_->ready.store(1, std::memory_order_release);  // RecorderReader::is_ready() loads this flag with acquire
}

void RecorderWriter::note_set(std::int32_t id, std::string_view ranks) const {
    if (recorder_ == nullptr) {
        return;
    }
    const std::uint64_t number = recorder_->sets_written.load(std::memory_order_relaxed);
    SetRecord& set = recorder_->sets[number % RankRecorder::kSets];
    // The stores are releases: a reader that sees a part of the new set also sees that `in_use` was set to 0 before.
    // RecorderReader::sets() reads these words.
    set.in_use.store(0, std::memory_order_release);
    set.id.store(id, std::memory_order_release);
    set.ranks.write(ranks);
    set.in_use.store(1, std::memory_order_release);
    recorder_->sets_written.store(number + 1, std::memory_order_relaxed);
}

void RecorderWriter::begin_step(std::int64_t step) const {
    if (recorder_ == nullptr) {
        return;
    }
    RankCounters& counters = recorder_->counters;
    const std::uint64_t number = announce({.kind = RecordKind::kStep, .ordinal = static_cast<std::uint64_t>(step)});
    const std::uint64_t now = place_of(number).announced.load(std::memory_order_relaxed);
    const std::uint64_t before = counters.step_began_ticks.load(std::memory_order_relaxed);
    counters.step_ticks.store(before != 0 ? now - before : 0, std::memory_order_relaxed);
    counters.step_began_ticks.store(now, std::memory_order_relaxed);
    add(counters.steps, 1);
}

/// Converts times of CLOCK_MONOTONIC. A time before the call of begin() becomes the time of that call.
RecorderWriter::Span RecorderWriter::ticks_at(std::int64_t began_ns, std::int64_t ended_ns) const {
    const ClockPair now = ClockPair::now();
    const ClockPair begin{recorder_->begin_ticks.load(std::memory_order_relaxed),
                          recorder_->begin_ns.load(std::memory_order_relaxed)};
    const double ticks_per_ns =
        now.ns > begin.ns ? static_cast<double>(now.ticks - begin.ticks) / static_cast<double>(now.ns - begin.ns) : 1.0;
    const auto convert = [&](std::int64_t ns) {
        const std::int64_t before = now.ns - std::clamp(ns, begin.ns, std::max(begin.ns, now.ns));
        return now.ticks - static_cast<std::uint64_t>(static_cast<double>(before) * ticks_per_ns);
    };
    return {convert(began_ns), convert(ended_ns)};
}

void RecorderWriter::note_gpu_part(std::int32_t set_id, std::uint8_t kind, GpuPart gpu, std::int64_t began_ns,
                                   std::int64_t ended_ns) const {
    if (recorder_ == nullptr) {
        return;
    }
    const auto [begin, end] = ticks_at(began_ns, ended_ns);
    note_part(set_id, {.kind = PartKind::gpu,
                       .awaited = kind,
                       .steps = static_cast<std::uint32_t>(gpu.tag()),
                       .begin_ticks = begin,
                       .end_ticks = end});
}

void RecorderWriter::note_scope(std::uint64_t name, std::int64_t began_ns, std::int64_t ended_ns) const {
    if (recorder_ == nullptr) {
        return;
    }
    const auto [begin, end] = ticks_at(began_ns, ended_ns);
    note_ended({.kind = RecordKind::kScope, .name = name}, begin, end);
    add(recorder_->counters.scopes, 1);
}

void RecorderWriter::note_part(std::int32_t set_id, const Part& part) const {
    if (recorder_ == nullptr) {
        return;
    }
    note_ended({.kind = RecordKind::kPart,
                .dtype = static_cast<std::uint8_t>(part.kind),
                .ordinal = MessageEnd{part.awaited, static_cast<std::int32_t>(part.steps)}.word(),
                .name = static_cast<std::uint32_t>(set_id),
                .bytes = part.waited_ticks},
               part.begin_ticks, part.end_ticks);
    add(recorder_->counters.parts, 1);
}

/// Records an event that has already ended, such as a scope.
void RecorderWriter::note_ended(const Announced& what, std::uint64_t begin_ticks, std::uint64_t end_ticks) const {
    const std::uint64_t number = announce(what, begin_ticks);
    if (OperationRecord* const record = find(number)) {
        record->ended.store(end_ticks, std::memory_order_release);
        record->state.store(record->state.load(std::memory_order_relaxed) | RecordState::kEnded,
                            std::memory_order_release);
    }
}

std::uint64_t RecorderWriter::note_name(std::int32_t set_id, std::string_view name) const {
    // Only one thread at a time holds this flag. A thread takes the flag with acquire and gives it back with release,
    // so the next thread sees the names that earlier threads wrote.
    if (recorder_ == nullptr || recorder_->names_taken.exchange(1, std::memory_order_acquire) != 0) {
        return 0;
    }
    const std::uint64_t number = recorder_->names_written.load(std::memory_order_relaxed) + 1;
    NameRecord& record = recorder_->names[number % RankRecorder::kNames];
    record.number.store(0, std::memory_order_relaxed);
    // The stores are releases, so a reader that sees one of them also sees that `number` became 0.
    // RecorderReader::read_name() reads these words.
    record.set_id.store(set_id, std::memory_order_release);
    record.hash.store(static_cast<std::uint32_t>(std::hash<std::string_view>{}(name)), std::memory_order_release);
    record.text.write(name);
    record.number.store(number, std::memory_order_release);
    recorder_->names_written.store(number, std::memory_order_relaxed);
    recorder_->names_taken.store(0, std::memory_order_release);
    return number;
}

}  // namespace rueda::base
