// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/replicas.hpp"

#include <utility>

#include "training/replicas/replica_team.hpp"

namespace rueda::training {

std::string_view name_of(ReplicaReduction reduction) noexcept {
    switch (reduction) {
        case ReplicaReduction::to_one:
            return "to_one";
        case ReplicaReduction::hierarchical:
            return "hierarchical";
        case ReplicaReduction::divided:
            return "divided";
        case ReplicaReduction::ring:
            return "ring";
    }
    return "unknown";
}

int Replica::count() const noexcept { return runs_.count(); }
int Replica::worker() const noexcept { return runs_.first_worker() + index_; }
int Replica::workers() const noexcept { return runs_.workers(); }
void Replica::gradient_ready(std::size_t parameter) { runs_.gradient_ready(index_, parameter); }
bool Replica::stopped() const noexcept { return runs_.stopped(); }

Replicas::Replicas(const OptimizerRule& rule, std::vector<std::vector<Parameter>> replicas,
                   const ReplicasOptions& options)
    : team_(std::make_unique<ReplicaTeam>(rule, std::move(replicas), options)) {}
Replicas::Replicas(Replicas&& other) noexcept = default;
Replicas& Replicas::operator=(Replicas&& other) noexcept = default;
Replicas::~Replicas() = default;

int Replicas::count() const noexcept { return team_->count(); }
int Replicas::workers() const noexcept { return team_->workers(); }

void Replicas::broadcast(int root) { team_->broadcast(root); }
void Replicas::copy_to_replicas() { team_->copy_to_replicas(); }

void Replicas::run(const Function& pass) { team_->run(pass); }
void Replicas::on_each(const Function& work) { team_->on_each(work); }
void Replicas::step(double learning_rate, double gradient_factor) { team_->step(learning_rate, gradient_factor); }
void Replicas::synchronize() { team_->synchronize(); }
void Replicas::skip() { team_->skip(); }

Optimizer& Replicas::optimizer() noexcept { return team_->optimizer().optimizer(); }
std::span<const Parameter> Replicas::parameters() const noexcept { return team_->optimizer().parameters(); }

}  // namespace rueda::training
