// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests rueda::training::Replicas with any number of processes, 1 to 8 replicas in each process, and all kinds of
// reduction. Compares the results bit by bit with a plain computation. The exit status is 1 if something is wrong.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/replicas.hpp"

namespace {

namespace training = rueda::training;

std::atomic<int> failures{0};  // relaxed suffices: the number is read only after the other threads have ended

void check(bool is_right, const std::string& what) {
    if (!is_right) {
        std::printf("rank %d: %s\n", rueda::rank(), what.c_str());
        failures.fetch_add(1, std::memory_order_relaxed);
    }
}

/// The sizes of the parameters. The largest one is divided into several pieces.
const std::vector<std::size_t> kSizes = {5, 0, 1000, 140001, 1};

/// Element `i` of the gradient of a worker. Sums of these numbers are rounded.
float gradient_of(int worker, int step, std::size_t parameter, std::size_t i) {
    const auto number = static_cast<float>((i * 37 + parameter * 11 + static_cast<std::size_t>(step) * 5) % 101);
    return (number - 50.0F) / (3.0F + static_cast<float>(worker));
}

/// Adds up one element in the order in which a ring of `count` replicas adds: the sum of piece p begins with replica p.
float sum_in_ring(int count, int process, int step, std::size_t parameter, std::size_t i) {
    const auto pieces = static_cast<std::size_t>(count);
    std::size_t piece = 0;
    while (i >= kSizes[parameter] * (piece + 1) / pieces) {
        ++piece;
    }
    float sum = 0.0F;
    for (std::size_t hop = 0; hop < pieces; ++hop) {
        const int replica = static_cast<int>((piece + hop) % pieces);
        const float mine = gradient_of(process * count + replica, step, parameter, i);
        sum = hop == 0 ? mine : sum + mine;
    }
    return sum;
}

/// A value of the argument `group` in this file. It stands for a ring.
constexpr int kRing = 0;

/// Adds up one element as Replicas must do it: first over the `count` replicas of each process (in groups of `group`
/// replicas, or in a ring), and then over the processes.
float expected_sum(int count, int group, int step, std::size_t parameter, std::size_t i) {
    static const int processes = rueda::size();
    float all = 0.0F;
    for (int process = 0; process < processes; ++process) {
        float replicas = group == kRing ? sum_in_ring(count, process, step, parameter, i) : 0.0F;
        for (int first = 0; group != kRing && first < count; first += group) {
            float members = gradient_of(process * count + first, step, parameter, i);
            for (int k = first + 1; k < std::min(count, first + group); ++k) {
                members += gradient_of(process * count + k, step, parameter, i);
            }
            replicas = first == 0 ? members : replicas + members;
        }
        all = process == 0 ? replicas : all + replicas;
    }
    return all;
}

/// The parameters of all replicas of this process. The even ones share their values, the odd ones have copies.
struct Model {
    explicit Model(int count)
        : own(kSizes.size()), gradients(static_cast<std::size_t>(count)), parameters(gradients.size()) {
        for (std::size_t p = 0; p < kSizes.size(); ++p) {
            own[p].resize(p % 2 == 0 ? 1 : gradients.size(), std::vector<float>(kSizes[p], 1.0F));
        }
        for (std::size_t k = 0; k < gradients.size(); ++k) {
            for (std::size_t p = 0; p < kSizes.size(); ++p) {
                gradients[k].emplace_back(kSizes[p]);
                parameters[k].push_back({"p" + std::to_string(p), own[p][p % 2 == 0 ? 0 : k], gradients[k][p]});
            }
        }
    }
    void backward(training::Replica& replica, int step) {
        for (std::size_t p = kSizes.size(); p-- > 0;) {
            std::vector<float>& gradient = gradients[static_cast<std::size_t>(replica.index())][p];
            for (std::size_t i = 0; i < gradient.size(); ++i) {
                gradient[i] = gradient_of(replica.worker(), step, p, i);
            }
            replica.gradient_ready(p);
        }
    }

