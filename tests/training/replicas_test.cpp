// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests replicas in a job of one process. replicas_job.cpp tests them with several processes.
#include "rueda/training/replicas.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/training/job.hpp"
#include "tests/training/messages.hpp"
#include "training/outcome.hpp"
#include "training/replicas/divided_reduction.hpp"
#include "training/replicas/replica_agreement.hpp"
#include "training/replicas/replica_threads.hpp"
#include "training/replicas/ring_reduction.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::Job;
using test::message_of;

/// A model with two parameters. All replicas share the parameters' values, and each replica has its own gradients.
struct Tower {
    explicit Tower(std::size_t replicas) : a_gradients(replicas, {0.0F, 0.0F}), b_gradients(replicas, {0.0F}) {}

    [[nodiscard]] std::vector<std::vector<Parameter>> parameters() {
        std::vector<std::vector<Parameter>> all;
        for (std::size_t k = 0; k < a_gradients.size(); ++k) {
            all.push_back({{"a", a, a_gradients[k]}, {"b", b, b_gradients[k]}});
        }
        return all;
    }
    /// The backward pass of replica k sets the gradient of `b` to k, and the gradient of `a` to (1, k).
    void backward(Replica& replica) {
        const auto k = static_cast<std::size_t>(replica.index());
        b_gradients[k] = {static_cast<float>(k)};
        replica.gradient_ready(1);
        a_gradients[k] = {1.0F, static_cast<float>(k)};
        replica.gradient_ready(0);
    }

    std::vector<float> a = {1.0F, 2.0F};
    std::vector<float> b = {3.0F};
    std::vector<std::vector<float>> a_gradients;
    std::vector<std::vector<float>> b_gradients;
};

TEST_CASE("the steps of replicas are those of their average", "[training][replicas]") {
    const Job job;
    for (const ReplicaReduction reduction : {ReplicaReduction::to_one, ReplicaReduction::hierarchical,
                                             ReplicaReduction::divided, ReplicaReduction::ring}) {
        INFO(name_of(reduction));
        Tower tower(4);
        Replicas replicas(Sgd{}, tower.parameters(), {.reduction = reduction});
        CHECK(replicas.count() == 4);
        CHECK(replicas.workers() == 4);
        replicas.broadcast();
        for (int step = 0; step < 3; ++step) {
            replicas.run([&](Replica& replica) { tower.backward(replica); });
            replicas.step(0.5, 0.5);
        }
        CHECK(tower.a == std::vector<float>{1.0F - 0.75F, 2.0F - 3 * 0.375F});
        CHECK(tower.b == std::vector<float>{3.0F - 3 * 0.375F});
        CHECK(replicas.optimizer().steps() == 3);
        CHECK(replicas.parameters()[0].values.data() == tower.a.data());
    }
}

TEST_CASE("sums, several passes and clipping", "[training][replicas]") {
    const Job job;
    Tower tower(3);
    const auto add = [&](Replica& replica) {
        const auto k = static_cast<std::size_t>(replica.index());
        tower.a_gradients[k][0] += 2.0F;
        replica.gradient_ready(0);
        tower.b_gradients[k][0] -= static_cast<float>(k);
        replica.gradient_ready(1);
    };
    const auto clear = [&] {
        for (std::size_t k = 0; k < 3; ++k) {
            tower.a_gradients[k] = {0.0F, 0.0F};
            tower.b_gradients[k] = {0.0F};
        }
    };
    {
        Replicas replicas(Sgd{}, tower.parameters(), {.op = ReduceOp::sum, .passes_per_step = 4});
        for (int pass = 0; pass < 4; ++pass) {
            replicas.run(add);
        }
        replicas.synchronize();
        CHECK(tower.a_gradients[0][0] == 6.0F);  // 3 replicas × the mean of 4 passes
        CHECK(tower.b_gradients[0][0] == -3.0F);
        replicas.skip();
        CHECK(tower.a[0] == 1.0F);
        CHECK(replicas.optimizer().steps() == 0);
    }
    clear();
    {
        Replicas replicas(Sgd{}, tower.parameters(), {.passes_per_step = 2});
        replicas.run(add);
        replicas.run(add);
        replicas.step(1.0);
        CHECK(tower.a[0] == 1.0F - 2.0F);
        CHECK(tower.b[0] == 3.0F + 1.0F);
    }
    clear();
    Replicas replicas(Sgd{}, tower.parameters(), {.op = ReduceOp::sum, .max_norm = 1.0});
    tower.a_gradients[0][1] = 8.0F;  // the sums are 6, 8 and −3
    replicas.run(add);
    replicas.step(1.0, 2.0);
    CHECK(tower.a[1] == Approx(2.0 - 8.0 / std::sqrt(109.0)));
}

