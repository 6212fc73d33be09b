// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/timeline_recording.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "base/system/clock.hpp"

namespace rueda::core {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How often the thread reads the rings of the ranks' flight recorders. A thread that wakes ten times a second takes no
/// noticeable part of a core.
constexpr std::chrono::nanoseconds kLongestPause = milliseconds(100);
constexpr std::chrono::nanoseconds kShortestPause = milliseconds(1);
/// The thread chooses the length of its pauses. In one pause, new records should fill this share of a rank's ring. So
/// no record is lost even if there are four times as many operations as expected.
constexpr double kWantedPart = 0.25;
/// A pause takes at least this many times as long as the work before it, so the thread uses at most a fifth of a core.
constexpr int kPauseForWork = 4;
/// The thread reads at most this many records from one rank, and then goes on with the next rank. So it finds the
/// records of one operation on different ranks soon after each other, and must keep only few operations in memory.
constexpr std::size_t kRecordsAtATime = 256;
/// When one rank of the host has ended an operation, the thread waits this long for the other ranks to end it. After
/// that, the operation is written without the ranks that have not ended it.
constexpr std::int64_t kPatienceForOthersNs = 2'000'000'000;
/// When the timeline ends, the thread waits at most this long for operations that some ranks have ended and others have
/// not.
constexpr milliseconds kPatienceForLastEnds{200};
/// The thread writes its text to the file when it has this many bytes, and at the end of a round.
constexpr std::size_t kTextAtATime = std::size_t{1} << 20U;

}  // namespace

std::int64_t TimelineRecording::now_ns() const { return base::monotonic_ns() + header_.clock_offset_ns; }

Status TimelineRecording::begin(const std::string& path, From from) {
    RUEDA_RETURN_IF_FAILED(file_.open(path));
    text_ = base::format_header(header_);
    for (std::uint32_t member = 0; member < arena_->plan().members; ++member) {
        const std::int32_t rank = arena_->control().ranks[member].global_rank.load(std::memory_order_relaxed);
        const std::uint64_t first =
            from == From::beginning ? 0 : reader_of(member, base::ClockPair::now()).next_number();
        drains_.emplace_back(rank, header_.clock_offset_ns, first);
        events_.add_rank(rank, header_.host, text_);
    }
    return write_text();
}

void TimelineRecording::run() noexcept {
    Status result;
    try {
        result = record();
    } catch (const std::exception& error) {
        result = Status(ErrorCode::resource_exhausted, error.what());
    }
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    done_ = true;
    changed_.notify_all();
}

void TimelineRecording::stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
}

bool TimelineRecording::wait_until_done(milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return done_; });
}

bool TimelineRecording::sleep(Nanoseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return stopping_; });
}

Status TimelineRecording::record() {
    std::chrono::nanoseconds pause = kLongestPause;
    while (!sleep(pause)) {
        const auto began = steady_clock::now();
        const Result<double> part = round();
        RUEDA_RETURN_IF_FAILED(part.status());
        const double factor = kWantedPart / std::max(part.value(), 0.001);
        pause = std::chrono::nanoseconds(
            static_cast<std::int64_t>(static_cast<double>(pause.count()) * std::min(factor, 2.0)));
        pause = std::clamp(pause, kShortestPause, kLongestPause);
        pause = std::max<std::chrono::nanoseconds>(pause, kPauseForWork * (steady_clock::now() - began));
    }
    return finish(now_ns());
}

Result<double> TimelineRecording::round() {
    std::vector<base::TimelineOperation> ended;
    std::vector<base::RecorderReader> readers;
    std::uint64_t most = 0;
    const base::ClockPair now = base::ClockPair::now();
    for (std::size_t member = 0; member < drains_.size(); ++member) {
        readers.push_back(reader_of(member, now));
        drains_[member].revisit(readers.back(), ended);
    }
    // In one round, at most as many records are read from each rank as its ring holds. Without this limit a round might
    // never end, because a rank may record faster than this thread reads.
    std::vector<std::size_t> read(drains_.size());
    for (bool goes_on = true; std::exchange(goes_on, false);) {
        for (std::size_t member = 0; member < drains_.size(); ++member) {
            const std::size_t count =
                std::min<std::size_t>(kRecordsAtATime, base::RankRecorder::kOperations - read[member]);
            const std::size_t looked = drains_[member].advance(readers[member], count, ended);
            read[member] += looked;
            most = std::max<std::uint64_t>(most, read[member]);
            goes_on = goes_on || looked == kRecordsAtATime;
        }
        RUEDA_RETURN_IF_FAILED(take(ended));
    }
    RUEDA_RETURN_IF_FAILED(note_losses());
    std::vector<base::OperationGroup> ready;
    groups_.release_older(now_ns() - kPatienceForOthersNs, ready);
    RUEDA_RETURN_IF_FAILED(write_ready(ready));
    events_.settle(text_);
    RUEDA_RETURN_IF_FAILED(write_text());
    return static_cast<double>(most) / static_cast<double>(base::RankRecorder::kOperations);
}

