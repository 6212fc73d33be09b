// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/history.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/support/gpu_stand_in/cuda/process.hpp"

namespace rueda::tests::gpu {

/// A lock between processes. If the process that holds the lock was killed, the next process takes the lock over.
class History::Lock {
public:
    explicit Lock(std::uint32_t& word) : word_(word) {
        const auto own = static_cast<std::uint32_t>(::getpid());
        for (unsigned tries = 1;; ++tries) {
            std::uint32_t expected = 0;
            // The acquire pairs with the release in the destructor.
            if (word_.compare_exchange_strong(expected, own, std::memory_order_acquire, std::memory_order_relaxed)) {
                return;
            }
            if (tries % 1024 == 0 && !is_alive(static_cast<int>(expected))) {
                word_.compare_exchange_strong(expected, 0, std::memory_order_relaxed);
            }
            std::this_thread::yield();
        }
    }
    ~Lock() { word_.store(0, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

private:
    std::atomic_ref<std::uint32_t> word_;
};

void History::add(const Access& access,
                  const std::function<void(const std::string& other, bool other_writes)>& report) {
    const Lock lock(lock_word_);
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const Record& old = records_[i];
        const bool overlaps = old.first < access.end && access.first < old.end;
        const bool is_before = access.clock->at(old.actor) >= old.time;
        if (overlaps && !is_before && (access.write || old.write != 0)) {
            report(old.label, old.write != 0);
        }
        // If the old access is ordered before the new one, every access that races with the old one also races with the
        // new one. So the history no longer needs the old access.
        const bool is_covered = access.first <= old.first && old.end <= access.end;
        if (is_before && is_covered && (access.write || old.write == 0)) {
            continue;
        }
        if (kept != i) {
            records_[kept] = old;
        }
        ++kept;
    }
    if (kept == kRecords) {  // forget the oldest access
        std::memmove(records_, records_ + 1, sizeof(Record) * (kRecords - 1));
        --kept;
    }
    Record& record = records_[kept];
    record.first = access.first;
    record.end = access.end;
    record.actor = access.actor;
    record.time = access.time;
    record.write = access.write ? 1 : 0;
    const std::size_t length = std::min(access.label.size(), kLabelBytes - 1);
    std::memcpy(record.label, access.label.data(), length);
    record.label[length] = '\0';
    count_ = kept + 1;
}

void History::find_unordered(int process, const Clock& clock,
                             const std::function<void(const std::string& access)>& report) {
    const Lock lock(lock_word_);
    for (std::uint32_t i = 0; i < count_; ++i) {
        // The upper half of an actor's number is its process.
        if (records_[i].actor >> 32U == static_cast<std::uint32_t>(process) &&
            clock.at(records_[i].actor) < records_[i].time) {
            report(records_[i].label);
        }
    }
}

void History::add_importer(int process) {
    const Lock lock(lock_word_);
    for (auto& importer : importers_) {
        if (importer == 0) {
            importer = process;
            return;
        }
    }
}

void History::remove_importer(int process) {
    const Lock lock(lock_word_);
    for (auto& importer : importers_) {
        if (importer == process) {
            importer = 0;
            return;
        }
    }
}

std::size_t History::importers() {
    const Lock lock(lock_word_);
    return static_cast<std::size_t>(std::count_if(std::begin(importers_), std::end(importers_),
                                                  [](int process) { return process != 0 && is_alive(process); }));
}

void History::exchange(Clock& host) {
    const Lock lock(lock_word_);
    for (std::uint32_t i = 0; i < clock_count_; ++i) {
        host.raise(clock_[i].actor, clock_[i].time);
    }
    clock_count_ = 0;
    for (const auto& [actor, time] : host.times()) {
        if (clock_count_ < kClockEntries) {
            clock_[clock_count_++] = {actor, time};
        }
    }
}

}  // namespace rueda::tests::gpu
