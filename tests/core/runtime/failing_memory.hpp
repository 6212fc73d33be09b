// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::tests {

/// While this object lives, the creating thread's first `successes` allocations succeed, and the next one fails. The
/// object affects only operator new. A thread has at most one such object.
class FailingAllocation {
public:
    explicit FailingAllocation(std::uint64_t successes);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    [[nodiscard]] bool has_failed() const;
    /// The number of allocations since the construction. The number is valid only if no allocation has failed.
    [[nodiscard]] std::uint64_t allocations() const;

private:
    std::uint64_t successes_;
};

/// Lets every operator new of all threads fail while this object lives.
class ExhaustedMemory {
public:
    ExhaustedMemory();
    ~ExhaustedMemory();
    ExhaustedMemory(const ExhaustedMemory&) = delete;
    ExhaustedMemory& operator=(const ExhaustedMemory&) = delete;
};

}  // namespace rueda::tests
