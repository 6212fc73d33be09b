// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::tests {

/// While this object lives, one allocation of this thread by operator new fails: the one that follows `successes`
/// successful ones. Only the thread that created the object may use it. A thread has at most one such object.
class FailingAllocation {
public:
    explicit FailingAllocation(std::uint64_t successes);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    [[nodiscard]] bool has_failed() const;
    /// The number of allocations so far. It is only meaningful if no allocation has failed.
    [[nodiscard]] std::uint64_t allocations() const;

private:
    std::uint64_t successes_;
};

/// While this object lives, every allocation by operator new fails, in all threads of the process.
class ExhaustedMemory {
public:
    ExhaustedMemory();
    ~ExhaustedMemory();
    ExhaustedMemory(const ExhaustedMemory&) = delete;
    ExhaustedMemory& operator=(const ExhaustedMemory&) = delete;
};

}  // namespace rueda::tests
