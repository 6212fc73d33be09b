// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

/// The tensors of this rank in one step. They are submitted in any order and checked together.
class Step {
public:
    Step(Client& client, std::string prefix, int salt) : client_(client), prefix_(std::move(prefix)), salt_(salt) {}

    void submit(int tensor, std::int64_t elements, bool resident) {
        const std::string name = fmt::format("{}{}", prefix_, tensor);
        buffers_.emplace_back(client_, DType::float32, std::vector{elements}, resident);
        tensors_.push_back(tensor);
        const Tensor& memory = buffers_.back().tensor();
        fill_input(memory, ReduceOp::sum, client_.rank(), salt_ + tensor);
        pending_.push_back(expect_value(client_.start_allreduce(name, memory, memory, {ReduceOp::sum}), name));
    }
    void finish() {
        for (std::size_t i = 0; i < pending_.size(); ++i) {
            const std::string what = fmt::format("'{}{}'", prefix_, tensors_[i]);
            expect_ok(pending_[i]->wait(), what);
            check_allreduce(buffers_[i].tensor(), {ReduceOp::sum}, client_.size(), salt_ + tensors_[i], what);
            buffers_[i].check_margin(what);
        }
    }

private:
    Client& client_;
    std::string prefix_;
    int salt_;
    std::vector<Buffer> buffers_;
    std::vector<int> tensors_;
    std::vector<PendingPointer> pending_;
};

/// Each rank submits the tensors in its own order, and this order changes in each step. The gradients of a training may
/// also become ready in such orders.
void different_orders(Client& client) {
    constexpr int kTensors = 100;
    for (int step_number = 0; step_number < 6; ++step_number) {
        std::vector<int> order(kTensors);
        for (int i = 0; i < kTensors; ++i) {
            order[static_cast<std::size_t>(i)] = i;
        }
        std::shuffle(order.begin(), order.end(),
                     std::mt19937(static_cast<unsigned>(client.rank() * 1000 + step_number)));
        Step step(client, "order.", step_number);
        for (const int tensor : order) {
            step.submit(tensor, 1 + tensor * 11 % 400, (tensor + step_number) % 3 == 0);
        }
        step.finish();
    }
}

/// The shapes of the tensors change in some steps. This causes three kinds of calls: with changed metadata, with a name
/// that gets a new slot, and with a name that has a slot.
void changing_shapes(Client& client) {
    for (int step_number = 0; step_number < 24; ++step_number) {
        Step step(client, "shape.", step_number);
        for (int tensor = 0; tensor < 5; ++tensor) {
            // Only the shape of tensor 0 changes in every step.
            const std::int64_t elements = tensor == 0                       ? 10 + step_number
                                          : tensor == 1                     ? 10 + step_number % 2 * 300
                                          : step_number % 8 == 7            ? 77
                                          : tensor == 2 && step_number > 12 ? 500
                                                                            : 100;
            step.submit(tensor, elements, tensor % 2 == 0);
        }
        step.finish();
    }
}

/// When an operation is done, its name may be used for another operation or another type.
void changing_operations(Client& client) {
    for (int i = 0; i < 12; ++i) {
        const DType dtype = i % 2 == 0 ? DType::float32 : DType::int64;
        const Buffer buffer(client, dtype, {33}, i % 4 == 0);
        const Tensor& tensor = buffer.tensor();
        fill_input(tensor, ReduceOp::sum, client.rank(), i);
        if (i % 3 == 0) {
            expect_ok(client.allreduce("changing", tensor, tensor, {ReduceOp::sum}), "allreduce");
            check_allreduce(tensor, {ReduceOp::sum}, client.size(), i, "allreduce");
        } else if (i % 3 == 1) {
            const int root = i % client.size();
            expect_ok(client.broadcast("changing", tensor, root), "broadcast");
            check_copy(tensor, 0, 33, root, i, "broadcast");
        } else {
            const auto pending = expect_value(client.start_allgather("changing", tensor), "allgather");
            expect_ok(pending->wait(), "allgather");
            for (int rank = 0; rank < client.size(); ++rank) {
                check_copy(pending->output(), static_cast<std::size_t>(rank) * 33, 33, rank, i, "allgather");
            }
        }
    }
}

/// Uses more names than there are slots in some configurations, so that Rueda takes slots back for other names.
void many_names(Client& client) {
    constexpr int kSteps = 60;
    constexpr int kNames = 10;
    for (int step_number = 0; step_number < kSteps; ++step_number) {
        Step step(client, fmt::format("many.{}.", step_number), step_number);
        for (int i = 0; i < kNames; ++i) {
            step.submit(i, 1 + i * 13, i % 2 == 0);
        }
        Step same(client, "many.kept.", step_number);  // every step uses the same name for this operation
        same.submit(0, 50, false);
        same.finish();
        step.finish();
    }
}

