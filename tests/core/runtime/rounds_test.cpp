// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Runs hundreds of jobs in one process, one after another. Tests which resources a job leaves behind, and which objects
// stay valid after it.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::tests {
namespace {

template <class Expected, class Body>
bool throws(Body&& body) {
    try {
        body();
    } catch (const Expected&) {
        return true;
    }
    return false;
}

/// Returns the number of KiB after `key` in a file below /proc/self.
std::int64_t kib_of(const char* file, const std::string& key) {
    std::ifstream lines(std::string("/proc/self/") + file);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(key + ":")) {
            return std::stoll(line.substr(key.size() + 1));
        }
    }
    RUEDA_RANK_CHECK(false);
    return 0;
}

std::int64_t count_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::int64_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        ++count;
    }
    return count;
}

/// The system resources that this process uses.
struct Footprint {
    std::int64_t addresses_kib = kib_of("status", "VmSize");
    std::int64_t shared_kib = kib_of("status", "RssShmem");
    /// The anonymous memory of the process. Private pages of code are not counted, because they depend on which rank
    /// ended first.
    std::int64_t anonymous_kib = kib_of("smaps_rollup", "Anonymous");
    std::int64_t page_tables_kib = kib_of("status", "VmPTE");
    std::int64_t mappings = count_mappings();
};

bool is_mapped(const void* memory) {
    const auto page = reinterpret_cast<std::uintptr_t>(memory) / 4096 * 4096;
    return msync(reinterpret_cast<void*>(page), 4096, MS_ASYNC) == 0;  // msync fails with ENOMEM for an unmapped page
}

/// A job of two ranks with names, a process set, and resident memory. Some of this memory is given back only after the
/// job.
void one_round(RankContext& context, rueda::TensorSlot& slot, int round) {
    rueda::init();
    const auto first_alone = rueda::add_process_set({0});  // the shutdown removes this set
    std::vector<float> values(1000);
    for (int i = 0; i < 20; ++i) {
        std::fill(values.begin(), values.end(), static_cast<float>(context.rank() + round));
        rueda::allreduce("tensor." + std::to_string(i), values, {.op = ReduceOp::sum});
        RUEDA_RANK_EQUAL(values[999], static_cast<float>(2 * round + 1));
    }
    if (context.rank() == 0) {
        rueda::allreduce("alone", values, {.op = ReduceOp::sum, .process_set = first_alone});
    }
    constexpr std::size_t kCount = 100'000;
    auto* const resident = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
    std::fill_n(resident, kCount, static_cast<float>(context.rank() + round));
    rueda::allreduce(slot, std::span(resident, kCount), {.op = ReduceOp::sum});
    if (round % 2 == 0) {
        rueda::deallocate(resident);
    }
    rueda::shutdown();
    if (round % 2 != 0) {
        RUEDA_RANK_EQUAL(resident[kCount - 1], static_cast<float>(2 * round + 1));
        rueda::deallocate(resident);
    }
}

