// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests what rueda::training::Replicas does when the job of two processes ends in a run. The first argument is
// the reason of the end: "killed" or "pending". The second one is the name of the ReplicaReduction. Each process that
// survives prints "rank R: as expected", and replicas_abort_test.sh counts these lines.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/replicas.hpp"

namespace {

namespace training = rueda::training;

constexpr std::size_t kReplicas = 2;

/// One parameter, which both replicas share.
struct Model {
    Model() {
        for (std::vector<float>& each : gradients) {
            parameters.push_back({{"p", values, each}});
        }
    }
    void backward(training::Replica& replica) {
        std::vector<float>& gradient = gradients[static_cast<std::size_t>(replica.index())];
        std::fill(gradient.begin(), gradient.end(), 1.0F);
        replica.gradient_ready(0);
    }

    std::vector<float> values = std::vector<float>(1000, 1.0F);
    std::array<std::vector<float>, kReplicas> gradients = {std::vector<float>(1000), std::vector<float>(1000)};
    std::vector<std::vector<training::Parameter>> parameters;
};

/// Calls run(), which must throw an Expected whose text contains `part`.
template <class Expected>
bool fails(training::Replicas& replicas, std::string_view part, const training::Replicas::Function& pass) {
    std::string text = "no error";
    try {
        replicas.run(pass);
    } catch (const Expected& error) {
        text = error.what();
        if (text.find(part) != std::string::npos) {
            return true;
        }
    } catch (const std::exception& error) {
        text = error.what();
    }
    std::printf("rank %d: expected '%s', got: %s\n", rueda::rank(), std::string(part).c_str(), text.c_str());
    return false;
}

/// Rank 1 is killed while rank 0 waits for it.
bool killed(training::ReplicaReduction reduction) {
    Model model;
    training::Replicas replicas(training::Sgd{}, model.parameters, {.reduction = reduction});
    const bool first = fails<rueda::Aborted>(replicas, "", [&](training::Replica& replica) {
        if (rueda::rank() == 1 && replica.index() == 1) {
            std::raise(SIGKILL);
        }
        model.backward(replica);
    });
    const bool second =
        fails<rueda::Aborted>(replicas, "", [&](training::Replica& replica) { model.backward(replica); });
    return first && second && model.values[0] == 1.0F;
}

bool is_aborted(const rueda::Handle& handle) {
    try {
        handle.wait();
    } catch (const rueda::Aborted&) {
        return true;
    }
    return false;
}

/// On rank 0, the program has a pending operation with the same name as the reduction of the gradient. So rank 0 cannot
/// start the reduction, and rank 1 would wait for it forever. Therefore rank 0 must end the job.
bool pending(training::ReplicaReduction reduction) {
    Model model;
    std::vector<float> other(1000);
    rueda::Handle handle;
    if (rueda::rank() == 0) {
        handle = rueda::allreduce_async("gradient.p", rueda::TensorView(other));
    }
    bool is_right = false;
    {
        training::Replicas replicas(training::Sgd{}, model.parameters, {.reduction = reduction});
        if (rueda::rank() == 0) {
            is_right = fails<rueda::DuplicateName>(replicas, "still pending",
                                                   [&](training::Replica& replica) { model.backward(replica); });
        } else {
            is_right = fails<rueda::Aborted>(replicas, "could not be started", [&](training::Replica& replica) {
                if (replica.index() == 0) {
                    rueda::allreduce("never", rueda::TensorView(other));  // ends when rank 0 ends the job
                }
                model.backward(replica);
            });
        }
        // abort() does not wait. The job has ended on this rank when the pending operation has failed.
        const bool has_ended = rueda::rank() == 1 || is_aborted(handle);
        is_right = fails<rueda::Aborted>(replicas, "could not be started",
                                         [&](training::Replica& replica) { model.backward(replica); }) &&
                   has_ended && is_right;
    }
    return is_right && model.values[0] == 1.0F;
}

}  // namespace

int main(int argc, char** argv) {
    using training::ReplicaReduction;
    rueda::init();
    const std::string_view reason = argc == 3 ? argv[1] : "";
    ReplicaReduction reduction = ReplicaReduction::divided;
    for (const ReplicaReduction each : {ReplicaReduction::to_one, ReplicaReduction::ring}) {
        reduction = argc == 3 && argv[2] == name_of(each) ? each : reduction;
    }
    if (reason == "killed" ? killed(reduction) : pending(reduction)) {
        std::printf("rank %d: as expected\n", rueda::rank());
        std::fflush(stdout);
    }
    return 3;  // the job was aborted
}
