// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/core/runtime/failing_memory.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::uint64_t kFailed = kNever - 1;

// The number of ExhaustedMemory objects. The accesses are relaxed, because the number publishes no other data.
std::atomic<int> exhausted{0};

// The number of allocations of this thread that succeed before one fails.
thread_local std::uint64_t allocations_left = kNever;

void* allocate(std::size_t bytes) {
    if (allocations_left == 0) {
        allocations_left = kFailed;
        throw std::bad_alloc();
    }
    if (exhausted.load(std::memory_order_relaxed) > 0) {
        throw std::bad_alloc();
    }
    if (allocations_left < kFailed) {
        --allocations_left;
    }
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) {
        return memory;
    }
    throw std::bad_alloc();
}

}  // namespace

// These functions replace operator new in the whole test program, except its aligned and nothrow forms.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace rueda::tests {

FailingAllocation::FailingAllocation(std::uint64_t successes) : successes_(successes) { allocations_left = successes; }
FailingAllocation::~FailingAllocation() { allocations_left = kNever; }
bool FailingAllocation::has_failed() const { return allocations_left == kFailed; }
std::uint64_t FailingAllocation::allocations() const { return successes_ - allocations_left; }

ExhaustedMemory::ExhaustedMemory() { exhausted.fetch_add(1, std::memory_order_relaxed); }
ExhaustedMemory::~ExhaustedMemory() { exhausted.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace rueda::tests