/// Each job reserves 8 TiB of addresses, and a process has only 128 TiB. So the jobs must give their addresses back.
TEST_CASE("hundreds of jobs in one process leave nothing behind", "[processes]") {
    check_passed(run_public_ranks(
        2,
        [](RankContext& context) {
            constexpr int kRounds = kSanitized ? 40 : 300;
            // After 50 jobs, the libraries reuse the memory that they keep, and allocate no more.
            constexpr int kFirst = 50;
            ::setenv("RUEDA_RESIDENT_LIMIT", kSanitized ? "16G" : "4096G", 1);
            rueda::TensorSlot slot("slot");
            std::optional<Footprint> before;
            for (int round = 0; round < kRounds; ++round) {
                one_round(context, slot, round);
                if (round == kFirst) {
                    before.emplace();
                }
                // Between two jobs, the program maps a page and keeps it mapped. The page may have an address that
                // belonged to an earlier arena.
                RUEDA_RANK_CHECK(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
            }
            if (kSanitized) {  // the sanitizers' own mappings and memory would be counted
                return;
            }
            const Footprint after;
            const std::int64_t rounds = kRounds - kFirst;
            const auto grown = [&](std::int64_t Footprint::*of) { return after.*of - (*before).*of; };
            context.report("grown", fmt::format("{} rounds: {} KiB of addresses, {} mappings, {} KiB anonymous, {} KiB "
                                                "shared, {} KiB of page tables",
                                                rounds, grown(&Footprint::addresses_kib), grown(&Footprint::mappings),
                                                grown(&Footprint::anonymous_kib), grown(&Footprint::shared_kib),
                                                grown(&Footprint::page_tables_kib)));
            RUEDA_RANK_CHECK(grown(&Footprint::addresses_kib) < rounds * 64);
            RUEDA_RANK_CHECK(grown(&Footprint::anonymous_kib) < rounds * 60);
            RUEDA_RANK_CHECK(grown(&Footprint::shared_kib) < 1024);
            RUEDA_RANK_CHECK(grown(&Footprint::page_tables_kib) < 1024);
            RUEDA_RANK_CHECK(grown(&Footprint::mappings) < 3 * rounds);
        },
        {.deadline = std::chrono::seconds(300)}));
}

bool can_be_allocated() {
    try {
        rueda::deallocate(rueda::allocate(100));
        return true;
    } catch (const NotInitialized&) {
        return false;
    }
}

template <class T>
bool is_refused(T* memory) {
    return rueda_deallocate(memory) == RUEDA_INVALID_ARGUMENT;
}

/// Objects that the program holds at shutdown stay valid until the program releases them, whatever later jobs do.
TEST_CASE("resident tensors, handles and slots across the end of a job", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        constexpr std::size_t kCount = 1'000'000;
        rueda::init();
        rueda::TensorSlot slot("slot");
        auto* const large = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
        std::vector<float*> small;  // each tensor has one page
        for (int i = 0; i < 3; ++i) {
            small.push_back(static_cast<float*>(rueda::allocate(64)));
            *small.back() = static_cast<float>(i);
        }
        void* const freed = rueda::allocate(1 << 20);
        std::fill_n(large, kCount, 1.0F);
        const rueda::Handle ended = rueda::allreduce_async(slot, std::span(large, kCount), {.op = ReduceOp::sum});
        ended.wait();
        float never = 1;
        const rueda::Handle pending =
            rueda::allreduce_async("only here." + std::to_string(context.rank()), std::span(&never, 1));
        rueda::deallocate(freed);
        rueda::barrier();
        rueda::shutdown();

        RUEDA_RANK_CHECK(!can_be_allocated());
        RUEDA_RANK_CHECK(ended.ready() && pending.ready());
        ended.wait();
        RUEDA_RANK_CHECK(throws<rueda::Error>([&] { pending.wait(); }));
        RUEDA_RANK_CHECK(std::all_of(large, large + kCount, [](float value) { return value == 3.0F; }));
        RUEDA_RANK_CHECK(is_refused(large + 1));
        RUEDA_RANK_CHECK(is_refused(freed));

        for (int job = 0; job < 3; ++job) {  // these jobs use other memory
            rueda::init();
            std::fill_n(large, kCount, 2.0F);
            rueda::allreduce(slot, std::span(large, kCount), {.op = ReduceOp::sum});
            auto* const other = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
            std::fill_n(other, kCount, 5.0F);
            rueda::allreduce("other", std::span(other, kCount), {.op = ReduceOp::sum});
            RUEDA_RANK_EQUAL(large[kCount - 1], 6.0F);
            RUEDA_RANK_EQUAL(other[kCount - 1], 15.0F);
            rueda::deallocate(other);
            rueda::shutdown();
        }

        rueda::deallocate(large);
        RUEDA_RANK_CHECK(is_refused(large));
        rueda::deallocate(small[1]);
        RUEDA_RANK_EQUAL(*small[0], 0.0F);
        rueda::deallocate(small[0]);
        RUEDA_RANK_EQUAL(*small[2], 2.0F);
        rueda::deallocate(small[2]);
        for (const float* const memory : {large, large + kCount / 2, large + kCount - 1, small[0]}) {
            RUEDA_RANK_CHECK(!is_mapped(memory));
        }
        rueda::init();  // a new job must accept a slot object of an earlier job
        float value = 1;
        rueda::allreduce(slot, std::span(&value, 1), {.op = ReduceOp::sum});
        RUEDA_RANK_EQUAL(value, 3.0F);
        rueda::shutdown();
    }));
}

