// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>

int main() {
    rueda::init();
    try {
        const int index = rueda::local_device();
        const rueda::DeviceArray<float> gradient(1000, rueda::cuda_device(index));
        const rueda::DeviceStream stream = rueda::cuda_stream(index, nullptr);  // or a cudaStream_t
        // … kernels in this stream write gradient.data() …
        const rueda::TensorView view(gradient.data(), rueda::DType::float32, {1000});
        rueda::allreduce("layer1.weight", view, rueda::AllreduceOptions{.device = stream});
        std::printf("reduced %zu elements on GPU %d\n", gradient.size(), index);
    } catch (const rueda::Unsupported& error) {
        std::printf("no GPU: %s\n", error.what());
    }
    rueda::shutdown();
}
