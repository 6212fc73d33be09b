// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/soak/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace rueda::tests {
namespace {

constexpr std::size_t kGroup = 3;

/// Returns the binary16 (float16) bits of a small integer.
std::uint16_t half_of(int value) {
    if (value == 0) {
        return 0;
    }
    const int exponent = std::ilogb(value);
    return static_cast<std::uint16_t>((exponent + 15) << 10 | ((value << 10 >> exponent) & 0x3FF));
}
int value_of_half(std::uint16_t bits) {
    return bits == 0 ? 0 : static_cast<int>(std::ldexp((bits & 0x3FF) | 0x400, (bits >> 10) - 25));
}
/// A bfloat16 is the upper half of a float32.
std::uint16_t bfloat16_of(int value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U);
}
int value_of_bfloat16(std::uint16_t bits) { return static_cast<int>(std::bit_cast<float>(std::uint32_t{bits} << 16U)); }

/// Returns element `index`, which must be a small non-negative integer, because the inputs cannot give another result.
template <class T>
int get(const void* data, std::size_t index) {
    return static_cast<int>(static_cast<const T*>(data)[index]);
}
int element(DType dtype, const void* data, std::size_t index) {
    switch (dtype) {
        case DType::boolean:
        case DType::uint8:
            return get<std::uint8_t>(data, index);
        case DType::int8:
            return get<std::int8_t>(data, index);
        case DType::int16:
            return get<std::int16_t>(data, index);
        case DType::uint16:
            return get<std::uint16_t>(data, index);
        case DType::int32:
            return get<std::int32_t>(data, index);
        case DType::uint32:
            return get<std::uint32_t>(data, index);
        case DType::int64:
            return get<std::int64_t>(data, index);
        case DType::uint64:
            return get<std::uint64_t>(data, index);
        case DType::float16:
            return value_of_half(static_cast<const std::uint16_t*>(data)[index]);
        case DType::bfloat16:
            return value_of_bfloat16(static_cast<const std::uint16_t*>(data)[index]);
        case DType::float32:
            return get<float>(data, index);
        case DType::float64:
            return get<double>(data, index);
    }
    throw std::logic_error("a draw of unknown dtype");
}

/// Returns the bytes of a small non-negative integer.
std::uint64_t bits_of(DType dtype, int value) {
    switch (dtype) {
        case DType::float16:
            return half_of(value);
        case DType::bfloat16:
            return bfloat16_of(value);
        case DType::float32:
            return std::bit_cast<std::uint32_t>(static_cast<float>(value));
        case DType::float64:
            return std::bit_cast<std::uint64_t>(static_cast<double>(value));
        default:
            return static_cast<std::uint64_t>(value);  // assumes a little-endian machine
    }
}
static_assert(std::endian::native == std::endian::little);

}  // namespace

RunningOperation::RunningOperation(const Draw& draw, const Members& members, const std::string& name, std::int32_t tag,
                                   bool resident)
    : draw_(draw), members_(members), name_(name), tag_(tag) {
    start(resident);
}

RunningOperation::Tensor RunningOperation::make(const Shape& shape, bool resident) const {
    Tensor tensor;
    tensor.shape = shape;
    tensor.bytes = static_cast<std::size_t>(shape.elements()) * size_of(draw_.dtype);
    if (resident && tensor.bytes > 0) {
        tensor.resident.reset(allocate(tensor.bytes));
    } else {
        tensor.own = std::make_unique<Bytes>(tensor.bytes);
    }
    return tensor;
}

RunningOperation::Tensor RunningOperation::input(std::int64_t rows, bool resident) const {
    Tensor tensor = make({rows, draw_.columns}, resident);
    const std::size_t element_bytes = size_of(draw_.dtype);
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
        const std::uint64_t bits = bits_of(draw_.dtype, value(members_.position, i));
        std::memcpy(static_cast<std::byte*>(tensor.data()) + static_cast<std::size_t>(i) * element_bytes, &bits,
                    element_bytes);
    }
    return tensor;
}

/// Returns a member's value. In an Adasum, either all members have the same values, so that the result is their
/// average. Or each element is nonzero on one member only, so that the vectors are orthogonal and the result is their
/// sum.
int RunningOperation::value(int member, std::int64_t index) const {
    if (draw_.kind == Kind::adasum) {
        const bool is_own = draw_.salt % 2 == 0 || index % members() == member;
        return is_own ? value_at(draw_, 0, index) : 0;
    }
    return value_at(draw_, members_.ranks[static_cast<std::size_t>(member)], index);
}

int RunningOperation::reduced(std::int64_t index) const {
    int result = value(0, index);
    for (int member = 1; member < members(); ++member) {
        const int other = value(member, index);
        result = draw_.op == ReduceOp::sum       ? result + other
                 : draw_.op == ReduceOp::product ? result * other
                 : draw_.op == ReduceOp::min     ? std::min(result, other)
                                                 : std::max(result, other);
    }
    return result;
}

int RunningOperation::neighbour(int distance) const {
    return members_.ranks[static_cast<std::size_t>((members_.position + members() + distance) % members())];
}