TEST_CASE("replicas with their own values get copies of the new ones", "[training][replicas]") {
    const Job job;
    // Few elements are updated by one thread, and many by the threads of all replicas.
    for (const std::size_t count : {std::size_t{5}, std::size_t{100000}}) {
        std::vector<std::vector<float>> values(3, std::vector<float>(count));
        std::vector<std::vector<float>> gradients = values;
        std::vector<float> shared(count);
        std::vector<std::vector<float>> shared_gradients = values;
        std::vector<std::vector<Parameter>> parameters;
        for (std::size_t k = 0; k < 3; ++k) {
            values[k].assign(count, static_cast<float>(k));
            parameters.push_back({{"own", values[k], gradients[k]}, {"shared", shared, shared_gradients[k]}});
        }
        Replicas replicas(Sgd{}, parameters);
        replicas.copy_to_replicas();
        CHECK(values[2] == std::vector<float>(count, 0.0F));
        for (int step = 0; step < 2; ++step) {
            replicas.run([&](Replica& replica) {
                const auto k = static_cast<std::size_t>(replica.index());
                gradients[k].assign(count, 1.0F + values[k].back());
                replica.gradient_ready(0);
                shared_gradients[k].assign(count, 2.0F);
                replica.gradient_ready(1);
            });
            replicas.step(0.5);
        }
        for (const std::vector<float>& each : values) {
            CHECK(each == std::vector<float>(count, -0.75F));  // −0.5, and then 0.5 × (1 − 0.5) less
        }
        CHECK(shared == std::vector<float>(count, -2.0F));
    }
}

TEST_CASE("each replica has a thread of its own and knows its number", "[training][replicas]") {
    const Job job;
    Tower tower(5);
    Replicas replicas(Sgd{}, tower.parameters());
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::vector<int> workers(5, -1);
    for (int repetition = 0; repetition < 2; ++repetition) {  // both repetitions must use the same threads
        replicas.on_each([&](Replica& replica) {
            const std::lock_guard lock(mutex);
            threads.insert(std::this_thread::get_id());
            workers[static_cast<std::size_t>(replica.index())] = replica.worker() + replica.count() + replica.workers();
        });
    }
    CHECK(threads.size() == 5);
    CHECK(threads.count(std::this_thread::get_id()) == 1);
    CHECK(workers == std::vector<int>{10, 11, 12, 13, 14});
}

TEST_CASE("mistakes of a replica are named and end the run", "[training][replicas]") {
    const Job job;
    Tower tower(3);
    Replicas replicas(Sgd{}, tower.parameters());
    // Replica 2 makes the mistake, and the other two do their work.
    const auto run = [&](const Replicas::Function& mistake) {
        replicas.run([&](Replica& replica) { replica.index() == 2 ? mistake(replica) : tower.backward(replica); });
    };
    const auto refusal = [&](const Replicas::Function& mistake) {
        return message_of<InvalidArgument>([&] { run(mistake); });
    };
    CHECK(refusal([](Replica&) { throw InvalidArgument("bad sample"); }) == "replica 2: bad sample");
    CHECK_THAT(refusal([](Replica& replica) { replica.gradient_ready(1); }),
               Contains("replica 2: the gradient of parameter 'a' was not ready"));
    CHECK_THAT(refusal([](Replica& replica) {
                   replica.gradient_ready(1);
                   replica.gradient_ready(1);
               }),
               Contains("replica 2: the gradient of parameter 'b' was ready twice"));
    CHECK_THAT(refusal([](Replica& replica) { replica.gradient_ready(2); }), Contains("number 2 does not exist"));
    CHECK_THAT(refusal([&](Replica&) { replicas.run([](Replica&) {}); }), Contains("must call gradient_ready() only"));
    CHECK_THAT(refusal([&](Replica&) { replicas.step(0.1); }), Contains("must call gradient_ready() only"));
    CHECK_THAT(refusal([&](Replica&) { replicas.broadcast(); }), Contains("must call gradient_ready() only"));
    CHECK_THAT(refusal([&](Replica&) { replicas.copy_to_replicas(); }), Contains("must call gradient_ready() only"));
    CHECK(message_of<Internal>([&] { run([](Replica&) { throw std::runtime_error("no memory"); }); }) ==
          "replica 2: no memory");
    CHECK_THAT(message_of<Internal>([&] { run([](Replica&) { throw 5; }); }), Contains("replica 2: an exception"));
    CHECK_THAT(
        message_of<InvalidArgument>([&] { replicas.on_each([](Replica& replica) { replica.gradient_ready(0); }); }),
        Contains("in on_each()"));
    CHECK(tower.a == std::vector<float>{1.0F, 2.0F});

    CHECK_THAT(message_of<InvalidArgument>([&] { replicas.step(1.0); }), Contains("had 0 runs; expected 1"));
    run([&](Replica& replica) { tower.backward(replica); });
    CHECK_THAT(message_of<InvalidArgument>([&] { replicas.run([](Replica&) {}); }), Contains("already had 1 runs"));
    replicas.step(1.0);
    CHECK(tower.a == std::vector<float>{0.0F, 1.0F});
}

