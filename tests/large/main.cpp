// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// large_rank runs every operation with more than 2^31 elements and, where possible, with more than 4 GiB of data.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"

namespace rueda::tests {
namespace {

constexpr std::int64_t k2Gi = std::int64_t{1} << 31;
constexpr std::int64_t k4Gi = std::int64_t{1} << 32;

/// Returns the value at a position of a rank's input. The values at two positions differ if the distance is a power of
/// two up to 2^47, so that a truncated offset gives wrong values.
std::uint8_t value_at(int rank, std::int64_t position) {
    const std::uint64_t mixed = (static_cast<std::uint64_t>(position) + 1) * 0x9E3779B97F4A7C15U;
    return static_cast<std::uint8_t>((mixed >> 40U) + static_cast<std::uint64_t>(rank) * 37U);
}

/// Memory that is not initialised, so that an output uses no pages before Rueda writes it.
class Bytes {
public:
    explicit Bytes(std::int64_t count)
        : data_(static_cast<std::uint8_t*>(::operator new(static_cast<std::size_t>(count)))), count_(count) {}
    [[nodiscard]] TensorView view() const { return {data_.get(), DType::uint8, {count_}}; }
    [[nodiscard]] std::uint8_t* data() const { return data_.get(); }

private:
    struct Delete {
        void operator()(std::uint8_t* memory) const { ::operator delete(memory); }
    };
    std::unique_ptr<std::uint8_t, Delete> data_;
    std::int64_t count_;
};

void fill(std::uint8_t* data, std::int64_t count) {
    const int mine = rank();
    for (std::int64_t i = 0; i < count; ++i) {
        data[i] = value_at(mine, i);
    }
}

Bytes input(std::int64_t count) {
    Bytes bytes(count);
    fill(bytes.data(), count);
    return bytes;
}

template <class Expected>
void check(const char* what, const std::uint8_t* data, std::int64_t count, Expected&& expected) {
    for (std::int64_t i = 0; i < count; ++i) {
        if (const std::uint8_t value = expected(i); data[i] != value) [[unlikely]] {
            throw std::runtime_error(
                fmt::format("{}: element {} of {} is {}; expected {}", what, i, count, data[i], value));
        }
    }
}

void check_sums(const char* what, const std::uint8_t* data, std::int64_t count, std::int64_t first = 0) {
    const int ranks = size();
    check(what, data, count, [=](std::int64_t i) {
        unsigned sum = 0;
        for (int r = 0; r < ranks; ++r) {
            sum += value_at(r, first + i);
        }
        return static_cast<std::uint8_t>(sum);
    });
}

const AllreduceOptions kSum{.op = ReduceOp::sum};

void allreduce_staged() {
    const Bytes tensor = input(k4Gi + 3);
    allreduce("large.allreduce", tensor.view(), kSum);
    check_sums("allreduce", tensor.data(), k4Gi + 3);
}

void allreduce_resident() {
    std::vector<std::uint8_t, Allocator<std::uint8_t>> tensor(static_cast<std::size_t>(k4Gi + 3));
    fill(tensor.data(), k4Gi + 3);
    allreduce("large.resident", tensor, kSum);
    check_sums("resident allreduce", tensor.data(), k4Gi + 3);
}

void reduce_to_root() {
    const Bytes tensor = input(k4Gi + 3);
    reduce("large.reduce", tensor.view(), 1, kSum);
    if (rank() == 1) {
        check_sums("reduce", tensor.data(), k4Gi + 3);
    }
}

void broadcast_from_root() {
    const Bytes tensor = input(k4Gi + 3);
    broadcast("large.broadcast", tensor.view(), 1);
    check("broadcast", tensor.data(), k4Gi + 3, [](std::int64_t i) { return value_at(1, i); });
}

void reducescatter_rows() {
    const Bytes in = input(k4Gi + 3);
    const std::int64_t mine = (k4Gi + 3) / size() + (rank() < (k4Gi + 3) % size() ? 1 : 0);
    std::int64_t before = 0;
    for (int r = 0; r < rank(); ++r) {
        before += (k4Gi + 3) / size() + (r < (k4Gi + 3) % size() ? 1 : 0);
    }
    const Bytes out(mine);
    reducescatter("large.reducescatter", in.view(), out.view(), kSum);
    check_sums("reducescatter", out.data(), mine, before);
}

/// Returns the number of rows of a rank. Each rank has one more row than the previous one, so that the offsets are
/// uneven.
std::int64_t rows_of(int rank) { return k2Gi + 5 + rank; }

void check_rows_of_all(const char* what, const std::uint8_t* data) {
    for (int r = 0; r < size(); ++r) {
        check(what, data, rows_of(r), [r](std::int64_t i) { return value_at(r, i); });
        data += rows_of(r);
    }
}

std::int64_t rows_of_all() {
    std::int64_t rows = 0;
    for (int r = 0; r < size(); ++r) {
        rows += rows_of(r);
    }
    return rows;
}

void allgather_rows() {
    const Bytes in = input(rows_of(rank()));
    const Bytes out(rows_of_all());
    allgather_into("large.allgather", in.view(), out.view());
    check_rows_of_all("allgather", out.data());
}

void gather_rows() {
    const Bytes in = input(rows_of(rank()));
    const Handle handle = gather("large.gather", in.view(), 0);
    if (rank() == 0) {
        check_rows_of_all("gather", static_cast<const std::uint8_t*>(handle.output().data()));
    }
}

/// Returns splits that give the last rank nearly all rows.
std::vector<std::int64_t> uneven_splits(std::int64_t rows) {
    std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), 3);
    splits.back() = rows - 3 * (size() - 1);
    return splits;
}

