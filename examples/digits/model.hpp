// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "network.hpp"

namespace digits {

/// The network on a device, with the reduction of its gradients.
class Model {
public:
    virtual ~Model() = default;
    /// Returns the logits of the images, in the host's memory.
    virtual const std::vector<float>& forward(const Images& images) = 0;
    /// Computes the gradients for the images of the last forward(), and starts to reduce each gradient over all ranks
    /// as soon as it is complete.
    virtual void backward(const Images& images, const std::vector<float>& logits_slope,
                          const rueda::AllreduceOptions& reduction) = 0;
    /// Waits until the gradients are reduced, and updates the parameters.
    virtual void update(float rate, float momentum) = 0;
    /// Returns the tensors that training changes, in the host's memory. If you change these tensors, call changed()
    /// afterwards.
    [[nodiscard]] virtual std::vector<rueda::training::NamedTensor> state() = 0;
    virtual void changed() = 0;
};

/// Makes the network on a device: "cpu" (with oneDNN and Eigen) or "cuda" (with cuDNN). The initial parameters depend
/// only on the seed. Throws rueda::Unsupported if the device cannot be used.
[[nodiscard]] std::unique_ptr<Model> make_model(const std::string& device, std::uint64_t seed);
/// Defined in gpu_model.cpp.
[[nodiscard]] std::unique_ptr<Model> make_gpu_model(std::uint64_t seed);

}  // namespace digits
