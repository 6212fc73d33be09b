// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <cstdlib>
#include <rueda/eigen.hpp>
#include <vector>

using Matrix = Eigen::MatrixXf;

namespace {

/// The weights of a layer and their gradient. The ranks of a host reduce the gradient's memory in place.
struct Layer {
    Layer(const char* layer_name, Eigen::Index outputs, Eigen::Index inputs)
        : name(layer_name), weights(Matrix::Random(outputs, inputs) * 0.5F), gradient(outputs, inputs) {
        rueda::broadcast(name, rueda::tensor_of(weights), /*root=*/0);  // all ranks begin with rank 0's weights
    }
    void start() { handle = rueda::allreduce_async(name, gradient.tensor()); }
    void update(float rate) {
        handle.wait();
        weights -= rate * *gradient;
    }

    const char* name;
    Matrix weights;
    rueda::ResidentMatrix<Matrix> gradient;
    rueda::Handle handle;
};

}  // namespace

// A multi-layer perceptron learns the product of two numbers. Columns are samples. The last row of an input is 1, for
// the bias of the layer.
int main() {
    rueda::init();
    std::srand(static_cast<unsigned>(rueda::rank() + 1));  // every rank has other samples
    Layer first("first", 32, 3);
    Layer second("second", 1, 32);
    constexpr int kSamples = 64;
    float loss = 0.0F;
    for (int step = 0; step < 2000; ++step) {
        Matrix inputs = Matrix::Random(3, kSamples);
        inputs.row(2).setOnes();
        const Matrix targets = inputs.row(0).cwiseProduct(inputs.row(1));

        const Matrix hidden = (first.weights * inputs).array().tanh();
        const Matrix error = second.weights * hidden - targets;
        loss = error.squaredNorm() / kSamples;

        // In the backward pass, the second layer's gradient is reduced while the first layer's gradient is computed.
        *second.gradient = error * hidden.transpose() * (2.0F / kSamples);
        second.start();
        const Matrix slope = (second.weights.transpose() * error).array() * (1.0F - hidden.array().square());
        *first.gradient = slope * inputs.transpose() * (2.0F / kSamples);
        first.start();
        second.update(0.1F);
        first.update(0.1F);
    }
    std::vector<float> mean = {loss};
    rueda::allreduce("loss", mean);
    if (rueda::rank() == 0) {
        std::printf("loss %.4f: %s\n", mean[0], mean[0] < 0.02F ? "learned" : "not learned");
    }
    rueda::shutdown();
}
