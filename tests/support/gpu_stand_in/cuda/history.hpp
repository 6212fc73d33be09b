// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/gpu_stand_in/cuda/clock.hpp"

namespace rueda::tests::gpu {

/// The accesses to one allocation. A later access that conflicts with one of them must be ordered after it. The history
/// lies in front of the memory itself, in the same file, so the processes that share the memory also share the history.
///
/// The method is that of race detectors with vector clocks (for example Flanagan and Freund, "FastTrack", PLDI 2009):
/// two accesses race if one of them writes, their ranges overlap, and neither one's clock contains the other. The
/// detector finds a race even if the accesses did not happen at the same time.
class History {
public:
    static constexpr std::size_t kRecords = 1024;
    static constexpr std::size_t kLabelBytes = 200;
    static constexpr std::size_t kImporters = 16;
    static constexpr std::size_t kClockEntries = 512;

    struct Access {
        std::uint64_t first = 0;  ///< offset in the allocation
        std::uint64_t end = 0;
        bool write = false;
        Actor actor = 0;
        Time time = 0;
        const Clock* clock = nullptr;  ///< the clock of everything that is ordered before the access
        std::string label{};
    };

    /// Adds an access. Calls `report` for every earlier access that races with the new one. `report` gets a description
    /// of the earlier access.
    void add(const Access& access, const std::function<void(const std::string& other, bool other_writes)>& report);
    /// Calls `report` for every access of this process that is not ordered before `clock`, with a description of the
    /// access.
    void find_unordered(int process, const Clock& clock, const std::function<void(const std::string& access)>& report);
    /// Adds and removes a process that has opened the memory.
    void add_importer(int process);
    void remove_importer(int process);
    /// Returns the number of living processes that have opened the memory.
    [[nodiscard]] std::size_t importers();
    /// Exchanges clocks with the other processes that have this memory. `host` is the clock of this process's host
    /// program. The function adds everything to it that the other host programs know to have ended, so the caller's
    /// next step counts as later. The stand-in needs the exchange, because it cannot see how the programs notify each
    /// other.
    void exchange(Clock& host);

private:
    struct Record {
        std::uint64_t first;
        std::uint64_t end;
        Actor actor;
        Time time;
        std::uint32_t write;
        char label[kLabelBytes];
    };
    struct ClockEntry {
        Actor actor;
        Time time;
    };
    class Lock;

    // In new memory, all members are zero. `lock_word_` is the id of the process that holds the lock, or 0.
    std::uint32_t lock_word_;
    std::uint32_t count_;
    std::uint32_t clock_count_;
    std::int32_t importers_[kImporters];
    ClockEntry clock_[kClockEntries];
    Record records_[kRecords];
};

}  // namespace rueda::tests::gpu