void alltoall_rows() {
    const std::int64_t rows = rows_of(rank());
    const Bytes in = input(rows);
    const Handle handle = alltoall("large.alltoall", in.view(), uneven_splits(rows));
    const auto* data = static_cast<const std::uint8_t*>(handle.output().data());
    for (int r = 0; r < size(); ++r) {
        const std::int64_t received = uneven_splits(rows_of(r))[static_cast<std::size_t>(rank())];
        check("alltoall", data, received, [r](std::int64_t i) { return value_at(r, 3 * rank() + i); });
        data += received;
    }
}

void scatter_rows() {
    const std::int64_t rows = k4Gi + 3;
    const Bytes in = rank() == 0 ? input(rows) : Bytes(1);
    const TensorView view = rank() == 0 ? in.view() : TensorView(nullptr, DType::uint8, {0});
    const Handle handle = scatter("large.scatter", view, uneven_splits(rows), 0);
    const std::int64_t mine = uneven_splits(rows)[static_cast<std::size_t>(rank())];
    check("scatter", static_cast<const std::uint8_t*>(handle.output().data()), mine,
          [](std::int64_t i) { return value_at(0, 3 * rank() + i); });
}

/// The tensors have fewer than 2^31 elements but more than 2^31 bytes, so that byte offsets need more than 32 bits.
void grouped_float32() {
    constexpr std::int64_t kEach = (k2Gi + 64) / 4;
    std::vector<float> a(kEach);
    std::vector<float> b(kEach);
    for (std::int64_t i = 0; i < kEach; ++i) {
        a[static_cast<std::size_t>(i)] = static_cast<float>(value_at(rank(), i));
        b[static_cast<std::size_t>(i)] = static_cast<float>(value_at(rank(), i + kEach));
    }
    const std::vector<TensorView> group = {TensorView(a), TensorView(b)};
    grouped_allreduce("large.group", group, kSum);
    for (std::int64_t i = 0; i < kEach; ++i) {
        float sum_a = 0;
        float sum_b = 0;
        for (int r = 0; r < size(); ++r) {
            sum_a += static_cast<float>(value_at(r, i));
            sum_b += static_cast<float>(value_at(r, i + kEach));
        }
        if (a[static_cast<std::size_t>(i)] != sum_a || b[static_cast<std::size_t>(i)] != sum_b) {
            throw std::runtime_error(fmt::format("grouped allreduce: element {} is wrong", i));
        }
    }
}

struct Case {
    const char* name;
    std::function<void()> run;
};

void run_all() {
    const std::vector<Case> cases = {{"allreduce", allreduce_staged},
                                     {"allreduce of resident memory", allreduce_resident},
                                     {"grouped allreduce", grouped_float32},
                                     {"reduce", reduce_to_root},
                                     {"broadcast", broadcast_from_root},
                                     {"reducescatter", reducescatter_rows},
                                     {"allgather", allgather_rows},
                                     {"gather", gather_rows},
                                     {"alltoall", alltoall_rows},
                                     {"scatter", scatter_rows}};
    for (const Case& one : cases) {
        one.run();
        barrier();  // after this barrier, all ranks have freed their memory, so the next case may allocate
        if (rank() == 0) {
            fmt::print("{}: right\n", one.name);
            std::fflush(stdout);
        }
    }
}

}  // namespace
}  // namespace rueda::tests

int main() {
    try {
        rueda::init();
        rueda::tests::run_all();
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "large_rank: {}\n", error.what());
        return 1;
    }
}
