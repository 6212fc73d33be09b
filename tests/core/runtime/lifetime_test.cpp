// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how a job ends, and what a program may do afterwards.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>

#include "rueda/rueda.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/public_client.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

void pending_at_shutdown(RankContext&, RuntimeClient& client) {
    std::vector<float> values(100, 1);
    const Tensor tensor{values.data(), DType::float32, {100}};
    std::vector<PendingPointer> pending;
    for (const char* name : {"one", "two", ""}) {
        pending.push_back(
            expect_value(client.start_allreduce(name + (*name == '\0' ? std::string() : std::to_string(client.rank())),
                                                tensor, tensor, {}),
                         "an operation that nobody else starts"));
    }
    // All ranks started the same unnamed operation, so it succeeds. Each named operation was started by one rank only.
    expect_ok(pending.back()->wait(), "the unnamed operation");
    expect_ok(client.shutdown(), "shutdown");
    for (std::size_t i = 0; i < 2; ++i) {
        RUEDA_RANK_CHECK(pending[i]->ready());
        RUEDA_RANK_CHECK(!pending[i]->wait().is_ok());
        RUEDA_RANK_CHECK(pending[i]->wait().code() != ErrorCode::internal);
    }
    expect_ok(client.shutdown(), "a second shutdown");
    RUEDA_RANK_EQUAL(expect_failure(client.start_allreduce("late", tensor, tensor, {}).status(),
                                    ErrorCode::not_initialized, "after the shutdown"),
                     std::string("tensor 'late': rueda::shutdown() has been called on this rank"));
    RUEDA_RANK_EQUAL(expect_failure(client.start_group("group", {tensor, tensor}, {}).status(),
                                    ErrorCode::not_initialized, "a group after the shutdown"),
                     std::string("tensor 'group_1of2': rueda::shutdown() has been called on this rank"));
}

TEST_CASE("shutdown with operations pending, twice", "[threads]") {
    check_passed(run_clients(GENERATE(2, 4), test_config(), pending_at_shutdown));
}
TEST_CASE("shutdown of processes with operations pending, twice", "[processes]") {
    check_passed(run_clients(GENERATE(2, 4), test_config(), pending_at_shutdown, {.as = RanksAs::processes}));
}

/// Rank 1 shuts down early. On the other ranks, pending operations and all later operations must fail.
void one_leaves_early(RankContext& context, RuntimeClient& client) {
    float value = 1;
    const Tensor tensor{&value, DType::float32, {1}};
    expect_ok(client.allreduce("bound", tensor, tensor, {}), "before");
    if (client.rank() == 1) {
        context.phase("leaving");
        return;
    }
    const std::string reason =
        "rank 1 has shut down, so no operation is possible any more; a rank with fewer batches has to call join() "
        "before it shuts down";
    for (const char* name : {"bound", "fresh", ""}) {
        float other = 1;
        const Tensor mine{&other, DType::float32, {1}};
        const auto pending = client.start_allreduce(name, mine, mine, {});
        // Timing decides whether the start is refused or the started operation fails.
        const Status status = pending.is_ok() ? pending.value()->wait() : pending.status();
        const std::string text = expect_failure(status, ErrorCode::aborted, "after rank 1 has left");
        if (*name == '\0') {  // the error may also list how many operations each rank has started
            RUEDA_RANK_CHECK(text.starts_with("the 1st unnamed operation of this process set"));
            RUEDA_RANK_CHECK(text.ends_with(": " + reason));
        } else {
            RUEDA_RANK_EQUAL(text, fmt::format("tensor '{}': {}", name, reason));
        }
    }
}

TEST_CASE("one rank shuts down early", "[threads]") {
    for (int round = 0; round < 20; ++round) {
        check_passed(run_clients(2 + round % 3, test_config(), one_leaves_early));
    }
}

/// Waits until a caller on `rank` sleeps in an operation. A caller announces its operation before it sleeps, so the
/// operation has been announced when this function returns.
void wait_until_blocked(core::Runtime& runtime, int rank) {
    const auto& attention = runtime.control().ranks[rank].attention;
    while (attention.state() != base::AttentionState::blocked) {
        std::this_thread::yield();
    }
}

