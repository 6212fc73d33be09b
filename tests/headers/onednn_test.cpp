// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/onednn.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

dnnl::memory memory_of(const dnnl::memory::dims& extents, Type type, Tag tag) {
    return {dnnl::memory::desc(extents, type, tag), dnnl::engine(dnnl::engine::kind::cpu, 0)};
}

TEST_CASE("plain memory of oneDNN is a tensor of its dimensions") {
    const dnnl::memory weights = memory_of({8, 3, 5, 5}, Type::f32, Tag::oihw);
    const TensorView tensor = tensor_of(weights);
    CHECK(tensor.data() == weights.get_data_handle());
    CHECK(tensor.dtype() == DType::float32);
    CHECK(std::vector<std::int64_t>(tensor.shape().extents().begin(), tensor.shape().extents().end()) ==
          std::vector<std::int64_t>{8, 3, 5, 5});
    CHECK(tensor_of(memory_of({7}, Type::f32, Tag::a)).shape().elements() == 7);
}

TEST_CASE("every data type that Rueda has") {
    for (const auto& [theirs, ours] : {std::pair(Type::f32, DType::float32), std::pair(Type::f16, DType::float16),
                                       std::pair(Type::bf16, DType::bfloat16), std::pair(Type::s32, DType::int32),
                                       std::pair(Type::s8, DType::int8), std::pair(Type::u8, DType::uint8)}) {
        CHECK(tensor_of(memory_of({2, 3}, theirs, Tag::ab)).dtype() == ours);
    }
    CHECK_THROWS_AS(detail::dtype_of_onednn(Type::undef), Unsupported);
}

TEST_CASE("layouts that other ranks may not have are refused") {
    CHECK_THROWS_AS(tensor_of(memory_of({2, 8, 4, 4}, Type::f32, Tag::nhwc)), InvalidArgument);
    CHECK_THROWS_AS(tensor_of(memory_of({2, 8, 4, 4}, Type::f32, Tag::nChw8c)), InvalidArgument);
    CHECK_THROWS_WITH(tensor_of(memory_of({2, 3, 4, 4}, Type::f32, Tag::nChw8c)), Catch::Contains("reorder"));
    // With a single channel, the elements are in row-major order in the format nhwc as well.
    CHECK(tensor_of(memory_of({2, 1, 4, 4}, Type::f32, Tag::nhwc)).shape().elements() == 32);
}

TEST_CASE("a submemory is the part that it describes, not the beginning of the whole") {
    const dnnl::memory::desc whole({4, 3}, Type::s32, Tag::ab);
    std::vector<std::int32_t> elements(12);
    std::iota(elements.begin(), elements.end(), 0);
    const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    const TensorView rows = tensor_of({whole.submemory_desc({2, 3}, {2, 0}), cpu, elements.data()});
    CHECK(rows.shape().elements() == 6);
    CHECK(*static_cast<const std::int32_t*>(rows.data()) == 6);  // row 2, which has 3 columns
    const TensorView part_of_a_row = tensor_of({whole.submemory_desc({1, 2}, {3, 1}), cpu, elements.data()});
    CHECK(*static_cast<const std::int32_t*>(part_of_a_row.data()) == 10);
    CHECK_THROWS_AS(tensor_of({whole.submemory_desc({4, 2}, {0, 1}), cpu, elements.data()}), InvalidArgument);

    // Lets oneDNN copy the submemory. The copy shows at which element the submemory begins.
    std::vector<std::int32_t> copied(6, -1);
    dnnl::memory source(whole.submemory_desc({2, 3}, {2, 0}), cpu, elements.data());
    dnnl::memory copy(dnnl::memory::desc({2, 3}, Type::s32, Tag::ab), cpu, copied.data());
    dnnl::stream stream(cpu);
    dnnl::reorder(source, copy).execute(stream, source, copy);
    stream.wait();
    CHECK(std::equal(copied.begin(), copied.end(), static_cast<const std::int32_t*>(rows.data())));
}

}  // namespace
}  // namespace rueda
