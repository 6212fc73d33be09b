// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/adasum.hpp"
#include "ops/cuda/host_kernels.hpp"
#include "ops/cuda/kernel_arguments.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests::gpu {
namespace {

using namespace ops::cuda;  // NOLINT(google-build-using-namespace): the arguments and the names of the kernels

/// A function that lists the memory that a kernel accesses. It finds the addresses in the kernel's argument.
template <class Arguments>
using RangesOf = std::function<std::vector<Range>(const Arguments& arguments)>;

Range range_of(const void* memory, std::uint64_t bytes, bool write) {
    return {static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(memory)), static_cast<std::size_t>(bytes),
            write};
}

template <class Arguments>
void add(const char* name, RangesOf<Arguments> ranges) {
    const HostKernel kernel = name == nullptr ? nullptr : find_host_kernel(name);
    if (kernel == nullptr) {
        throw std::logic_error(std::string("no kernel ") + (name == nullptr ? "" : name));
    }
    register_kernel(name, {.argument_bytes = {sizeof(Arguments)},
                           .run =
                               [kernel](Grid grid, Grid block, void** arguments) {
                                   kernel({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, arguments);
                               },
                           .ranges =
                               [ranges = std::move(ranges)](Grid /*grid*/, Grid /*block*/, void** arguments) {
                                   return ranges(*static_cast<const Arguments*>(arguments[0]));
                               }});
}

/// Returns the RangesOf for a batch's kernel, which reads elements of size `from` and writes elements of size `to`.
RangesOf<BatchArguments> ranges_of_batch(std::size_t from, std::size_t to) {
    return [from, to](const BatchArguments& arguments) {
        std::vector<Range> ranges;
        for (const BatchItem& item : std::span(arguments.items).first(arguments.item_count)) {
            ranges.push_back(range_of(item.source, item.count * from, false));
            ranges.push_back(range_of(item.destination, item.count * to, true));
        }
        return ranges;
    };
}

RangesOf<ReduceArguments> ranges_of_reduce(std::size_t size) {
    return [size](const ReduceArguments& arguments) {
        std::vector<Range> ranges{range_of(arguments.destination, arguments.count * size, true)};
        for (const std::byte* const source : std::span(arguments.sources).first(arguments.source_count)) {
            ranges.push_back(range_of(source, arguments.count * size, false));
        }
        return ranges;
    };
}

std::vector<Range> sources_of(const AdasumArguments& arguments) {
    std::vector<Range> ranges;
    for (const std::byte* const source : std::span(arguments.sources).first(arguments.source_count)) {
        if (source != nullptr) {
            ranges.push_back(range_of(source, arguments.count * size_of(arguments.dtype), false));
        }
    }
    return ranges;
}

/// The parts of an adasum's workspace.
struct Workspace {
    explicit Workspace(const AdasumArguments& arguments)
        : pairs(ops::pairs_of(arguments.source_count)),
          open(arguments.parts * arguments.blocks_of_part * pairs * ops::DotProducts::kLanes * sizeof(double)),
          closed(arguments.parts * pairs * ops::DotProducts::kLanes * sizeof(double)) {}
    std::uint64_t pairs;
    std::uint64_t open;    // in bytes
    std::uint64_t closed;  // in bytes
};

void add_adasum_sums() {
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
        add<AdasumArguments>(adasum_products_kernel(dtype), [](const AdasumArguments& a) {
            std::vector<Range> ranges = sources_of(a);
            ranges.push_back(range_of(a.open, Workspace(a).open, true));
            return ranges;
        });
        add<AdasumArguments>(adasum_sum_kernel(dtype), [](const AdasumArguments& a) {
            std::vector<Range> ranges = sources_of(a);
            ranges.push_back(range_of(a.weights, a.source_count * sizeof(double), false));
            ranges.push_back(range_of(a.destination, a.count * size_of(a.dtype), true));
            return ranges;
        });
    }
}

void add_adasum_weights() {
    add<AdasumArguments>(kAdasumLanesKernel, [](const AdasumArguments& a) {
        const Workspace workspace(a);
        return std::vector<Range>{range_of(a.open, workspace.open, false), range_of(a.closed, workspace.closed, true)};
    });
    add<AdasumArguments>(kAdasumWeightsKernel, [](const AdasumArguments& a) {
        const Workspace workspace(a);
        return std::vector<Range>{range_of(a.closed, workspace.closed, false),
                                  range_of(a.dots, workspace.pairs * sizeof(double), true),
                                  range_of(a.weights, a.source_count * sizeof(double), true)};
    });
}

}  // namespace

void register_kernels() {
    add<BatchArguments>(kCopyKernel, ranges_of_batch(1, 1));
    add<FillArguments>(kFillKernel, [](const FillArguments& arguments) {
        return std::vector<Range>{range_of(arguments.destination, arguments.count, true)};
    });
    for (std::size_t number = 0; number < kDTypeCount; ++number) {
        const auto from = static_cast<DType>(number);
        add<ReduceArguments>(reduce_kernel(from), ranges_of_reduce(size_of(from)));
        if (scale_kernel(from) != nullptr) {
            add<BatchArguments>(scale_kernel(from), ranges_of_batch(size_of(from), size_of(from)));
        }
        for (std::size_t other = 0; other < kDTypeCount; ++other) {
            const auto to = static_cast<DType>(other);
            if (convert_kernel(from, to) != nullptr) {
                add<BatchArguments>(convert_kernel(from, to), ranges_of_batch(size_of(from), size_of(to)));
            }
        }
    }
    add_adasum_sums();
    add_adasum_weights();
}

}  // namespace rueda::tests::gpu