TEST_CASE("a failure ends the other replicas", "[training][replicas]") {
    const Job job;
    for (const ReplicaReduction reduction : {ReplicaReduction::to_one, ReplicaReduction::hierarchical,
                                             ReplicaReduction::divided, ReplicaReduction::ring}) {
        Tower tower(4);
        Replicas replicas(Sgd{}, tower.parameters(), {.reduction = reduction});
        std::array<bool, 4> has_ended = {};
        const std::string message = message_of<ResourceExhausted>([&] {
            replicas.run([&](Replica& replica) {
                if (replica.index() == 1) {
                    throw ResourceExhausted("full");
                }
                while (replica.index() != 3 && !replica.stopped()) {
                    std::this_thread::yield();  // until replica 1 has failed
                }
                tower.backward(replica);  // throws for replicas 0 and 2
                has_ended[static_cast<std::size_t>(replica.index())] = true;
            });
        });
        CHECK(message == "replica 1: full");
        CHECK_FALSE(has_ended[0]);
        CHECK_FALSE(has_ended[1]);
        CHECK_FALSE(has_ended[2]);  // has_ended[3] is not checked, because replica 3 may end before the failure
        replicas.run([&](Replica& replica) { tower.backward(replica); });
        replicas.step(1.0);
        CHECK(tower.b == std::vector<float>{1.5F});
    }
}

TEST_CASE("replicas are destroyed within a step", "[training][replicas]") {
    const Job job;
    Tower tower(3);
    for (const bool fails : {false, true}) {
        Replicas replicas(Sgd{}, tower.parameters(), {.op = ReduceOp::sum});
        const auto run = [&] {
            replicas.run([&](Replica& replica) {
                tower.backward(replica);
                if (fails && replica.index() == 1) {
                    throw ResourceExhausted("full");
                }
            });
        };
        CHECK(message_of<ResourceExhausted>(run) == (fails ? "replica 1: full" : "no error"));
    }
    CHECK(tower.a == std::vector<float>{1.0F, 2.0F});
}

