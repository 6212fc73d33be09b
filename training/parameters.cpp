// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/parameters.hpp"

#include <vector>

#include "training/first_error.hpp"

namespace rueda::training {

/// Broadcasts the tensors. Waits until all started operations have ended, even if some fail or cannot be started,
/// because the operations use the tensors until then.
void broadcast_parameters(std::span<const NamedTensor> tensors, int root) {
    std::vector<Handle> handles;
    handles.reserve(tensors.size());
    FirstError errors;
    errors.attempt([&] {
        for (const NamedTensor& tensor : tensors) {
            handles.push_back(broadcast_async("rueda.training.parameters." + tensor.name, tensor.tensor, root));
        }
    });
    for (const Handle& handle : handles) {
        errors.attempt([&] { handle.wait(); });
    }
    errors.rethrow();
}

}  // namespace rueda::training