/// Empties the list.
Status TimelineRecording::take(std::vector<base::TimelineOperation>& ended) {
    std::vector<base::OperationGroup> ready;
    const std::int64_t now = now_ns();
    for (base::TimelineOperation& operation : ended) {
        events_.add_alone(operation, now, text_);
        if (base::RecordKind::is_collective(operation.record.kind)) {
            ++end_.operations;
            const std::size_t members = members_of(operation.record.set_id);
            groups_.add(std::move(operation), members, now, ready);
        }
    }
    ended.clear();
    return write_ready(ready);
}

/// Empties the list.
Status TimelineRecording::write_ready(std::vector<base::OperationGroup>& ready) {
    const std::int64_t now = now_ns();
    for (const base::OperationGroup& group : ready) {
        events_.add_group(group, now, text_);
        if (text_.size() >= kTextAtATime) {
            RUEDA_RETURN_IF_FAILED(write_text());
        }
    }
    ready.clear();
    return {};
}

Status TimelineRecording::write_text() {
    Status written = file_.append(text_);
    text_.clear();
    return written;
}

Status TimelineRecording::note_losses() {
    for (RingDrain& drain : drains_) {
        if (const std::uint64_t lost = drain.take_lost(); lost != 0) {
            end_.lost += lost;
            events_.add_lost(drain.rank(), lost, now_ns(), text_);
        }
    }
    return {};
}

/// Returns the number of ranks of this host that are members of the set. Every member records the set before it
/// announces an operation of the set. For an old set, these records may have been overwritten. The operations of a rank
/// are then written without waiting for the other ranks.
std::size_t TimelineRecording::members_of(std::int32_t set_id) {
    const auto known = members_.find(set_id);
    if (known != members_.end()) {
        return known->second;
    }
    constexpr std::size_t kMostSets = 1024;  // the table needs a limit, because a program may add and remove any number
                                             // of sets
    if (members_.size() >= kMostSets) {
        members_.clear();
    }
    std::size_t count = 0;
    for (std::size_t member = 0; member < drains_.size(); ++member) {
        const std::vector<base::RecordedSet> sets = reader_of(member, {}).sets();
        count += std::any_of(sets.begin(), sets.end(), [&](const auto& set) { return set.id == set_id; }) ? 1U : 0U;
    }
    members_.emplace(set_id, count);
    return count;
}

std::vector<base::TimelineOperation> TimelineRecording::open_operations() const {
    std::vector<base::TimelineOperation> open;
    const base::ClockPair now = base::ClockPair::now();
    for (std::size_t member = 0; member < drains_.size(); ++member) {
        drains_[member].append_open(reader_of(member, now), open);
    }
    return open;
}

/// Waits a short time for operations that some ranks have ended and others have not. The other ranks usually end them
/// soon, too.
void TimelineRecording::await_last_ends() {
    const auto is_awaited = [this](const base::TimelineOperation& open) { return groups_.may_await(open.record); };
    const auto deadline = steady_clock::now() + kPatienceForLastEnds;
    while (!arena_->control().abort.raised() && steady_clock::now() < deadline) {
        const std::vector<base::TimelineOperation> open = open_operations();
        if (std::none_of(open.begin(), open.end(), is_awaited)) {
            return;
        }
        std::this_thread::sleep_for(kShortestPause);
        if (!round().is_ok()) {
            return;
        }
    }
}

Status TimelineRecording::finish(std::int64_t stopped_ns) {
    RUEDA_RETURN_IF_FAILED(round().status());
    await_last_ends();
    std::vector<base::TimelineOperation> open = open_operations();
    RUEDA_RETURN_IF_FAILED(take(open));
    std::vector<base::OperationGroup> rest;
    groups_.release_all(rest);
    RUEDA_RETURN_IF_FAILED(write_ready(rest));
    RUEDA_RETURN_IF_FAILED(note_losses());
    events_.finish(stopped_ns, text_);
    text_ += base::format_end(end_) + ",\n";
    return write_text();
}

}  // namespace rueda::core
