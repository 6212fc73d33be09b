// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace rueda::bench {
namespace {

using ops::cuda::BatchItem;
using ops::cuda::kMostItems;

constexpr std::uint64_t kSources = 16;
constexpr std::uint64_t kDestinations = 4;
/// The largest copy that a kernel is compared with moves as many bytes as a reduction of 16 tensors. The reduction
/// reads 16 tensors and writes one. The copy therefore reads 8.5 tensors and writes 8.5. It needs memory for 9 tensors.
constexpr std::uint64_t kCopied = 9;

/// A measured kernel. `run` puts launch number j into the stream. Consecutive launches use different memory, so that a
/// launch does not find its memory in the L2 cache. `wrong` returns the number of wrong elements in the result of
/// launch number j.
struct Case {
    std::string name;
    std::uint64_t bytes;  ///< the least number of bytes that a launch has to read and write
    std::function<void(std::uint64_t j)> run;
    std::function<std::uint64_t(std::uint64_t j)> wrong;
};

class KernelBench {
public:
    KernelBench(Gpu& gpu, const KernelOptions& options)
        : gpu_(gpu),
          options_(options),
          size_(options.tensor_bytes),
          sources_(gpu, Memory::Kind::device, kSources * size_),
          destinations_(gpu, Memory::Kind::device, kDestinations * size_),
          copied_(gpu, Memory::Kind::device, kCopied * size_),
          host_(gpu, Memory::Kind::pinned, size_) {}

    std::uint64_t run() {
        fmt::print("{:<36} {:>9} {:>10} {:>9} {:>10} {:>9} {:>7}\n", "kernel", "MB moved", "median us", "GB/s",
                   "copy us", "GB/s", "to copy");
        for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::float8_e4m3fn,
                                  DType::int64, DType::int32, DType::uint8}) {
            run_type(dtype);
        }
        return wrong_;
    }

