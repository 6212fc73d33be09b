// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::tests {

/// While it lives, one allocation of this thread by operator new fails: the one after `successes` others.
/// Threads: belongs to the thread that made it, which has at most one.
class FailingAllocation {
public:
    explicit FailingAllocation(std::uint64_t successes);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    [[nodiscard]] bool has_failed() const;
    /// So far; of one that has not failed.
    [[nodiscard]] std::uint64_t allocations() const;

private:
    std::uint64_t successes_;
};

/// While it lives, every allocation by operator new fails, in all threads of the process.
class ExhaustedMemory {
public:
    ExhaustedMemory();
    ~ExhaustedMemory();
    ExhaustedMemory(const ExhaustedMemory&) = delete;
    ExhaustedMemory& operator=(const ExhaustedMemory&) = delete;
};

}  // namespace rueda::tests