/// The other ranks sleep in an operation when rank 1 shuts down.
TEST_CASE("one rank shuts down while the others wait for it", "[threads]") {
    for (int round = 0; round < 10; ++round) {
        check_passed(run_clients(3, test_config(), [&](RankContext& context, RuntimeClient& client) {
            std::vector<float> values(5000, 1);
            const Tensor tensor{values.data(), DType::float32, {5000}};
            if (client.rank() == 1) {
                for (const int other : {0, 2}) {
                    context.wait_for_phase(other, "waiting");
                    wait_until_blocked(client.runtime(), other);
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(round));
                return;
            }
            context.phase("waiting");
            RUEDA_RANK_EQUAL(
                expect_failure(client.allreduce("alone", tensor, tensor, {}), ErrorCode::aborted, "the others"),
                std::string("tensor 'alone': rank 1 has shut down, so no operation is possible any more; a rank with "
                            "fewer batches has to call join() before it shuts down"));
        }));
    }
}

/// Several threads of a rank call shutdown() at the same time. One thread shuts down, and the others wait for it.
TEST_CASE("shutdown by several threads of a rank", "[threads]") {
    check_passed(run_clients(3, test_config(), [](RankContext&, RuntimeClient& client) {
        std::vector<std::future<void>> ends;
        for (int i = 0; i < 3; ++i) {
            ends.push_back(std::async(std::launch::async, [&] { expect_ok(client.shutdown(), "shutdown"); }));
        }
        for (auto& end : ends) {
            end.get();
        }
    }));
}

/// One thread gives memory back while another thread is in shutdown(). The shutdown must wait until the memory is given
/// back.
TEST_CASE("memory is given back during a shutdown", "[processes]") {
    check_passed(run_public_ranks(2,
                                  [](RankContext& context) {
                                      rueda::init();
                                      if (context.rank() == 1) {
                                          float value = 1;
                                          try {
                                              rueda::allreduce("never", std::span(&value, 1));
                                              RUEDA_RANK_CHECK(false);
                                          } catch (const Aborted&) {
                                          }
                                          context.phase("rank 0 shuts down");
                                          context.wait_for_phase(0, "memory given back");
                                      } else {
                                          void* const memory = rueda::allocate(100'000);
                                          auto end = std::async(std::launch::async, [] { rueda::shutdown(); });
                                          context.wait_for_phase(1, "rank 0 shuts down");
                                          rueda::deallocate(memory);
                                          context.phase("memory given back");
                                          end.get();
                                      }
                                      rueda::shutdown();
                                  },
                                  {.deadline = std::chrono::seconds(20)}));
}

TEST_CASE("init again after a shutdown", "[processes]") {
    check_passed(run_public_ranks(GENERATE(1, 3), [](RankContext& context) {
        float* kept = nullptr;
        for (int job = 0; job < 4; ++job) {
            context.phase(fmt::format("job {}", job));
            RUEDA_RANK_CHECK(!rueda::initialized());
            rueda::init();
            rueda::init();  // init() is called twice, and the second call has no effect
            PublicClient client;
            run_scenarios(client, error_scenarios());
            // The memory of the previous job is still valid. This job can use it as ordinary memory.
            if (kept != nullptr) {
                RUEDA_RANK_EQUAL(kept[999], static_cast<float>(client.size()));
                kept[0] = 1;
                rueda::allreduce("kept", std::span(kept, 1), {.op = ReduceOp::sum});
                RUEDA_RANK_EQUAL(kept[0], static_cast<float>(client.size()));
                rueda::deallocate(kept);
            }
            kept = static_cast<float*>(rueda::allocate(1000 * sizeof(float)));
            std::fill_n(kept, 1000, 1.0F);
            rueda::allreduce("resident", std::span(kept, 1000), {.op = ReduceOp::sum});
            rueda::shutdown();
            rueda::shutdown();  // shutdown() is called twice, and the second call has no effect
            RUEDA_RANK_EQUAL(kept[999], static_cast<float>(context.size()));
        }
        try {
            rueda::barrier();
            RUEDA_RANK_CHECK(false);
        } catch (const NotInitialized&) {
        }
    }));
}

int open_descriptors() {
    const auto listed = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<int>(std::distance(begin(listed), end(listed)));
}

TEST_CASE("a job that has ended keeps no descriptor, and its memory can be given back", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        constexpr std::size_t kBytes = 1 << 20;
        void* kept = nullptr;
        int after_first = 0;
        for (int job = 0; job < 5; ++job) {
            context.phase(fmt::format("job {}", job));
            rueda::init();
            if (kept != nullptr) {
                rueda::deallocate(kept);
            }
            const auto set = rueda::add_process_set({0, 1});  // the shutdown removes this set
            float value = 1;
            if (context.rank() < 2) {
                rueda::allreduce("x", std::span(&value, 1), {.op = ReduceOp::sum, .process_set = set});
            }
            rueda::allreduce("x", std::span(&value, 1), {.op = ReduceOp::sum});
            RUEDA_RANK_EQUAL(value, 5.0F);
            kept = rueda::allocate(kBytes);
            std::memset(kept, 1, kBytes);
            rueda::shutdown();
            RUEDA_RANK_EQUAL(static_cast<int>(static_cast<unsigned char*>(kept)[kBytes - 1]), 1);
            after_first = job == 0 ? open_descriptors() : after_first;
            RUEDA_RANK_EQUAL(open_descriptors(), after_first);
        }
        rueda::deallocate(kept);
    }));
}

