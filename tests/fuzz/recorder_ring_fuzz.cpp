// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the reader of another process's flight recorder, and `rueda top`, which uses it. The other process may write
// any values. The records must be in order, and must be readable again after they were written to a file. find_waits()
// gets an interval, and computes from the records when the rank waited. These waits must lie inside the interval.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/recorder/recording_file.hpp"
#include "base/system/clock.hpp"
#include "launcher/activity/waits.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using base::RankRecorder;
using base::RecordState;
using fuzz::expect;
using fuzz::Input;

constexpr std::size_t kRanks = 2;

/// Overwrites any word of the recorder.
void write_word(RankRecorder& recorder, Input& input) {
    const std::size_t place = input.take<std::uint32_t>() % (sizeof(RankRecorder) / sizeof(std::uint64_t));
    const auto word = input.take<std::uint64_t>();
    std::memcpy(reinterpret_cast<std::byte*>(&recorder) + place * sizeof(word), &word, sizeof(word));
}

/// Writes a record into its correct place.
void write_operation(RankRecorder& recorder, Input& input) {
    const auto number = input.take<std::uint64_t>();
    base::OperationRecord& record = recorder.operations[number % RankRecorder::kOperations];
    for (std::atomic<std::uint64_t>* const word :
         {&record.announced, &record.started, &record.ended, &record.ordinal, &record.name, &record.size}) {
        word->store(input.take<std::uint64_t>());
    }
    constexpr std::uint64_t kLap = std::uint64_t{0xff} << RecordState::kLapShift;
    record.state.store((input.take<std::uint64_t>() & ~kLap) | RecordState::begin(0, number));
    record.sequence.store(number + 1);
}

void write_name(RankRecorder& recorder, Input& input) {
    const auto number = input.take<std::uint64_t>();
    base::NameRecord& record = recorder.names[number % RankRecorder::kNames];
    record.set_id.store(input.take<std::int32_t>());
    record.hash.store(input.take<std::uint32_t>());
    const auto text = input.take<std::array<char, 8>>();
    record.text.write({text.data(), text.size()});
    record.number.store(number);
}

void write_set(RankRecorder& recorder, Input& input) {
    base::SetRecord& set = recorder.sets[input.take<std::uint8_t>() % RankRecorder::kSets];
    set.in_use.store(1);
    set.id.store(input.take<std::int32_t>());
    const auto text = input.take<std::array<char, 16>>();
    set.ranks.write({text.data(), text.size()});
}

base::Recording read(const RankRecorder& recorder) {
    const base::RecorderReader reader(recorder);
    base::Recording recording;
    recording.realtime_offset_ns = reader.realtime_offset_ns();
    recording.counters = reader.counters();
    recording.sets = reader.sets();
    recording.operations = reader.operations();
    expect(recording.sets.size() <= RankRecorder::kSets);
    expect(recording.operations.size() <= RankRecorder::kOperations);
    for (std::size_t i = 1; i < recording.operations.size(); ++i) {
        expect(recording.operations[i - 1].number < recording.operations[i].number);
    }
    return recording;
}

/// Requires that the recording can be written to a file and read again. Ignores the clock, because a damaged clock
/// gives impossible times.
void expect_readable(base::Recording recording) {
    recording.realtime_offset_ns = 0;
    expect(base::parse_recording(base::format_recording(recording)).is_ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto recorders = std::make_unique<RankRecorder[]>(kRanks);
    Input input(std::span(data, size));
    while (!input.empty()) {
        const auto choice = input.take<std::uint8_t>();
        RankRecorder& recorder = recorders[choice / 128];
        switch (choice % 8) {
            case 0:
                write_word(recorder, input);
                break;
            case 1:
                write_name(recorder, input);
                break;
            case 2:
                write_set(recorder, input);
                break;
            case 3:
                recorder.counters.announced.store(input.take<std::uint64_t>());
                break;
            case 4:
                recorder.begin_ticks.store(input.take<std::uint64_t>());
                recorder.begin_ns.store(input.take<std::int64_t>());
                break;
            default:
                write_operation(recorder, input);
        }
    }
    std::vector<launcher::RecordedRank> ranks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const base::Recording recording = read(recorders[rank]);
        expect_readable(recording);
        ranks.push_back({static_cast<std::int32_t>(rank), recording.operations, recording.sets});
    }
    constexpr std::int64_t kIntervalNs = 2'000'000'000;
    const std::int64_t now = base::monotonic_ns();
    for (const launcher::RankWaits& waits : launcher::find_waits(ranks, now - kIntervalNs, now)) {
        expect(waits.window_ns >= 0 && waits.window_ns <= kIntervalNs);
        expect(waits.total_ns() >= 0 && waits.total_ns() <= waits.window_ns);
    }
    return 0;
}
