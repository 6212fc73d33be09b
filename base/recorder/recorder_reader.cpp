// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/recorder/recorder_reader.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace rueda::base {

namespace {

/// Returns the time when the rank began to record. Returns `now` if the recorder contains an impossible time.
ClockPair beginning(const RankRecorder& recorder, ClockPair now) {
    const ClockPair begin{recorder.begin_ticks.load(std::memory_order_acquire),
                          recorder.begin_ns.load(std::memory_order_acquire)};
    if (begin.ticks >= now.ticks || begin.ns < 0 || begin.ns >= now.ns) {
        return now;
    }
    // Plausible rates are 10 MHz to 100 GHz, that is, 100 to 0.01 ns per tick.
    const double ns_per_tick = static_cast<double>(now.ns - begin.ns) / static_cast<double>(now.ticks - begin.ticks);
    return ns_per_tick >= 0.01 && ns_per_tick <= 100 ? begin : now;
}

/// The longest plausible time is more than a month. A longer time comes from damaged memory, and its conversion to
/// nanoseconds would overflow.
constexpr std::int64_t kMostTicks = std::int64_t{1} << 53;

}  // namespace

RecorderReader::RecorderReader(const RankRecorder& recorder, const RankRecorder& clock, ClockPair now)
    : recorder_(recorder), now_(now), clock_(beginning(clock, now_), now_) {}

std::int64_t RecorderReader::ns_of(std::uint64_t ticks) const {
    const auto away = std::clamp(static_cast<std::int64_t>(ticks - now_.ticks), -kMostTicks, kMostTicks);
    return clock_.ns_of(now_.ticks + static_cast<std::uint64_t>(away));
}

std::int64_t RecorderReader::span_ns(std::uint64_t ticks) const {
    return clock_.span_ns(std::clamp(static_cast<std::int64_t>(ticks), -kMostTicks, kMostTicks));
}

std::int64_t RecorderReader::realtime_offset_ns() const {
    // The subtraction is unsigned, so that damaged numbers cause no signed overflow.
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(recorder_.realtime_ns.load(std::memory_order_acquire)) -
                                     static_cast<std::uint64_t>(recorder_.begin_ns.load(std::memory_order_acquire)));
}

std::vector<RecordedOperation> RecorderReader::operations(std::size_t most) const {
    std::vector<RecordedOperation> found;
    const std::uint64_t end = recorder_.counters.announced.load(std::memory_order_acquire);
    const std::uint64_t count = std::min({end, RankRecorder::kOperations, static_cast<std::uint64_t>(most)});
    found.reserve(count);
    for (std::uint64_t number = end - count; number < end; ++number) {
        if (std::optional<RecordedOperation> operation = read(number)) {
            found.push_back(*std::move(operation));
        }
    }
    return found;
}

std::optional<RecordedOperation> RecorderReader::read(std::uint64_t number) const {
    const OperationRecord& record = recorder_.operations[number % RankRecorder::kOperations];
    if (record.sequence.load(std::memory_order_acquire) != number + 1) {
        return std::nullopt;
    }
    // `state` must be read before `started` and `ended`. The rank writes `started` and `ended` first. Then it sets the
    // flags in `state` that say that these two are valid.
    const std::uint64_t state = record.state.load(std::memory_order_acquire);
    const std::uint64_t announced = record.announced.load(std::memory_order_acquire);
    const std::uint64_t started = record.started.load(std::memory_order_acquire);
    const std::uint64_t ended = record.ended.load(std::memory_order_acquire);
    const std::uint64_t ordinal = record.ordinal.load(std::memory_order_acquire);
    const std::uint64_t name = record.name.load(std::memory_order_acquire);
    const std::uint64_t size = record.size.load(std::memory_order_acquire);
    if (record.sequence.load(std::memory_order_relaxed) != number + 1 || !RecordState::belongs(state, number)) {
        return std::nullopt;
    }
    RecordedOperation operation;
    operation.number = number;
    operation.kind = static_cast<std::uint8_t>(state & 0xffU);
    operation.dtype = static_cast<std::uint8_t>(size >> 48U & 0xffU);
    operation.reduce_op = static_cast<std::uint8_t>(size >> 56U);
    operation.is_blocking = (state & RecordState::kBlocking) != 0;
    operation.bytes = size & ((std::uint64_t{1} << 48U) - 1);
    operation.announced_ns = ns_of(announced);
    if ((state & RecordState::kInBatch) != 0) {
        operation.batch = static_cast<std::uint32_t>(state >> RecordState::kBatchShift);
    }
    if ((state & RecordState::kStarted) != 0) {
        operation.started_ns = ns_of(started);
    }
    if ((state & RecordState::kEnded) != 0) {
        operation.status = static_cast<std::uint8_t>(state >> RecordState::kStatusShift & 0xffU);
        operation.ended_ns = ns_of(ended);
    }
    operation.is_launched = (state & RecordState::kLaunched) != 0;
    if (operation.is_launched && !operation.ended_ns) {
        operation.launched_ns = ns_of(ended);
    }
    const bool is_part = operation.kind == RecordKind::kPart;
    if (is_part) {
        operation.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(span_ns(operation.bytes), 0));
    }
    if (is_part || RecordKind::is_message(operation.kind)) {
        operation.message = MessageEnd::of(ordinal);
        operation.set_id = static_cast<std::int32_t>(static_cast<std::uint32_t>(name));
        return operation;
    }
    operation.ordinal = ordinal;
    operation.generation = static_cast<std::uint32_t>(name >> 32U);
    if (std::optional<Name> known = read_name(static_cast<std::uint32_t>(name))) {
        operation.has_name_record = true;
        operation.set_id = known->set_id;
        operation.name_hash = known->hash;
        operation.name = std::move(known->text);
    }
    return operation;
}

