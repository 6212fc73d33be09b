// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/device_replicas.hpp"

#include <utility>

#include "training/replicas/device_replica_team.hpp"

namespace rueda::training {

DeviceReplicas::DeviceReplicas(std::vector<DeviceReplica> replicas, const DeviceReplicasOptions& options)
    : team_(std::make_unique<DeviceReplicaTeam>(std::move(replicas), options)) {}
DeviceReplicas::DeviceReplicas(DeviceReplicas&& other) noexcept = default;
DeviceReplicas& DeviceReplicas::operator=(DeviceReplicas&& other) noexcept = default;
DeviceReplicas::~DeviceReplicas() = default;

int DeviceReplicas::count() const noexcept { return team_->count(); }
int DeviceReplicas::workers() const noexcept { return team_->workers(); }

void DeviceReplicas::broadcast(int root) { team_->broadcast(root); }
void DeviceReplicas::copy_to_replicas() { team_->copy_to_replicas(); }
void DeviceReplicas::run(const Function& pass) { team_->run(pass); }
void DeviceReplicas::on_each(const Function& work) { team_->on_each(work); }
void DeviceReplicas::synchronize() { team_->synchronize(); }

}  // namespace rueda::training
