// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "model.hpp"

namespace digits {
namespace {

class CpuModel final : public Model {
public:
    explicit CpuModel(std::uint64_t seed) : network_(seed) {}
    const std::vector<float>& forward(const Images& images) override { return network_.forward(images); }
    void backward(const Images& images, const std::vector<float>& logits_slope,
                  const rueda::AllreduceOptions& reduction) override {
        // The reduction of a gradient starts as soon as its layer is done, and runs while backward() computes the
        // layers below.
        network_.backward(images, logits_slope, [&](Parameter& parameter) { parameter.gradient.start(reduction); });
    }
    void update(float rate, float momentum) override {
        for (Parameter* parameter : network_.parameters()) {
            parameter->gradient.wait();
            parameter->update(rate, momentum);
        }
    }
    std::vector<rueda::training::NamedTensor> state() override { return network_.state(); }
    void changed() override {}

private:
    Network network_;
};

}  // namespace

std::unique_ptr<Model> make_model(const std::string& device, std::uint64_t seed) {
    return device == "cuda" ? make_gpu_model(seed) : std::make_unique<CpuModel>(seed);
}

}  // namespace digits