    std::vector<std::vector<std::vector<float>>> own;        ///< [parameter][0 or replica]
    std::vector<std::vector<std::vector<float>>> gradients;  ///< [replica][parameter]
    std::vector<std::vector<training::Parameter>> parameters;
};

bool same_bits(std::span<const float> one, std::span<const float> other) {
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size_bytes()) == 0;
}

/// Returns the argument `group` of expected_sum() for this kind of reduction.
int group_of(training::ReplicaReduction reduction, int group, int count) {
    if (reduction == training::ReplicaReduction::ring) {
        return kRing;
    }
    return reduction == training::ReplicaReduction::hierarchical ? group : count;
}

void check_values(int count, const training::ReplicasOptions& options) {
    const std::string what = std::to_string(count) + " replicas, " + std::string(name_of(options.reduction)) +
                             ", group " + std::to_string(options.group) + ": ";
    const int group = group_of(options.reduction, options.group, count);
    Model model(count);
    training::Replicas replicas(training::Adam{}, model.parameters, options);
    check(replicas.workers() == count * rueda::size(), what + "wrong number of workers");
    replicas.broadcast();
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> gradients;
    std::vector<training::Parameter> plain;
    for (const std::size_t size : kSizes) {
        values.emplace_back(size, 1.0F);
        gradients.emplace_back(size);
    }
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
        plain.push_back({"p" + std::to_string(p), values[p], gradients[p]});
    }
    training::Optimizer optimizer(training::Adam{}, plain);
    const auto factor = static_cast<float>(1.0 / count / rueda::size());
    for (int step = 0; step < 2; ++step) {
        replicas.run([&](training::Replica& replica) { model.backward(replica, step); });
        replicas.synchronize();
        for (std::size_t p = 0; p < kSizes.size(); ++p) {
            for (std::size_t i = 0; i < kSizes[p]; ++i) {
                const float sum = expected_sum(count, group, step, p, i);
                gradients[p][i] = options.op == rueda::ReduceOp::average ? sum * factor : sum;
            }
            check(same_bits(model.gradients[0][p], gradients[p]), what + "wrong gradient " + std::to_string(p));
        }
        replicas.step(0.01);
        optimizer.step(0.01);
        for (std::size_t p = 0; p < kSizes.size(); ++p) {
            for (const std::vector<float>& each : model.own[p]) {
                check(same_bits(each, values[p]), what + "wrong values " + std::to_string(p));
            }
        }
    }
}

/// One replica gives its gradients only after all other replicas of the process have given theirs. If a replica waited
/// for another one in its pass, this would never end.
void check_slow_replica(int count, training::ReplicaReduction reduction, int slow) {
    Model model(count);
    training::Replicas replicas(training::Sgd{}, model.parameters, {.reduction = reduction});
    for (int step = 0; step < 2; ++step) {
        std::counting_semaphore<> others(0);
        replicas.run([&](training::Replica& replica) {
            for (int i = 0; replica.index() == slow && i < count - 1; ++i) {
                others.acquire();  // another replica's release() wakes this thread
            }
            model.backward(replica, step);
            others.release();
        });
        replicas.synchronize();
        const float sum = expected_sum(count, group_of(reduction, 3, count), step, 3, 7);
        check(model.gradients[0][3][7] == sum * static_cast<float>(1.0 / count / rueda::size()),
              "a slow replica changes the gradient");
        replicas.step(0.1);
    }
}