int RunningOperation::root() const { return members_.ranks[draw_.salt % members_.ranks.size()]; }

void RunningOperation::start(bool resident) {
    const Options options{.process_set = members_.set};
    switch (draw_.kind) {
        case Kind::allreduce:
        case Kind::adasum:
            return start_allreduce(resident);
        case Kind::scatter:
            return start_scatter();
        case Kind::message:
            return start_message(resident);
        case Kind::grouped:
            return start_group(resident);
        case Kind::mismatch:
            return start_mismatch();
        case Kind::alltoall:
            return start_alltoall();
        case Kind::broadcast:
            tensors_.push_back(input(draw_.rows, resident));
            handle_ = broadcast_async(name_, view(tensors_[0]), root(), options);
            return;
        case Kind::allgather:
            tensors_.push_back(input(draw_.rows_of(members_.position), resident));
            handle_ = allgather_async(name_, view(tensors_[0]), options);
            return;
        case Kind::gather:
            tensors_.push_back(input(draw_.rows_of(members_.position), resident));
            handle_ = gather_async(name_, view(tensors_[0]), root(), options);
            return;
        case Kind::reduce:
            tensors_.push_back(input(draw_.rows, resident));
            handle_ = reduce_async(name_, view(tensors_[0]), root(), {.op = draw_.op, .process_set = members_.set});
            return;
        case Kind::reducescatter:
            tensors_.push_back(input(draw_.rows, resident));
            handle_ = reducescatter_async(name_, view(tensors_[0]), {.op = draw_.op, .process_set = members_.set});
            return;
    }
}

void RunningOperation::start_allreduce(bool resident) {
    const AllreduceOptions options{.op = draw_.op, .process_set = members_.set, .compression = draw_.compression};
    tensors_.push_back(input(draw_.rows, resident));
    if (draw_.blocking) {
        allreduce(name_, view(tensors_[0]), options);
        has_finished_ = true;
    } else {
        handle_ = allreduce_async(name_, view(tensors_[0]), options);
    }
}

void RunningOperation::start_group(bool resident) {
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < kGroup; ++i) {
        tensors_.push_back(input(draw_.rows, resident && i != 1));
        views.push_back(view(tensors_.back()));
    }
    handle_ = grouped_allreduce_async(name_, views,
                                      {.op = draw_.op, .process_set = members_.set, .compression = draw_.compression});
}

/// Makes a mismatch: the last member has one more row than the others.
void RunningOperation::start_mismatch() {
    const bool differs = members_.position == members() - 1;
    tensors_.push_back(input(draw_.rows + (differs ? 1 : 0), false));
    handle_ = allreduce_async(name_, view(tensors_[0]), {.op = draw_.op, .process_set = members_.set});
}

/// Returns the numbers of rows that a member sends in an alltoall. Every member can compute them for all members.
std::vector<std::int64_t> RunningOperation::splits_of(int member) const {
    std::vector<std::int64_t> splits;
    for (int to = 0; to < members(); ++to) {
        splits.push_back(draw_.rows_of(member * 3 + to) % 1000);
    }
    return splits;
}

void RunningOperation::start_alltoall() {
    const std::vector<std::int64_t> splits = splits_of(members_.position);
    std::int64_t rows = 0;
    for (const std::int64_t split : splits) {
        rows += split;
    }
    tensors_.push_back(input(rows, false));
    handle_ = alltoall_async(name_, view(tensors_[0]), splits, {.process_set = members_.set});
}

/// The root sends each member the rows that it would send in an alltoall.
void RunningOperation::start_scatter() {
    const bool is_root = root() == members_.ranks[static_cast<std::size_t>(members_.position)];
    const std::vector<std::int64_t> splits = splits_of(members_.position);
    tensors_.push_back(input(is_root ? std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) : 0, false));
    handle_ = scatter_async(name_, view(tensors_[0]), splits, root(), {.process_set = members_.set});
}

void RunningOperation::start_message(bool resident) {
    const Options options{.process_set = members_.set};
    tensors_.push_back(input(draw_.rows, resident));
    tensors_.push_back(make({draw_.rows, draw_.columns}, !resident));
    // No other message uses this tag, so any sender is the right one.
    const int from = draw_.salt % 3 == 0 ? any_peer : neighbour(-1);
    handle_ = receive_async(view(tensors_[1]), from, tag_, options);
    sent_ = send_async(view(tensors_[0]), neighbour(1), tag_, options);
}