/// While jobs begin and end, a thread keeps calling deallocate() with a foreign address, and each call must be refused.
TEST_CASE("memory is given back while jobs begin and end", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        rueda::init();
        void* const first = rueda::allocate(64);
        std::array<std::byte, 64> nobodys{};
        std::atomic<bool> goes_on = true;  // relaxed: joining the thread orders the accesses
        std::jthread giver([&] {
            while (goes_on.load(std::memory_order_relaxed)) {
                RUEDA_RANK_EQUAL(rueda_deallocate(nobodys.data()), static_cast<int>(RUEDA_INVALID_ARGUMENT));
            }
        });
        for (int job = 0; job < 50; ++job) {
            rueda::shutdown();
            rueda::init();
        }
        goes_on.store(false, std::memory_order_relaxed);
        giver.join();
        rueda::deallocate(first);
        rueda::shutdown();
    }));
}

TEST_CASE("slots and handles across jobs", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext&) {
        rueda::TensorSlot slot("kept");
        std::vector<float> values(10);
        std::vector<rueda::Handle> handles;
        for (int job = 0; job < 3; ++job) {
            rueda::init();
            for (int i = 0; i < 3; ++i) {
                std::fill(values.begin(), values.end(), 1.0F);
                rueda::allreduce(slot, values, {.op = ReduceOp::sum});
                RUEDA_RANK_EQUAL(values[9], 2.0F);
            }
            handles.push_back(rueda::allreduce_async(slot, values));
            handles.back().wait();
            rueda::shutdown();
        }
        for (const rueda::Handle& handle : handles) {
            RUEDA_RANK_CHECK(handle.ready());
            handle.wait();
        }
    }));
}

/// Releasing a handle must neither wait for the operation nor cancel it.
TEST_CASE("handles that no thread waits for", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext&) {
        rueda::init();
        std::vector<std::vector<float>> values(50, std::vector<float>(300, 1));
        for (std::size_t i = 0; i < values.size(); ++i) {
            static_cast<void>(
                rueda::allreduce_async("forgotten." + std::to_string(i), values[i], {.op = ReduceOp::sum}));
        }
        // Rueda refuses a name while its operation is pending. So if it accepts a name again, the first operation of
        // this name is done.
        for (std::size_t i = 0; i < values.size(); ++i) {
            for (;;) {
                try {
                    rueda::broadcast("forgotten." + std::to_string(i), values[i], 0);
                    break;
                } catch (const DuplicateName&) {
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                }
            }
            RUEDA_RANK_EQUAL(values[i][299], 3.0F);
        }
        rueda::shutdown();
    }));
}

}  // namespace
}  // namespace rueda::tests
