// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures the device kernels, and allreduces of tensors on GPUs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "allreduce.hpp"
#include "base/numbers.hpp"
#include "collectives/cuda/load_cuda.hpp"
#include "gpu.hpp"
#include "kernels.hpp"
#include "rueda/rueda.hpp"

namespace {

using namespace rueda::bench;

constexpr int kNoGpu = 77;

struct Options {
    std::vector<std::string> sizes{"4",    "16", "64", "256", "1K",  "4K",  "16K", "64K",
                                   "256K", "1M", "2M", "4M",  "16M", "64M", "256M"};
    std::string tensor = "64M";
    double seconds = 0.3;
    int samples = 21;
    std::vector<int> devices;  ///< the device of each local rank; if empty, rueda::local_device() chooses
};

std::uint64_t bytes_of(const std::string& text, std::uint64_t multiple) {
    const auto bytes = rueda::base::parse_bytes(text);
    if (!bytes || *bytes == 0 || *bytes % multiple != 0) {
        throw rueda::InvalidArgument(
            fmt::format("'{}' is no number of bytes (4, 64K, 1M) that is a multiple of {}", text, multiple));
    }
    return *bytes;
}

int device_of(const Options& options) {
    if (options.devices.empty()) {
        return rueda::local_device();
    }
    return options.devices[static_cast<std::size_t>(rueda::local_rank()) % options.devices.size()];
}

int measure_kernels_of(const Options& options) {
    Gpu gpu(options.devices.empty() ? 0 : options.devices.front());
    fmt::print("{}; the driver supports CUDA {}; tensors of {} bytes; medians of {} samples\n", gpu.name(),
               gpu.driver_version(), bytes_of(options.tensor, 1 << 20), options.samples);
    const KernelOptions kernels{.tensor_bytes = bytes_of(options.tensor, 1 << 20), .samples = options.samples};
    return measure_kernels(gpu, kernels) == 0 ? 0 : 1;
}

int measure_allreduces_of(const Options& options) {
    AllreducePlan allreduces{.sizes = {}, .seconds = options.seconds};
    for (const std::string& size : options.sizes) {
        allreduces.sizes.push_back(bytes_of(size, sizeof(float)));
    }
    rueda::init();
    std::uint64_t wrong = 0;
    {
        Gpu gpu(device_of(options));
        fmt::print("rank {} of {}: GPU {}, {}; the driver supports CUDA {}\n", rueda::rank(), rueda::size(),
                   gpu.ordinal(), gpu.name(), gpu.driver_version());
        std::fflush(stdout);
        rueda::barrier();
        wrong = measure_allreduces(gpu, allreduces);
    }
    rueda::shutdown();
    return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app{"Measures Rueda on GPUs. All results are checked."};
    app.footer(
        "Examples:\n"
        "  gpu_bench kernels\n"
        "  ruedarun --no-mpi -np 1 gpu_bench allreduce --sizes 4\n"
        "  ruedarun --no-mpi -np 2 --share-gpu gpu_bench allreduce\n\n"
        "Exit status: 0 all right, 1 a wrong result or a failure, 2 wrong usage, 77 there is no GPU.");
    app.require_subcommand(1);
    CLI::App* const kernels = app.add_subcommand("kernels", "the kernels of ops/cuda beside copies in the device");
    CLI::App* const allreduce =
        app.add_subcommand("allreduce", "averages over all ranks beside programs that copy tensors to the host");
    for (CLI::App* const command : {kernels, allreduce}) {
        command->add_option("--devices", options.devices,
                            "the GPU of each local rank; by default Rueda chooses, and the kernels run on GPU 0");
    }
    kernels->add_option("--tensor", options.tensor, "bytes of a tensor; should be more than the L2 cache has")
        ->capture_default_str();
    kernels->add_option("--samples", options.samples, "samples for each kernel")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    allreduce->add_option("--sizes", options.sizes, "bytes of a tensor")->capture_default_str();
    allreduce->add_option("--seconds", options.seconds, "time for each size")
        ->capture_default_str()
        ->check(CLI::Range(0.01, 3600.0));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (const rueda::Status status = rueda::collectives::cuda::load_cuda().status(); !status.is_ok()) {
        fmt::print("skipped: {}\n", status.message());
        return kNoGpu;
    }
    try {
        return kernels->parsed() ? measure_kernels_of(options) : measure_allreduces_of(options);
    } catch (const rueda::InvalidArgument& error) {
        fmt::print(stderr, "gpu_bench: {}\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        fmt::print(stderr, "gpu_bench: {}\n", error.what());
        return 1;
    }
}