std::optional<RecorderReader::Name> RecorderReader::read_name(std::uint32_t low_number) const {
    const NameRecord& record = recorder_.names[low_number % RankRecorder::kNames];
    const std::uint64_t number = record.number.load(std::memory_order_acquire);
    if (number == 0 || static_cast<std::uint32_t>(number) != low_number) {
        return std::nullopt;
    }
    Name name{.set_id = record.set_id.load(std::memory_order_acquire),
              .hash = record.hash.load(std::memory_order_acquire),
              .text = record.text.read()};
    if (record.number.load(std::memory_order_relaxed) != number) {
        return std::nullopt;
    }
    return name;
}

std::vector<RecordedSet> RecorderReader::sets() const {
    std::vector<RecordedSet> found;
    for (const SetRecord& set : recorder_.sets) {
        if (set.in_use.load(std::memory_order_acquire) == 1) {
            RecordedSet one{set.id.load(std::memory_order_acquire), set.ranks.read()};
            // If `in_use` has changed, the rank is overwriting this record with another process set. What was read may
            // then contain words of both process sets, so it is dropped.
            if (set.in_use.load(std::memory_order_relaxed) == 1) {
                found.push_back(std::move(one));
            }
        }
    }
    return found;
}

RecordedCounters RecorderReader::counters() const {
    const RankCounters& from = recorder_.counters;
    const auto read = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
    RecordedCounters counters;
    counters.announced = read(from.announced);
    std::uint64_t waited_ticks = 0;
    std::uint64_t executed_ticks = 0;
    for (const KindCounters& kind : std::span(from.of_kind).first(RecordKind::kReduce + 1)) {
        counters.ended += read(kind.ended);
        counters.bytes += read(kind.bytes);
        waited_ticks += read(kind.waited_ticks);
        executed_ticks += read(kind.executed_ticks);
    }
    counters.waited_ns = span_ns(waited_ticks);
    counters.executed_ns = span_ns(executed_ticks);
    counters.failed = read(from.failed);
    counters.batches = read(from.batches);
    counters.steps = read(from.steps);
    counters.scopes = read(from.scopes);
    counters.messages = read(from.messages);
    counters.parts = read(from.parts);
    if (const std::uint64_t began = read(from.step_began_ticks); began != 0) {
        counters.step_began_ns = ns_of(began);
    }
    if (const std::uint64_t took = read(from.step_ticks); took != 0) {
        counters.step_ns = span_ns(took);
    }
    return counters;
}

RecordedExtras RecorderReader::extras() const {
    const RankCounters& from = recorder_.counters;
    RecordedExtras extras;
    for (std::size_t kind = 0; kind < extras.kinds.size(); ++kind) {
        const KindCounters& sums = from.of_kind[kind];
        extras.kinds[kind] = {.ended = sums.ended.load(std::memory_order_relaxed),
                              .bytes = sums.bytes.load(std::memory_order_relaxed),
                              .waited_ns = span_ns(sums.waited_ticks.load(std::memory_order_relaxed)),
                              .executed_ns = span_ns(sums.executed_ticks.load(std::memory_order_relaxed))};
    }
    extras.batched = from.batched.load(std::memory_order_relaxed);
    extras.stall_reports = from.stall_reports.load(std::memory_order_relaxed);
    extras.resident_bytes = from.resident_bytes.load(std::memory_order_relaxed);
    return extras;
}

PendingOperations RecorderReader::pending() const {
    PendingOperations pending;
    const std::uint64_t end = recorder_.counters.announced.load(std::memory_order_acquire);
    for (std::uint64_t number = end - std::min(end, RankRecorder::kOperations); number < end; ++number) {
        const OperationRecord& record = recorder_.operations[number % RankRecorder::kOperations];
        if (record.sequence.load(std::memory_order_acquire) != number + 1) {
            continue;
        }
        const std::uint64_t state = record.state.load(std::memory_order_acquire);
        const std::uint64_t announced = record.announced.load(std::memory_order_acquire);
        const bool is_whole =
            record.sequence.load(std::memory_order_relaxed) == number + 1 && RecordState::belongs(state, number);
        if (!is_whole || (state & RecordState::kEnded) != 0 || !RecordKind::is_collective(state & 0xffU)) {
            continue;
        }
        ++pending.count;
        const std::int64_t announced_ns = ns_of(announced);
        pending.oldest_announced_ns = std::min(pending.oldest_announced_ns.value_or(announced_ns), announced_ns);
    }
    return pending;
}

std::string_view name_of_record_kind(std::uint8_t kind) {
    constexpr std::array<std::string_view, RecordKind::kReduce + 1> kNames{
        "allreduce",     "broadcast", "allgather", "barrier", "join",  "alltoall",
        "reducescatter", "group",     "gather",    "scatter", "reduce"};
    if (kind == RecordKind::kStep) {
        return "step";
    }
    if (kind == RecordKind::kScope) {
        return "scope";
    }
    if (kind == RecordKind::kPart) {
        return "part";
    }
    if (RecordKind::is_message(kind)) {
        return kind == RecordKind::kSend ? "send" : "receive";
    }
    return kind < kNames.size() ? kNames[kind] : "unknown";
}

}  // namespace rueda::base