/// A step consists of two calls of run(). A replica of the last rank fails in call number `failing`, counted from 0.
/// The step must end on all ranks.
void check_failure(int failing, training::ReplicaReduction reduction) {
    Model model(3);
    training::Replicas replicas(training::Sgd{}, model.parameters, {.reduction = reduction, .passes_per_step = 2});
    const auto run = [&](bool fails) {
        replicas.run([&](training::Replica& replica) {
            if (fails && replica.worker() == replica.workers() - 2) {
                replica.gradient_ready(4);
                throw rueda::ResourceExhausted("no memory for the batch");
            }
            model.backward(replica, 0);
        });
    };
    for (int pass = 0; pass < failing; ++pass) {
        run(false);
    }
    std::string text;
    try {
        run(true);
    } catch (const rueda::ResourceExhausted& error) {
        text = error.what();
    }
    const int last = rueda::size() - 1;
    const std::string expected = "replica 1: no memory for the batch";
    check(text == (rueda::rank() == last ? expected : "rank " + std::to_string(last) + ": " + expected),
          "the failure is '" + text + "'");
    check(model.own[0][0][0] == 1.0F && model.own[1].size() == 3, "a failed run changed a parameter");
    run(false);
    run(false);
    replicas.step(1.0);
    // Each pass writes the same gradients, and the reduction divides by the number of passes.
    const auto factor = static_cast<float>(1.0 / 6 / rueda::size());
    check(model.own[0][0][3] == 1.0F - expected_sum(3, group_of(reduction, 2, 3), 0, 0, 3) * factor,
          "the step after a failure is wrong");
}

/// Replica 0 of every rank fails. All ranks get the failure of the lowest rank.
void check_failures_at_once() {
    Model model(2);
    training::Replicas replicas(training::Sgd{}, model.parameters);
    std::string text;
    try {
        replicas.run([&](training::Replica& replica) {
            if (replica.index() == 0) {
                throw rueda::ResourceExhausted("failure of " + std::to_string(rueda::rank()));
            }
            model.backward(replica, 0);
        });
    } catch (const rueda::ResourceExhausted& error) {
        text = error.what();
    }
    const std::string expected = "replica 0: failure of 0";
    check(text == (rueda::rank() == 0 ? expected : "rank 0: " + expected), "the first failure is '" + text + "'");
}  // `replicas` is destroyed after a failed run

/// On rank 0, the program has a pending operation with the same name as the reduction of a gradient. So the run fails,
/// and rank 0 begins the reduction only afterwards. The next step must be right.
void check_pending_name() {
    if (rueda::size() == 1) {
        return;  // in a job of one rank, operations end at once, so none would be pending
    }
    Model model(2);
    training::Replicas replicas(training::Sgd{}, model.parameters, {.reduction = training::ReplicaReduction::to_one});
    std::vector<float> other(kSizes[3]);
    std::vector<float> marker(1);
    std::counting_semaphore<> second(0);
    rueda::Handle pending;
    if (rueda::rank() == 0) {
        pending = rueda::allreduce_async("gradient.p3", rueda::TensorView(other));
    }
    const auto end_pending = [&] {
        rueda::allreduce("marker", rueda::TensorView(marker));
        if (rueda::rank() != 0) {
            pending = rueda::allreduce_async("gradient.p3", rueda::TensorView(other));
        }
        pending.wait();
    };
    std::string text;
    try {
        replicas.run([&](training::Replica& replica) {
            if (replica.index() == 1) {
                model.backward(replica, 0);
                second.release();
                return;
            }
            second.acquire();  // waits for replica 1, so that replica 0 is the last one and starts the reductions
            try {
                if (rueda::rank() != 0) {
                    end_pending();
                }
                model.backward(replica, 0);
            } catch (const rueda::DuplicateName&) {
                end_pending();
                throw;
            }
        });
    } catch (const rueda::DuplicateName& error) {
        text = error.what();
    }
    check(text.find("replica 0: tensor 'gradient.p3'") != std::string::npos, "the pending name: '" + text + "'");
    replicas.run([&](training::Replica& replica) { model.backward(replica, 1); });
    replicas.step(1.0);
    const auto factor = static_cast<float>(1.0 / 2 / rueda::size());
    check(model.own[0][0][3] == 1.0F - expected_sum(2, 2, 1, 0, 3) * factor, "the step after a pending name is wrong");
}