/// After an abort, other ranks may still be writing to the memory, so it must stay mapped.
TEST_CASE("the memory of a job that was aborted stays", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        constexpr std::size_t kCount = 1'000'000;
        rueda::init();
        auto* const held = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
        auto* const freed = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
        std::fill_n(held, kCount, 1.0F);
        rueda::allreduce("held", std::span(held, kCount), {.op = ReduceOp::sum});
        const rueda::Handle pending =
            rueda::allreduce_async("only here." + std::to_string(context.rank()), std::span(freed, kCount));
        context.phase("pending");
        if (context.rank() == 1) {
            context.wait_for_phase(0, "pending");
            rueda_abort("this is a test");
        }
        RUEDA_RANK_CHECK(throws<rueda::Aborted>([&] { pending.wait(); }));
        rueda::shutdown();
        RUEDA_RANK_EQUAL(held[kCount - 1], 2.0F);
        RUEDA_RANK_CHECK(!can_be_allocated());
        rueda::deallocate(freed);
        rueda::deallocate(held);
        for (float* const memory : {held, freed}) {
            RUEDA_RANK_CHECK(is_mapped(memory));
            RUEDA_RANK_CHECK(is_refused(memory));
        }
        RUEDA_RANK_EQUAL(held[kCount - 1], 2.0F);
        RUEDA_RANK_CHECK(throws<rueda::Aborted>([&] { pending.wait(); }));
        RUEDA_RANK_CHECK(throws<rueda::Aborted>([] { rueda::init(); }));
    }));
}

/// The largest number of pending operations of a thread. If threads start operations faster than the ranks negotiate
/// them, the job's other operations are never negotiated. This happened with ThreadSanitizer on one core, without this
/// limit.
constexpr std::size_t kMostPending = 300;

/// In a loop, makes all calls that a thread may make while another rank ends the job.
void call_until(const std::atomic<bool>& over, RuntimeClient& client, const std::string& prefix) {
    float value = 1;
    const Tensor tensor{&value, DType::float32, {1}};
    std::vector<PendingPointer> pending;
    for (int i = 0; !over.load(std::memory_order_relaxed); ++i) {  // relaxed: joining the thread orders the accesses
        if (pending.size() < kMostPending) {
            // Only this rank starts the operation, so it ends when the job ends.
            auto started = client.start_allreduce(prefix + std::to_string(i), tensor, tensor, {});
            if (started.is_ok()) {
                pending.push_back(std::move(started).value());
            }
        }
        for (std::size_t one = 0; one < std::min<std::size_t>(pending.size(), 3); ++one) {
            static_cast<void>(pending[one]->ready());
        }
        if (const Result<void*> memory = client.allocate(100); memory.is_ok()) {
            expect_ok(client.deallocate(memory.value()), "deallocate");
        }
        core::Runtime& runtime = client.runtime();
        runtime.begin_busy("at it");
        expect_ok(runtime.end_busy(), "end_busy");
        static_cast<void>(runtime.process_sets().leave(99));
        static_cast<void>(runtime.aborted());
        if (i > 50) {  // the pause lets many threads finish this loop even on few cores
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }
    for (const PendingPointer& one : pending) {
        RUEDA_RANK_CHECK(one->ready());
        RUEDA_RANK_CHECK(!one->wait().is_ok());
    }
}

void others_are_inside(RankContext& context, RuntimeClient& client) {
    std::atomic<bool> over{false};
    std::vector<std::jthread> threads;
    std::atomic<int> failed{0};
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
            try {
                call_until(over, client, fmt::format("{}.{}.", context.rank(), i));
            } catch (...) {
                failed.fetch_add(1);
            }
        });
    }
    std::vector<float> values(3000, 1);
    const Tensor tensor{values.data(), DType::float32, {3000}};
    for (int i = 0; i < 5; ++i) {
        expect_ok(client.allreduce("together", tensor, tensor, {}), "together");
    }
    expect_ok(client.shutdown(), "shutdown");
    // Lets the other threads make calls after the end of the job.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    over.store(true, std::memory_order_relaxed);
    threads.clear();
    RUEDA_RANK_EQUAL(failed.load(), 0);
}

TEST_CASE("threads are inside calls when a job ends", "[threads]") {
    for (int round = 0; round < 10; ++round) {
        check_passed(run_clients(2 + round % 2, test_config(), others_are_inside));
    }
}
TEST_CASE("threads of processes are inside calls when a job ends", "[processes]") {
    for (int round = 0; round < 10; ++round) {
        check_passed(run_clients(2 + round % 2, test_config(), others_are_inside, {.as = RanksAs::processes}));
    }
}

}  // namespace
}  // namespace rueda::tests