TEST_CASE("the threads of replicas end their work before an error leaves", "[training][replicas]") {
    ReplicaThreads threads(3);
    std::array<bool, 3> has_ended = {};
    const auto work = [&](bool fails) {
        threads.run([&](int number) {
            if (fails && number == 0) {
                throw InvalidArgument("first");
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            has_ended[static_cast<std::size_t>(number)] = true;
        });
    };
    CHECK(message_of<InvalidArgument>([&] { work(true); }) == "first");
    CHECK(has_ended == std::array<bool, 3>{false, true, true});
    work(false);
    CHECK(has_ended == std::array<bool, 3>{true, true, true});
}

TEST_CASE("a process takes only failures from another process", "[training][replicas]") {
    const OutcomeBytes full = encode_outcome({ErrorCode::resource_exhausted, "replica 1: full"});
    CHECK(failure_from(full, 3).code() == ErrorCode::resource_exhausted);
    CHECK(failure_from(full, 3).message() == "rank 3: replica 1: full");
    CHECK(failure_from(encode_outcome({}), 3).code() == ErrorCode::internal);
}

TEST_CASE("wrong options and parameters of replicas are named", "[training][replicas]") {
    const Job job;
    Tower tower(2);
    const auto refusal = [](const std::vector<std::vector<Parameter>>& parameters,
                            const ReplicasOptions& options = {}) {
        return message_of<InvalidArgument>([&] { Replicas(Sgd{}, parameters, options); });
    };
    CHECK_THAT(refusal({}), Contains("there are no replicas"));
    CHECK_THAT(refusal(tower.parameters(), {.group = 3}), Contains("group is 3") && Contains("the 2 replicas"));
    CHECK_THAT(refusal(tower.parameters(), {.op = ReduceOp::adasum}), Contains("op is adasum"));
    CHECK_THAT(refusal(tower.parameters(), {.passes_per_step = -1}), Contains("replicas: passes_per_step is -1;"));
    CHECK_THAT(refusal(tower.parameters(), {.max_norm = 0.0}), Contains("max_norm is 0"));
    CHECK_THAT(refusal(tower.parameters(), {.reduction = static_cast<ReplicaReduction>(9)}),
               Contains("reduction is 9"));

    std::vector<std::vector<Parameter>> parameters = tower.parameters();
    parameters[1].pop_back();
    CHECK_THAT(refusal(parameters), Contains("replica 1 has 1 parameters, but replica 0 has 2"));
    parameters = tower.parameters();
    parameters[1][1].name = "c";
    CHECK_THAT(refusal(parameters), Contains("parameter 1 of replica 1 is 'c', but of replica 0 'b'"));
    parameters = tower.parameters();
    parameters[1][0].gradient = parameters[1][0].gradient.first(1);
    CHECK_THAT(refusal(parameters), Contains("parameter 'a' of replica 1 has 2 values and a gradient of 1"));
    parameters = tower.parameters();
    parameters[1][0].gradient = tower.a_gradients[0];
    CHECK_THAT(refusal(parameters),
               Contains("gradient of parameter 'a' of replica 0 and that of 'a' of replica 1 are"));
    parameters = tower.parameters();
    parameters[1][1].gradient = std::span(tower.a_gradients[0]).last(1);
    CHECK_THAT(refusal(parameters),
               Contains("gradient of parameter 'a' of replica 0 and that of 'b' of replica 1 are"));
    std::vector<float> longer(3);
    parameters = tower.parameters();
    parameters[0][0].values = std::span(longer).first(2);
    parameters[1][0].values = std::span(longer).last(2);
    CHECK_THAT(refusal(parameters), Contains("the values of parameter 'a' overlap"));
}

TEST_CASE("pieces, groups and rings of a local reduction have exact sums", "[training][replicas]") {
    constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();
    const std::vector<std::size_t> counts = {0, 1, 7, 1000, 3, 64};
    for (const int count : {1, 2, 3, 5, 8}) {
        constexpr LocalDivision kRing{.group = 0};
        for (const LocalDivision division :
             {LocalDivision{count, kEverything}, LocalDivision{count, 7}, LocalDivision{count, 1000},
              LocalDivision{1, kEverything}, LocalDivision{std::min(count, 3), kEverything}, kRing}) {
            INFO(count << " replicas, groups of " << division.group << ", pieces of " << division.piece);
            if (division.group == kRing.group && count == 1) {
                continue;  // a ring has at least two replicas
            }
            const auto replicas = static_cast<std::size_t>(count);
            std::vector<std::vector<std::vector<float>>> values(counts.size());
            std::vector<LocalReduction::Gradient> gradients;
            for (std::size_t g = 0; g < counts.size(); ++g) {
                values[g].resize(replicas, std::vector<float>(counts[g]));
                LocalReduction::Gradient& gradient = gradients.emplace_back();
                gradient.count = counts[g];
                for (std::vector<float>& each : values[g]) {
                    gradient.replicas.push_back(each.data());
                }
            }
            std::mutex mutex;
            std::multiset<std::size_t> completed;
            const auto complete = [&](std::size_t gradient) {
                const std::lock_guard lock(mutex);
                completed.insert(gradient);
            };
            std::unique_ptr<LocalReduction> reduction;
            if (division.group == kRing.group) {
                reduction = std::make_unique<RingReduction>(gradients, count, complete);
            } else {
                reduction = std::make_unique<DividedReduction>(gradients, count, division, complete);
            }
            ReplicaThreads threads(count);
            for (int pass = 0; pass < 3; ++pass) {
                completed.clear();
                reduction->begin();
                threads.run([&](int replica) {
                    for (std::size_t g = counts.size(); g-- > 0;) {
                        std::vector<float>& mine = values[g][static_cast<std::size_t>(replica)];
                        for (std::size_t i = 0; i < mine.size(); ++i) {
                            mine[i] = static_cast<float>(replica + 1) * static_cast<float>(i + g);
                        }
                        reduction->arrive(g, replica);
                    }
                    reduction->help_until_done(replica);
                });
                CHECK(completed == std::multiset<std::size_t>{0, 1, 2, 3, 4, 5});
                bool is_right = true;
                for (std::size_t g = 0; g < counts.size(); ++g) {
                    for (std::size_t i = 0; i < counts[g]; ++i) {
                        const int factors = count * (count + 1) / 2;
                        is_right =
                            is_right && values[g][0][i] == static_cast<float>(factors) * static_cast<float>(i + g);
                    }
                }
                CHECK(is_right);
            }
        }
    }
}

}  // namespace
}  // namespace rueda::training