/// The ranks have different numbers of replicas.
void check_different_counts() {
    if (rueda::size() == 1) {
        return;
    }
    for (const rueda::ReduceOp op : {rueda::ReduceOp::sum, rueda::ReduceOp::average}) {
        Model model(rueda::rank() == 0 ? 3 : 2);
        training::Replicas replicas(training::Sgd{}, model.parameters, {.op = op});
        std::string text;
        try {
            replicas.run([&](training::Replica& replica) { model.backward(replica, 0); });
        } catch (const rueda::InvalidArgument& error) {
            text = error.what();
        }
        check(text.find("a process has 2 replicas, and another one has 3") != std::string::npos,
              "different numbers of replicas: '" + text + "'");
    }
}

/// A `Replicas` object is destroyed between run() and step(). Its destructor must wait for the reductions.
void check_destruction() {
    for (int repetition = 0; repetition < 3; ++repetition) {
        Model model(2);
        {
            training::Replicas replicas(training::Sgd{}, model.parameters, {.op = rueda::ReduceOp::sum});
            replicas.run([&](training::Replica& replica) { model.backward(replica, 0); });
        }
        check(model.gradients[0][3][7] == expected_sum(2, 2, 0, 3, 7), "the destructor did not wait");
        check(model.own[0][0][0] == 1.0F, "a destructor changed a parameter");
    }
}

/// Tests replicas in a process set. The workers are counted within the set, and the ranks outside of the set do
/// nothing.
void check_process_set() {
    if (rueda::size() == 1) {
        return;  // the only process set is the world
    }
    const std::vector<std::int32_t> members = {rueda::size() - 1};
    const rueda::ProcessSet set = rueda::add_process_set(members);
    if (set.included()) {
        Model model(2);
        training::Replicas replicas(training::Sgd{}, model.parameters,
                                    {.op = rueda::ReduceOp::sum, .process_set = set});
        check(replicas.workers() == 2, "a process set has wrong workers");
        bool is_refused = false;
        try {
            replicas.broadcast();
        } catch (const rueda::InvalidArgument&) {
            is_refused = true;
        }
        check(is_refused, "broadcast() in a process set of one rank");
        replicas.run([&](training::Replica& replica) { model.backward(replica, 0); });
        replicas.synchronize();
        check(model.gradients[0][0][3] == gradient_of(0, 0, 0, 3) + gradient_of(1, 0, 0, 3),
              "a process set has a wrong sum");
    }
    rueda::barrier();
    rueda::remove_process_set(set);
}

}  // namespace

int main() {
    using training::ReplicaReduction;
    rueda::init();
    for (int count = 1; count <= 8; ++count) {
        check_values(count, {.reduction = ReplicaReduction::to_one});
        check_values(count, {.reduction = ReplicaReduction::divided,
                             .op = count % 2 == 0 ? rueda::ReduceOp::sum : rueda::ReduceOp::average});
        check_values(count, {.reduction = ReplicaReduction::hierarchical, .group = std::min(count, 3)});
        check_values(count, {.reduction = ReplicaReduction::ring});
    }
    for (const int slow : {0, 6}) {
        check_slow_replica(7, ReplicaReduction::to_one, slow);
        check_slow_replica(7, ReplicaReduction::hierarchical, slow);  // by default, groups of 3
        check_slow_replica(7, ReplicaReduction::divided, slow);
        check_slow_replica(7, ReplicaReduction::ring, slow);
    }
    for (const ReplicaReduction reduction : {ReplicaReduction::to_one, ReplicaReduction::hierarchical,
                                             ReplicaReduction::divided, ReplicaReduction::ring}) {
        check_failure(0, reduction);
        check_failure(1, reduction);
    }
    check_failures_at_once();
    check_pending_name();
    check_different_counts();
    check_destruction();
    check_process_set();
    rueda::shutdown();
    return failures.load(std::memory_order_relaxed) == 0 ? 0 : 1;
}