private:
    [[nodiscard]] std::byte* source(std::uint64_t index) const { return sources_.data() + index % kSources * size_; }
    [[nodiscard]] std::byte* destination(std::uint64_t index) const {
        return destinations_.data() + index % kDestinations * size_;
    }
    /// Returns the values of a source tensor. The values of sources with an odd index are larger by 1.
    [[nodiscard]] static Values values_of_source(std::uint64_t index) {
        return {.factor = 1, .offset = static_cast<int>(index % 2)};
    }
    [[nodiscard]] std::uint64_t count_of(DType dtype) const { return size_ / size_of(dtype); }

    /// Returns the number of wrong elements at an address of the device.
    std::uint64_t wrong_at(const std::byte* memory, DType dtype, std::uint64_t count, const Values& values) {
        gpu_.copy(host_.data(), memory, count * size_of(dtype));
        gpu_.synchronise();
        return count_wrong(host_.data(), dtype, count, values);
    }

    void write_sources(DType dtype) {
        for (std::uint64_t s = 0; s < 2; ++s) {
            write_values(host_.data(), dtype, count_of(dtype), values_of_source(s));
            gpu_.copy(source(s), host_.data(), size_);
            gpu_.synchronise();
        }
        for (std::uint64_t s = 2; s < kSources; ++s) {
            gpu_.copy(source(s), source(s % 2), size_);
        }
        gpu_.synchronise();
    }

    /// Copies `bytes` bytes within the device's memory. The addresses depend on j, so that a copy does not find its
    /// bytes in the L2 cache.
    void copy_beside(std::uint64_t j, std::uint64_t bytes) {
        const auto place = [&](std::uint64_t room) { return j * bytes % (room - bytes + 1) / 256 * 256; };
        gpu_.copy(copied_.data() + place(kCopied * size_), sources_.data() + place(kSources * size_), bytes);
    }

    /// Returns the time of one launch in microseconds.
    double sample(std::uint64_t& j, std::uint64_t launches, const std::function<void(std::uint64_t)>& run) {
        begin_.record(gpu_.stream());
        for (std::uint64_t k = 0; k < launches; ++k) {
            run(j++);
        }
        end_.record(gpu_.stream());
        end_.synchronise();
        return end_.microseconds_since(begin_) / static_cast<double>(launches);
    }

    void measure(const Case& c) {
        const std::uint64_t launches = std::clamp<std::uint64_t>(8 * size_ / c.bytes, 2, 64);
        const auto copy = [&](std::uint64_t j) { copy_beside(j, c.bytes / 2); };
        std::vector<double> kernel_times;
        std::vector<double> copy_times;
        std::uint64_t kernels = 0;
        std::uint64_t copies = 0;
        for (int warm_up = 0; warm_up < std::min(3, options_.samples); ++warm_up) {
            static_cast<void>(sample(copies, launches, copy));
            static_cast<void>(sample(kernels, launches, c.run));
        }
        for (int s = 0; s < options_.samples; ++s) {
            copy_times.push_back(sample(copies, launches, copy));
            kernel_times.push_back(sample(kernels, launches, c.run));
        }
        const std::uint64_t wrong = c.wrong(kernels - 1);
        wrong_ += wrong;
        const double kernel = quantile(kernel_times, 0.5);
        const double beside = quantile(copy_times, 0.5);
        const double bytes = static_cast<double>(c.bytes);
        fmt::print("{:<36} {:>9.1f} {:>10.1f} {:>9.0f} {:>10.1f} {:>9.0f} {:>6.2f}x{}\n", c.name, bytes * 1e-6, kernel,
                   bytes / kernel * 1e-3, beside, bytes / beside * 1e-3, beside / kernel,
                   wrong > 0 ? fmt::format("  {} WRONG", wrong) : "");
        std::fflush(stdout);
    }

    void run_type(DType dtype) {
        write_sources(dtype);
        for (const std::uint64_t n : {2U, 4U, 8U, 16U}) {
            if (dtype == DType::float32 || n == 2 || n == 8) {
                reduce(dtype, n, 0);
            }
        }
        scale(dtype);
        if (dtype == DType::float32) {
            reduce(dtype, 2, size_of(dtype));
            for (const std::uint64_t bytes : {4U, 64U, 256U}) {
                pack(bytes << 10, true);
                pack(bytes << 10, false);
            }
            convert(dtype, DType::float16);
            convert(dtype, DType::bfloat16);
            fill();
            adasum(dtype, 2);
            adasum(dtype, 4);
        } else if (ops::cuda::is_convertible({.from = dtype, .to = DType::float32})) {
            convert(dtype, DType::float32);
            adasum(dtype, 2);
        }
    }

    /// Measures the sum of n tensors. `shift` moves the destination by some bytes, so that its alignment differs from
    /// that of the sources.
    void reduce(DType dtype, std::uint64_t n, std::size_t shift) {
        const std::uint64_t count = (size_ - shift) / size_of(dtype);
        const auto run = [=, this](std::uint64_t j) {
            std::vector<const std::byte*> from;
            for (std::uint64_t s = 0; s < n; ++s) {
                from.push_back(source(j * n + s));
            }
            gpu_.launch(
                ops::cuda::reduce_launch({.dtype = dtype, .op = ReduceOp::sum}, from, destination(j) + shift, count));
        };
        const Values sum{.factor = static_cast<int>(n), .offset = static_cast<int>(n / 2)};
        measure({fmt::format("reduce {} x{}{}", name_of(dtype), n, shift > 0 ? ", misaligned" : ""), (n + 1) * size_,
                 run, [=, this](std::uint64_t j) { return wrong_at(destination(j) + shift, dtype, count, sum); }});
    }

    /// Measures the packing of as many small tensors as fit into one launch. If `with_kernel` is false, the driver
    /// copies each tensor separately instead.
    void pack(std::uint64_t bytes, bool with_kernel) {
        // The distance between two tensors is a multiple of the period of the values, and of the alignment of
        // allocations (256).
        constexpr std::uint64_t kStep = 256 * 7;
        const std::uint64_t distance = (bytes + 512 + kStep - 1) / kStep * kStep;
        const std::uint64_t room = kMostItems * distance;
        const std::uint64_t packed = kMostItems * bytes;
        if (room > size_) {
            return;
        }
        const auto from = [=, this](std::uint64_t j) { return source(j) + j / kSources % (size_ / room) * room; };
        const auto to = [=, this](std::uint64_t j) {
            return destination(j) + j / kDestinations % (size_ / packed) * packed;
        };
        const auto run = [=, this](std::uint64_t j) {
            std::array<BatchItem, kMostItems> items{};
            for (std::uint64_t i = 0; i < kMostItems; ++i) {
                items[i] = {from(j) + i * distance, to(j) + i * bytes, bytes / sizeof(float)};
                if (!with_kernel) {
                    gpu_.copy(items[i].destination, items[i].source, bytes);
                }
            }
            if (with_kernel) {
                gpu_.launch(ops::cuda::batch_launch({}, items));
            }
        };
        const auto wrong = [=, this](std::uint64_t j) {
            std::uint64_t all = 0;
            for (std::uint64_t i = 0; i < kMostItems; ++i) {
                all += wrong_at(to(j) + i * bytes, DType::float32, bytes / sizeof(float), values_of_source(j));
            }
            return all;
        };
        measure({fmt::format("pack {} x {} KiB{}", kMostItems, bytes >> 10, with_kernel ? "" : ", cuMemcpyAsync"),
                 2 * packed, run, wrong});
    }

    /// Runs a batch whose tensors are the parts of one source, and checks the result.
    void batch(const std::string& name, const ops::cuda::Conversion& conversion, std::uint64_t count,
               const std::function<Values(std::uint64_t j)>& expected) {
        constexpr std::uint64_t kParts = 16;
        const std::uint64_t part = count / kParts;
        const std::size_t from_size = size_of(conversion.from);
        const std::size_t to_size = size_of(conversion.to);
        const auto run = [=, this](std::uint64_t j) {
            std::array<BatchItem, kParts> items{};
            for (std::uint64_t i = 0; i < kParts; ++i) {
                items[i] = {source(j) + i * part * from_size, destination(j) + i * part * to_size, part};
            }
            gpu_.launch(ops::cuda::batch_launch(conversion, items));
        };
        const auto wrong = [=, this](std::uint64_t j) {
            return wrong_at(destination(j), conversion.to, kParts * part, expected(j));
        };
        measure({name, kParts * part * (from_size + to_size), run, wrong});
    }

    void scale(DType dtype) {
        batch(fmt::format("scale {}", name_of(dtype)), {dtype, dtype, 2.0}, count_of(dtype),
              [](std::uint64_t j) { return Values{.factor = 2, .offset = 2 * values_of_source(j).offset}; });
    }

    void convert(DType from, DType to) {
        batch(fmt::format("convert {} to {}", name_of(from), name_of(to)), {from, to, 1.0},
              std::min(count_of(from), count_of(to)), &KernelBench::values_of_source);
    }

    void fill() {
        const auto run = [this](std::uint64_t j) { gpu_.launch(ops::cuda::zero_launch(destination(j), size_)); };
        const auto wrong = [this](std::uint64_t j) {
            return wrong_at(destination(j), DType::uint8, size_, {.factor = 0, .offset = 0});
        };
        measure({"fill", size_, run, wrong});
    }

    /// Measures Adasum of equal tensors. The result is equal to each of these tensors. The kernels read each tensor at
    /// least twice.
    void adasum(DType dtype, std::uint64_t n) {
        const ops::cuda::Adasum adasum{.dtype = dtype, .factor = 1.0, .parts = static_cast<std::uint32_t>(n)};
        const std::uint64_t count = count_of(dtype);
        const Memory workspace(gpu_, Memory::Kind::device,
                               ops::cuda::adasum_workspace(adasum, n, count) * sizeof(double));
        const auto run = [&, n](std::uint64_t j) {
            std::vector<const std::byte*> from;
            for (std::uint64_t s = 0; s < n; ++s) {
                from.push_back(source(2 * (j * n + s)));
            }
            auto* const doubles = reinterpret_cast<double*>(workspace.data());
            for (const auto& launch : ops::cuda::adasum_launches(adasum, from, destination(j), count, doubles)) {
                gpu_.launch(launch);
            }
        };
        measure({fmt::format("adasum {} x{}", name_of(dtype), n), (2 * n + 1) * size_, run,
                 [&](std::uint64_t j) { return wrong_at(destination(j), dtype, count, values_of_source(0)); }});
    }

    Gpu& gpu_;
    KernelOptions options_;
    std::uint64_t size_;
    Memory sources_;
    Memory destinations_;
    Memory copied_;
    Memory host_;
    Event begin_{gpu_, Event::Use::time};
    Event end_{gpu_, Event::Use::time};
    std::uint64_t wrong_ = 0;
};

}  // namespace

std::uint64_t measure_kernels(Gpu& gpu, const KernelOptions& options) { return KernelBench(gpu, options).run(); }

}  // namespace rueda::bench