void long_names(Client& client) {
    for (const std::size_t length : {1U, 255U, 256U, 510U, 511U}) {
        for (int round = 0; round < 3; ++round) {
            // The names differ only in their last character.
            std::string one(length, 'n');
            std::string two = one;
            two.back() = 'm';
            std::array<std::int64_t, 2> values{client.rank() + 1, 10 * client.rank()};
            const Tensor first{values.data(), DType::int64, {1}};
            const Tensor second{values.data() + 1, DType::int64, {1}};
            const auto a = expect_value(client.start_allreduce(one, first, first, {ReduceOp::sum}), "a long name");
            const auto b = expect_value(client.start_allreduce(two, second, second, {ReduceOp::sum}), "a long name");
            expect_ok(a->wait(), "a long name");
            expect_ok(b->wait(), "a long name");
            RUEDA_RANK_EQUAL(values[0], client.size() * (client.size() + 1) / 2);
            RUEDA_RANK_EQUAL(values[1], 10 * client.size() * (client.size() - 1) / 2);
        }
    }
    std::int64_t value = 0;
    const Tensor tensor{&value, DType::int64, {1}};
    expect_failure(client.start_allreduce(std::string(512, 'n'), tensor, tensor, {}).status(),
                   ErrorCode::invalid_argument, "a name of 512 bytes");
}

void submit_and_wait_in_turns(Client& client, int thread) {
    const std::string prefix = fmt::format("thread{}.", thread);
    for (int round = 0; round < 15; ++round) {
        Step step(client, prefix, round);
        for (int tensor = 0; tensor < 6; ++tensor) {
            step.submit(tensor, 1 + tensor * 97, tensor % 2 == 0);
        }
        Buffer blocking(client, DType::float64, {64}, round % 2 == 0);
        fill_input(blocking.tensor(), ReduceOp::max, client.rank(), round);
        expect_ok(client.allreduce(prefix + "blocking", blocking.tensor(), blocking.tensor(), {ReduceOp::max}),
                  "blocking");
        check_allreduce(blocking.tensor(), {ReduceOp::max}, client.size(), round, prefix + "blocking");
        step.finish();
    }
}

/// Several threads of a rank share the rank's engine. A thread that waits drives progress for all of them.
void several_threads(Client& client) {
    constexpr int kThreads = 3;
    std::array<std::string, kThreads> failures;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            try {
                submit_and_wait_in_turns(client, thread);
            } catch (const std::exception& error) {
                failures[static_cast<std::size_t>(thread)] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const std::string& failure : failures) {
        RUEDA_RANK_EQUAL(failure, std::string());
    }
}

/// Several threads may wait for one operation.
void one_handle_many_waiters(Client& client) {
    for (int round = 0; round < 20; ++round) {
        Buffer buffer(client, DType::float32, {2000}, round % 2 == 0);
        fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), round);
        const auto pending =
            expect_value(client.start_allreduce("waited", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), "waited");
        std::atomic<int> succeeded{0};
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 3; ++thread) {
            threads.emplace_back([&] { succeeded += pending->wait().is_ok() ? 1 : 0; });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        RUEDA_RANK_EQUAL(succeeded.load(), 3);
        check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), round, "waited");
    }
}

/// Some ranks make blocking calls of a broadcast, and the other ranks start the same broadcast asynchronously. The
/// roles change in each round. Sometimes the root is late.
void mixed_broadcasts(Client& client) {
    for (int round = 0; round < 120; ++round) {
        const auto elements = static_cast<std::size_t>(round % 4 == 0 ? 1 : 150 * (round % 4));
        const int root = round / 4 % 3 == 0 ? client.size() - 1 : 0;
        Buffer buffer(client, DType::float32, {static_cast<std::int64_t>(elements)}, (round + client.rank()) % 5 == 0);
        if (client.rank() == root) {
            fill_input(buffer.tensor(), ReduceOp::sum, root, round);
            if (round % 20 == 7) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
        }
        const std::string name = fmt::format("mixed.broadcast.{}.{}", root, elements);
        if ((round + client.rank() * 2 + round / 9) % 3 != 0) {
            expect_ok(client.broadcast(name, buffer.tensor(), root), name);
        } else {
            expect_ok(expect_value(client.start_broadcast(name, buffer.tensor(), root), name)->wait(), name);
        }
        check_copy(buffer.tensor(), 0, elements, root, round, name);
        buffer.check_margin(name);
    }
}

/// All threads only poll, so the background thread alone completes the operation.
void polling(Client& client) {
    for (int round = 0; round < 20; ++round) {
        Buffer buffer(client, DType::float32, {round * 300 + 1}, round % 2 == 0);
        fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), round);
        const auto pending =
            expect_value(client.start_allreduce("polled", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), "polled");
        while (!pending->ready()) {
            std::this_thread::sleep_for(std::chrono::microseconds(round % 2 == 0 ? 500 : 50));
        }
        expect_ok(pending->wait(), "polled");
        check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), round, "polled");
    }
}

constexpr std::array kScenarios = {
    Scenario{"names: broadcasts that block on some ranks", mixed_broadcasts, 1, true},
    Scenario{"names: another order on every rank", different_orders},
    Scenario{"names: changing shapes", changing_shapes},
    Scenario{"names: changing operations", changing_operations},
    Scenario{"names: many", many_names},
    Scenario{"names: long", long_names},
    Scenario{"threads: several of one rank", several_threads},
    Scenario{"threads: one operation, several waiters", one_handle_many_waiters},
    Scenario{"polling", polling},
};

}  // namespace

std::span<const Scenario> naming_scenarios() { return kScenarios; }

}  // namespace rueda::tests
