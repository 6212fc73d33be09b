// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Tests the PTX text of the device kernels, which a driver compiles.
#include "ops/cuda/kernel_image.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "buffers.hpp"
#include "ops/cuda/division.hpp"
#include "ops/cuda/host_kernels.hpp"
#include "ops/cuda/launch.hpp"

namespace rueda::ops::cuda::test {

TEST_CASE("every kernel that a launch can name exists on the host", "[unit]") {
    std::vector<const char*> names{kCopyKernel, kFillKernel, kAdasumLanesKernel, kAdasumWeightsKernel};
    for (const DType dtype : ops::test::kDTypes) {
        names.push_back(reduce_kernel(dtype));
        if (dtype != DType::boolean) {
            names.push_back(scale_kernel(dtype));
        }
        if (has_adasum(dtype)) {
            names.push_back(adasum_products_kernel(dtype));
            names.push_back(adasum_sum_kernel(dtype));
        }
        CHECK(std::string(reduce_kernel(dtype)) == std::string("rueda_reduce_") + name_of(dtype));
        for (const DType to : ops::test::kDTypes) {
            if (dtype != to && has_adasum(dtype) && has_adasum(to)) {
                names.push_back(convert_kernel(dtype, to));
                CHECK(std::string(names.back()) == std::string("rueda_convert_") + name_of(dtype) + "_" + name_of(to));
            } else {
                CHECK(convert_kernel(dtype, to) == nullptr);
            }
        }
    }
    CHECK(names.size() == host_kernels().size());
    for (const char* name : names) {
        CAPTURE(name);
        CHECK(find_host_kernel(name) != nullptr);
    }
    CHECK(find_host_kernel("rueda_reduce_complex64") == nullptr);
}

TEST_CASE("the image has every kernel, for old drivers, and without instructions that round differently", "[unit]") {
    const std::string_view image = kernel_image();
    if (kernel_image_compiler() == "none") {
        WARN("skipped: Rueda was built without device kernels");
        CHECK(image.empty());
        return;
    }
    for (const NamedHostKernel& kernel : host_kernels()) {
        const std::string entry = std::string(".visible .entry ") + kernel.name + "(";
        CAPTURE(entry);
        CHECK(image.find(entry) != std::string_view::npos);
    }
    CHECK(image.data()[image.size()] == '\0');
    CHECK(image.find("\n.target sm_" RUEDA_KERNEL_ARCHITECTURE) != std::string_view::npos);
    CHECK(image.find("\n.version 6.") != std::string_view::npos);
    // The PTX must not contain these words, for these reasons. fma rounds once instead of twice; without .rn, the
    // assembler may itself turn a product and a sum into an fma. .ftz and .approx change the results for subnormals and
    // quotients. .local means that a thread copies the parameter. call calls a function of a library that does not
    // exist here.
    for (const char* forbidden : {"fma.", "mad.f", "add.f32", "mul.f32", "add.f64", "mul.f64", ".ftz", ".approx",
                                  ".local", "call.", "call ", ".extern"}) {
        CAPTURE(forbidden);
        CHECK(image.find(forbidden) == std::string_view::npos);
    }
    CHECK(image.find("ld.global.v4.u32") != std::string_view::npos);
    CHECK(image.find("st.global.v4.u32") != std::string_view::npos);
}

TEST_CASE("as many elements as possible are processed as vectors", "[unit]") {
    alignas(16) std::byte memory[64];
    // `division` has one pointer, to elements of 4 bytes. It divides these elements into vectors and singles: three
    // elements come before the first aligned vector, and two come after the last one.
    Division division(3 + 4 * 5 + 2, memory + 4, 4);
    CHECK(division.vectors() == 5);
    CHECK(division.begin_of_vector(0) == 3);
    CHECK(division.begin_of_vector(4) == 19);
    CHECK(division.singles() == 5);
    CHECK(division.place_of_single(2) == 2);
    CHECK(division.place_of_single(3) == 23);
    CHECK(division.place_of_single(4) == 24);
    // Adds a second pointer at the same distance from an aligned address. Then adds a third pointer, to elements of 8
    // bytes. Neither changes the number of vectors.
    division.include(memory + 20, 4);
    CHECK(division.vectors() == 5);
    division.include(memory + 8, 8);
    CHECK(division.vectors() == 5);
    // First adds a pointer that is aligned to its elements, but whose distance to an aligned address differs from that
    // of the others. Then adds a pointer that is not aligned to its elements.
    division.include(memory + 8, 4);
    CHECK(division.vectors() == 0);
    CHECK(division.singles() == 25);
    CHECK(division.place_of_single(24) == 24);
    CHECK(division.are_elements_aligned());
    division.include(memory + 9, 4);
    CHECK_FALSE(division.are_elements_aligned());
    // There are too few elements to reach the first aligned vector.
    const Division small(2, memory + 4, 4);
    CHECK(small.vectors() == 0);
    CHECK(small.singles() == 2);
    CHECK(small.place_of_single(1) == 1);
}

TEST_CASE("grids have at least one block, at most the maximum, and otherwise a thread for each vector", "[unit]") {
    CHECK(blocks_for(0) == 1);
    CHECK(blocks_for(1) == 1);
    CHECK(blocks_for(kThreads) == 1);
    CHECK(blocks_for(kThreads + 1) == 2);
    CHECK(blocks_for(std::uint64_t{1} << 50) == kMostBlocks);
    const std::byte* source = nullptr;
    const Reduction sum{.dtype = DType::float32, .op = ReduceOp::sum};
    CHECK(reduce_launch(sum, {&source, 1}, nullptr, 1 << 20).geometry.blocks == (1 << 20) / 4 / kThreads + 1);
    const BatchItem items[] = {{nullptr, nullptr, 5}, {nullptr, nullptr, 16 * 256 * 6}, {nullptr, nullptr, 0}};
    const Launch<BatchArguments> copies = batch_launch({DType::uint8, DType::uint8}, items);
    CHECK(copies.geometry.blocks == 7);
    CHECK(copies.geometry.rows == 3);
    CHECK(copies.arguments.item_count == 3);
}

}  // namespace rueda::ops::cuda::test
