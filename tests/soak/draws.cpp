// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/soak/draws.hpp"

#include <algorithm>
#include <array>

namespace rueda::tests {
namespace {

/// Usually returns a few rows, and sometimes enough rows for many chunks.
std::int64_t draw_rows(std::mt19937& random) {
    switch (random() % 16) {
        case 0:
            return 0;
        case 1:
            return static_cast<std::int64_t>(random() % 40'000);
        case 2:
        case 3:
            return static_cast<std::int64_t>(random() % 3000);
        default:
            return static_cast<std::int64_t>(random() % 40);
    }
}

Kind draw_kind(std::mt19937& random) {
    static constexpr std::array kOften = {Kind::allreduce, Kind::allreduce,    Kind::allreduce, Kind::grouped,
                                          Kind::adasum,    Kind::broadcast,    Kind::allgather, Kind::gather,
                                          Kind::scatter,   Kind::alltoall,     Kind::message,   Kind::message,
                                          Kind::reduce,    Kind::reducescatter};
    return random() % 64 == 0 ? Kind::mismatch : kOften[random() % kOften.size()];
}

}  // namespace

Draw draw_operation(std::mt19937& random, std::size_t sets) {
    static constexpr std::array kFloats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
    static constexpr std::array kOps = {ReduceOp::sum, ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
    static constexpr std::array kBoolOps = {ReduceOp::min, ReduceOp::max, ReduceOp::product};
    Draw draw;
    draw.kind = draw_kind(random);
    draw.dtype = static_cast<DType>(random() % kDTypeCount);
    draw.op = kOps[random() % kOps.size()];
    draw.compression = static_cast<Compression>(random() % 3);
    if (draw.kind == Kind::adasum) {
        draw.dtype = kFloats[random() % kFloats.size()];
        draw.op = ReduceOp::adasum;
    } else if (draw.dtype == DType::boolean) {
        draw.op = kBoolOps[random() % kBoolOps.size()];
    }
    const bool travels_otherwise = (draw.kind == Kind::allreduce || draw.kind == Kind::grouped) &&
                                   (draw.dtype == DType::float32 || draw.dtype == DType::float64);
    draw.compression = travels_otherwise ? draw.compression : Compression::none;
    draw.rows = draw_rows(random);
    draw.columns = 1 + static_cast<std::int64_t>(random() % 4);
    draw.set = random() % sets;
    draw.salt = static_cast<std::uint32_t>(random() % 1000);
    draw.blocking = random() % 3 == 0;
    return draw;
}

std::vector<std::vector<std::int32_t>> draw_sets(std::mt19937& random, int size, std::size_t count) {
    std::vector<std::vector<std::int32_t>> sets;
    const std::uint32_t subsets = 1U << static_cast<unsigned>(size);
    count = std::min<std::size_t>(count, subsets - 2);
    std::vector<std::uint32_t> taken;
    while (taken.size() < count) {
        const auto members = static_cast<std::uint32_t>(1 + random() % (subsets - 2));
        if (std::find(taken.begin(), taken.end(), members) != taken.end()) {
            continue;
        }
        taken.push_back(members);
        sets.emplace_back();
        for (std::int32_t rank = 0; rank < size; ++rank) {
            if ((members >> static_cast<unsigned>(rank) & 1U) != 0) {
                sets.back().push_back(rank);
            }
        }
    }
    return sets;
}

}  // namespace rueda::tests