void RunningOperation::finish() {
    if (draw_.kind == Kind::mismatch && members() > 1) {
        try {
            handle_.wait();
        } catch (const Mismatch&) {
            return;
        }
        wrong("members of different shapes were not refused");
    }
    if (!has_finished_) {
        handle_.wait();
    }
    if (draw_.kind == Kind::message) {
        sent_.wait();
        if (handle_.sender() != neighbour(-1)) {
            wrong(fmt::format("it came from rank {}, expected {}", handle_.sender(), neighbour(-1)));
        }
        return compare(tensors_[1].data(), tensors_[1].shape.elements(), expected_message());
    }
    const bool is_root = root() == members_.ranks[static_cast<std::size_t>(members_.position)];
    if ((draw_.kind == Kind::gather || draw_.kind == Kind::reduce) && !is_root) {
        return;  // only the root has a result
    }
    if (draw_.kind == Kind::allgather || draw_.kind == Kind::gather || draw_.kind == Kind::alltoall ||
        draw_.kind == Kind::reducescatter || draw_.kind == Kind::scatter) {
        const TensorView output = handle_.output();
        return compare(output.data(), output.shape().elements(), expected(0));
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        compare(tensors_[i].data(), tensors_[i].shape.elements(), expected(i));
    }
}

std::vector<int> RunningOperation::expected(std::size_t tensor) const {
    switch (draw_.kind) {
        case Kind::allgather:
        case Kind::gather:
            return expected_rows_of_all();
        case Kind::alltoall:
            return expected_from_alltoall();
        case Kind::reducescatter:
            return expected_share();
        case Kind::scatter:
            return expected_from_scatter();
        default:
            break;
    }
    std::vector<int> right(static_cast<std::size_t>(tensors_[tensor].shape.elements()));
    for (std::size_t i = 0; i < right.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        right[i] = draw_.kind == Kind::broadcast ? value_at(draw_, root(), index)
                   : draw_.kind == Kind::adasum  ? value_at(draw_, 0, index)
                                                 : reduced(index);
    }
    return right;
}

std::vector<int> RunningOperation::expected_rows_of_all() const {
    std::vector<int> right;
    for (int member = 0; member < members(); ++member) {
        for (std::int64_t i = 0; i < draw_.rows_of(member) * draw_.columns; ++i) {
            right.push_back(value(member, i));
        }
    }
    return right;
}

std::vector<int> RunningOperation::expected_from_alltoall() const {
    std::vector<int> right;
    for (int member = 0; member < members(); ++member) {
        const std::vector<std::int64_t> splits = splits_of(member);
        const auto before = splits.begin() + members_.position;
        std::int64_t begin = 0;
        for (auto split = splits.begin(); split != before; ++split) {
            begin += *split;
        }
        for (std::int64_t i = begin * draw_.columns; i < (begin + *before) * draw_.columns; ++i) {
            right.push_back(value(member, i));
        }
    }
    return right;
}

std::vector<int> RunningOperation::expected_from_scatter() const {
    const auto member = std::find(members_.ranks.begin(), members_.ranks.end(), root()) - members_.ranks.begin();
    const std::vector<std::int64_t> splits = splits_of(static_cast<int>(member));
    const auto mine = splits.begin() + members_.position;
    const std::int64_t begin = std::accumulate(splits.begin(), mine, std::int64_t{0});
    std::vector<int> right;
    for (std::int64_t i = begin * draw_.columns; i < (begin + *mine) * draw_.columns; ++i) {
        right.push_back(value(static_cast<int>(member), i));
    }
    return right;
}

std::vector<int> RunningOperation::expected_message() const {
    std::vector<int> right;
    for (std::int64_t i = 0; i < draw_.rows * draw_.columns; ++i) {
        right.push_back(value((members_.position + members() - 1) % members(), i));
    }
    return right;
}

/// Returns the expected rows of a reducescatter. If the rows cannot be divided evenly, the first members get one more.
std::vector<int> RunningOperation::expected_share() const {
    const std::int64_t each = draw_.rows / members();
    const std::int64_t more = draw_.rows % members();
    const std::int64_t position = members_.position;
    const std::int64_t begin = position * each + std::min(position, more);
    const std::int64_t rows = each + (position < more ? 1 : 0);
    std::vector<int> right;
    for (std::int64_t i = begin * draw_.columns; i < (begin + rows) * draw_.columns; ++i) {
        right.push_back(reduced(i));
    }
    return right;
}

void RunningOperation::compare(const void* data, std::int64_t elements, const std::vector<int>& right) const {
    if (elements != static_cast<std::int64_t>(right.size())) {
        wrong(fmt::format("{} elements came, expected {}", elements, right.size()));
    }
    const std::size_t element_bytes = size_of(draw_.dtype);
    for (std::size_t i = 0; i < right.size(); ++i) {
        const std::uint64_t bits = bits_of(draw_.dtype, right[i]);
        if (std::memcmp(static_cast<const std::byte*>(data) + i * element_bytes, &bits, element_bytes) != 0) {
            wrong(fmt::format("element {} of {} is about {}, expected {}", i, right.size(),
                              element(draw_.dtype, data, i), right[i]));
        }
    }
}

void RunningOperation::wrong(const std::string& what) const {
    throw std::runtime_error(fmt::format("'{}' (kind {}, {}, {}, {} members, {} x {}): {}", name_,
                                         static_cast<int>(draw_.kind), name_of(draw_.dtype), name_of(draw_.op),
                                         members(), draw_.rows, draw_.columns, what));
}

}  // namespace rueda::tests
