// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

#include "rueda/rueda.hpp"

namespace rueda::training {

/// A tensor of the model or of the optimizer, and its name. The name is the same on every rank, and appears in
/// checkpoints and messages. The memory belongs to the caller.
struct NamedTensor {
    std::string name;
    TensorView tensor;
};

/// Copies every tensor from rank `root` to all other ranks, so that training begins with the same parameters. All ranks
/// must call this function, with the same tensors in the same order. The function starts all broadcasts before it waits
/// for the first one. If some broadcasts fail, it waits until all have ended, and then throws the error of the first
/// broadcast that failed (Mismatch, Aborted, …). In this case the contents of the tensors are undefined.
RUEDA_API void broadcast_parameters(std::span<const NamedTensor> tensors, int root = 0);

}  // namespace rueda::training
