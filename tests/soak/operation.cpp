// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/soak/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace rueda::tests {
namespace {

constexpr std::size_t kGroup = 3;

/// Calls `use` with a value of the C++ type of `dtype`.
template <class Use>
void with_type(DType dtype, Use&& use) {
    switch (dtype) {
        case DType::uint8:
            return use(std::uint8_t{});
        case DType::int8:
            return use(std::int8_t{});
        case DType::int16:
            return use(std::int16_t{});
        case DType::uint16:
            return use(std::uint16_t{});
        case DType::uint32:
            return use(std::uint32_t{});
        case DType::uint64:
            return use(std::uint64_t{});
        case DType::int32:
            return use(std::int32_t{});
        case DType::int64:
            return use(std::int64_t{});
        case DType::float32:
            return use(float{});
        case DType::float64:
            return use(double{});
        default:
            throw std::logic_error("draw_operation() draws no such dtype");
    }
}

}  // namespace

RunningOperation::RunningOperation(const Draw& draw, const Members& members, const std::string& name, bool resident)
    : draw_(draw), members_(members), name_(name) {
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
    with_type(draw_.dtype, [&](auto zero) {
        auto* const values = static_cast<decltype(zero)*>(tensor.data());
        for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
            values[i] = static_cast<decltype(zero)>(value(members_.position, i));
        }
    });
    return tensor;
}

int RunningOperation::value(int member, std::int64_t index) const {
    return value_at(draw_, members_.ranks[static_cast<std::size_t>(member)], index);
}

int RunningOperation::reduced(std::int64_t index) const {
    int result = value(0, index);
    for (int member = 1; member < members(); ++member) {
        const int other = value(member, index);
        result = draw_.op == ReduceOp::sum   ? result + other
                 : draw_.op == ReduceOp::min ? std::min(result, other)
                                             : std::max(result, other);
    }
    return result;
}

int RunningOperation::root() const { return members_.ranks[draw_.salt % members_.ranks.size()]; }

void RunningOperation::start(bool resident) {
    const Options options{.process_set = members_.set};
    switch (draw_.kind) {
        case Kind::allreduce:
            return start_allreduce(resident);
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
    const AllreduceOptions options{.op = draw_.op, .process_set = members_.set};
    tensors_.push_back(input(draw_.rows, resident));
    if (draw_.blocking) {
        allreduce(name_, view(tensors_[0]), options);
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
    handle_ = grouped_allreduce_async(name_, views, {.op = draw_.op, .process_set = members_.set});
}

/// The last member brings a row more than the others.
void RunningOperation::start_mismatch() {
    const bool differs = members_.position == members() - 1;
    tensors_.push_back(input(draw_.rows + (differs ? 1 : 0), false));
    handle_ = allreduce_async(name_, view(tensors_[0]), {.op = draw_.op, .process_set = members_.set});
}

/// As many rows for every member as the two of them make, so that each knows what all of them send.
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

void RunningOperation::finish() {
    if (draw_.kind == Kind::mismatch && members() > 1) {
        try {
            handle_.wait();
        } catch (const Mismatch&) {
            return;
        }
        wrong("members of different shapes were not refused");
    }
    handle_.wait();
    const bool is_root = root() == members_.ranks[static_cast<std::size_t>(members_.position)];
    if ((draw_.kind == Kind::gather || draw_.kind == Kind::reduce) && !is_root) {
        return;  // the result is the root's
    }
    if (draw_.kind == Kind::allgather || draw_.kind == Kind::gather || draw_.kind == Kind::alltoall ||
        draw_.kind == Kind::reducescatter) {
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
        default:
            break;
    }
    std::vector<int> right(static_cast<std::size_t>(tensors_[tensor].shape.elements()));
    for (std::size_t i = 0; i < right.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        right[i] = draw_.kind == Kind::broadcast ? value_at(draw_, root(), index) : reduced(index);
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

/// The first members get one row more where the rows cannot be shared evenly.
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
    with_type(draw_.dtype, [&](auto zero) {
        const auto* const values = static_cast<const decltype(zero)*>(data);
        for (std::size_t i = 0; i < right.size(); ++i) {
            if (values[i] != static_cast<decltype(zero)>(right[i])) {
                wrong(fmt::format("element {} of {} is {}, expected {}", i, right.size(), +values[i], right[i]));
            }
        }
    });
}

void RunningOperation::wrong(const std::string& what) const {
    throw std::runtime_error(fmt::format("'{}' (kind {}, {}, {}, {} members, {} x {}): {}", name_,
                                         static_cast<int>(draw_.kind), name_of(draw_.dtype), name_of(draw_.op),
                                         members(), draw_.rows, draw_.columns, what));
}

}  // namespace rueda::tests
