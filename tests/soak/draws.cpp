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
            return static_cast<std::int64_t>(random() % 10'000);
        case 2:
        case 3:
            return static_cast<std::int64_t>(random() % 2000);
        default:
            return static_cast<std::int64_t>(random() % 40);
    }
}

/// Allreduces and messages are drawn more often than other operations.
WorkKind draw_kind(std::mt19937& random) {
    static constexpr std::array kOften = {WorkKind::allreduce, WorkKind::allreduce, WorkKind::allreduce,
                                          WorkKind::message};
    constexpr auto kKinds = static_cast<std::size_t>(WorkKind::message) + 1;
    const std::size_t drawn = random() % (kKinds + kOften.size());
    return drawn < kKinds ? static_cast<WorkKind>(drawn) : kOften[drawn - kKinds];
}

ReduceOp draw_reduction(std::mt19937& random, WorkKind kind, DType dtype) {
    static constexpr std::array kOps = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                                        ReduceOp::product};
    if (dtype == DType::boolean) {
        return kOps[2 + random() % 3];
    }
    const bool is_float =
        dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
    const bool is_adasum = kind == WorkKind::allreduce && is_float && random() % 4 == 0;
    return is_adasum ? ReduceOp::adasum : kOps[random() % kOps.size()];
}

}  // namespace

Draw draw_operation(std::mt19937& random, std::size_t sets) {
    Draw draw;
    Work& work = draw.work;
    work.kind = draw_kind(random);
    work.dtype = static_cast<DType>(random() % kDTypeCount);
    work.reduce.op = draw_reduction(random, work.kind, work.dtype);
    const bool can_be_compressed = (work.kind == WorkKind::allreduce || work.kind == WorkKind::grouped_allreduce) &&
                                   (work.dtype == DType::float32 || work.dtype == DType::float64) &&
                                   work.reduce.op != ReduceOp::adasum;
    work.reduce.compression = can_be_compressed ? static_cast<Compression>(random() % 3) : Compression::none;
    work.rows = draw_rows(random);
    work.columns = 1 + static_cast<std::int64_t>(random() % 4);
    work.set = static_cast<int>(random() % sets);
    work.number = static_cast<int>(random() % 1'000'000);
    draw.blocks = random() % 8 == 0;
    draw.is_mismatch = random() % 64 == 0;
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
