// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes what the ranks of a sparse allreduce gather: places (indices of elements or rows), values, and options. The
// input supplies the other ranks' data. The data must be refused, or the sums must equal those of a simple table.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/operations/sparse.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;
using fuzz::expect;
using fuzz::Input;
using Numbers = std::vector<std::int64_t>;

const Numbers kShape{5, 4, 2};
const std::vector<int> kRanks{0, 3, 4};

/// Makes this rank's contribution: values at two places of a tensor of shape kShape. Each place has `along` indices,
/// one for each of the first `along` dimensions.
std::unique_ptr<SparseAllreduce> make_own(std::size_t along, const std::vector<std::int64_t>& values) {
    static const std::vector<std::int32_t> indices{4, 1, 1, 3};
    const Numbers extents{2, static_cast<std::int64_t>(along)};
    Numbers value_extents{2};
    value_extents.insert(value_extents.end(), kShape.begin() + static_cast<std::ptrdiff_t>(along), kShape.end());
    const rueda_tensor places{const_cast<std::int32_t*>(indices.data()), extents.data(), 2, RUEDA_INT32};
    const rueda_tensor given{const_cast<std::int64_t*>(values.data()), value_extents.data(),
                             static_cast<std::int32_t>(value_extents.size()), RUEDA_INT64};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = RUEDA_SUM;
    auto made = SparseAllreduce::make(places, given, kShape, options);
    expect(made.is_ok());
    made.value()->belongs_to("w", kRanks);
    return std::move(made).value();
}

/// Fills the output with as many bytes as its shape requires, like an allgather.
void fill(Completion::Output& output, Numbers shape, const Numbers& numbers) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) {
        count *= static_cast<std::size_t>(extent);
    }
    expect(count == numbers.size());
    output.memory.reset(static_cast<std::byte*>(std::malloc(std::max<std::size_t>(count * sizeof(std::int64_t), 1))));
    if (count > 0) {
        std::memcpy(output.memory.get(), numbers.data(), count * sizeof(std::int64_t));
    }
    output.shape = std::move(shape);
    output.dtype = DType::int64;
}

struct Gathered {
    std::size_t along = 1;
    Numbers places;
    std::size_t rows = 0;      ///< number of value rows
    std::size_t elements = 1;  ///< number of elements of a row
    Numbers values;
};

Gathered read(Input& input) {
    Gathered read;
    const auto choice = input.take<std::uint8_t>();
    read.along = choice % 2 + 1;
    read.elements = read.along == 1 ? 8 : 2;
    read.places.resize(input.take<std::uint8_t>() % 24);
    read.rows = input.take<std::uint8_t>() % 24;
    for (std::int64_t& place : read.places) {
        place = input.take<std::int64_t>();
    }
    for (std::size_t i = 0; i < read.rows * read.elements; ++i) {
        read.values.push_back(static_cast<std::int64_t>(i * i) + 1);
    }
    return read;
}

std::map<std::int64_t, Numbers> table_of(const Gathered& gathered) {
    std::map<std::int64_t, Numbers> table;
    for (std::size_t i = 0; i < gathered.places.size(); ++i) {
        Numbers& sums = table[gathered.places[i]];
        sums.resize(gathered.elements);
        for (std::size_t j = 0; j < gathered.elements; ++j) {
            sums[j] += gathered.values[i * gathered.elements + j];
        }
    }
    return table;
}

void compare(const Gathered& gathered, const Completion::Output& places, const Completion::Output& sums) {
    const auto table = table_of(gathered);
    expect(places.shape == Numbers{static_cast<std::int64_t>(table.size()), static_cast<std::int64_t>(gathered.along)});
    expect(sums.shape.front() == static_cast<std::int64_t>(table.size()));
    const auto* index = reinterpret_cast<const std::int64_t*>(places.memory.get());
    const auto* sum = reinterpret_cast<const std::int64_t*>(sums.memory.get());
    for (const auto& [place, row] : table) {
        std::int64_t number = 0;
        for (std::size_t i = 0; i < gathered.along; ++i, ++index) {
            expect(*index >= 0 && *index < kShape[i]);
            number = number * kShape[i] + *index;
        }
        expect(number == place);
        expect(std::equal(row.begin(), row.end(), sum));
        sum += row.size();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    const Gathered gathered = read(input);
    const Numbers own_values(16, 1);
    const auto sparse = make_own(gathered.along, own_values);
    const rueda_tensor row = sparse->members()[2];
    const auto* const asked = static_cast<const std::int64_t*>(row.data);
    const auto length = static_cast<std::size_t>(row.shape[1]);

    Completion completion;
    completion.make_room(SparseAllreduce::kMembers);
    fill(completion.output(0), {static_cast<std::int64_t>(gathered.places.size())}, gathered.places);
    Numbers value_shape{static_cast<std::int64_t>(gathered.rows)};
    value_shape.insert(value_shape.end(), kShape.begin() + static_cast<std::ptrdiff_t>(gathered.along), kShape.end());
    fill(completion.output(1), value_shape, gathered.values);
    // The other ranks have the same options as this rank, unless the rest of the input changes them.
    Numbers rows;
    for (std::size_t i = 0; i < kRanks.size() * length; ++i) {
        const bool is_said = i >= length && !input.empty();
        rows.push_back(asked[i % length] ^ (is_said ? input.take<std::int64_t>() : 0));
    }
    const bool is_same = std::equal(rows.begin() + static_cast<std::ptrdiff_t>(length), rows.end(), rows.begin());
    fill(completion.output(2), {static_cast<std::int64_t>(kRanks.size()), static_cast<std::int64_t>(length)}, rows);

    const Status agreed = sparse->agreed(completion);
    expect(agreed.code() == (is_same ? ErrorCode::ok : ErrorCode::mismatch));
    expect(agreed.message().find('\n') == std::string::npos);
    const std::int64_t most = gathered.along == 1 ? 5 : 20;
    const bool can_be = gathered.rows == gathered.places.size() &&
                        std::all_of(gathered.places.begin(), gathered.places.end(),
                                    [most](std::int64_t place) { return place >= 0 && place < most; });
    const auto places = sparse->result(completion, 0);
    expect(places.is_ok() == (is_same && can_be));
    if (places.is_ok()) {
        compare(gathered, *places.value(), *sparse->result(completion, 1).value());
    } else {
        expect(places.status().code() == (is_same ? ErrorCode::internal : ErrorCode::mismatch));
    }
    return 0;
}
