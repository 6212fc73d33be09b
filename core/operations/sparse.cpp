// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/sparse.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/floating_point.hpp"
#include "base/text.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {
namespace {

std::string text_of(std::span<const std::int64_t> shape) {
    return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

/// A description of a request begins with this number of values: the reduction and the two factors. The shape follows.
constexpr std::size_t kRowHead = 3;

std::string text_of_row(std::span<const std::int64_t> row) {
    const auto prescale = std::bit_cast<double>(row[1]);
    const auto postscale = std::bit_cast<double>(row[2]);
    const auto op = std::in_range<std::int32_t>(row[0]) ? static_cast<ReduceOp>(row[0]) : ReduceOp{-1};
    return fmt::format("{}{} of shape {}", name_of(op),
                       prescale == 1.0 && postscale == 1.0
                           ? std::string()
                           : fmt::format(" with the factors {} and {}", prescale, postscale),
                       text_of(row.subspan(kRowHead)));
}

bool is_integer(std::int32_t dtype) {
    return size_of(static_cast<DType>(dtype)) != 0 && dtype != RUEDA_BOOL &&
           !ops::is_floating_point(static_cast<DType>(dtype));
}

template <class T>
std::int64_t widened(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value)
                                              : std::numeric_limits<std::int64_t>::max();
}

/// Returns element `i` of a tensor of integers. If the value does not fit into a signed 64-bit number, returns the
/// largest such number, which is never a valid index.
std::int64_t integer_at(const rueda_tensor& tensor, std::size_t i) {
    const auto dtype = static_cast<DType>(tensor.dtype);
    const std::byte* const at = static_cast<const std::byte*>(tensor.data) + i * size_of(dtype);
    switch (dtype) {
        case DType::uint8:
            return widened<std::uint8_t>(at);
        case DType::int8:
            return widened<std::int8_t>(at);
        case DType::int16:
            return widened<std::int16_t>(at);
        case DType::uint16:
            return widened<std::uint16_t>(at);
        case DType::int32:
            return widened<std::int32_t>(at);
        case DType::uint32:
            return widened<std::uint32_t>(at);
        case DType::uint64:
            return widened<std::uint64_t>(at);
        default:
            return widened<std::int64_t>(at);
    }
}

Status check_options(const rueda_options& options) {
    if (options.reduce_op < RUEDA_AVERAGE || options.reduce_op > RUEDA_PRODUCT) {
        return failure(ErrorCode::invalid_argument,
                       "the reduce operation of a sparse allreduce is {}; expected 0 (average) or 1 (sum)",
                       options.reduce_op);
    }
    return {};
}

/// Checks the tensor of the indices, or of the values. If the tensor has no elements, `data` may be null.
Status check_part(const rueda_tensor& tensor, const char* what) {
    if (tensor.ndim < 0 || tensor.ndim > RUEDA_MAX_DIMENSIONS || (tensor.ndim > 0 && tensor.shape == nullptr)) {
        return failure(ErrorCode::invalid_argument,
                       "the {} have {} dimensions{}; expected at most {}, and their extents", what, tensor.ndim,
                       tensor.ndim > 0 && tensor.shape == nullptr ? " and no shape" : "", RUEDA_MAX_DIMENSIONS);
    }
    const std::span extents(tensor.shape, static_cast<std::size_t>(tensor.ndim));
    if (std::any_of(extents.begin(), extents.end(), [](std::int64_t extent) { return extent < 0; })) {
        return failure(ErrorCode::invalid_argument, "the {} have the shape {}; expected extents from 0 on", what,
                       text_of(extents));
    }
    const bool is_empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
    return tensor.data != nullptr || is_empty
               ? Status()
               : failure(ErrorCode::invalid_argument, "the {} have the shape {} and no data (a null pointer)", what,
                         text_of(extents));
}

/// The largest number of positions that a tensor may have: each position is converted to one signed 64-bit number.
constexpr auto kMostPlaces = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Status check_whole(std::span<const std::int64_t> shape, std::size_t along) {
    const bool is_shape = std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent >= 0; });
    return is_shape && detail::count_of_elements(shape.first(along), kMostPlaces)
               ? Status()
               : failure(ErrorCode::invalid_argument,
                         "the shape is {}; expected extents from 0 on, and at most {} places along the first {}",
                         text_of(shape), kMostPlaces, along);
}

Result<Completion::Output> made_output(std::vector<std::int64_t> shape, DType dtype, std::size_t bytes) {
    Completion::Output output;
    output.memory.reset(static_cast<std::byte*>(std::malloc(std::max<std::size_t>(bytes, 1))));
    if (output.memory == nullptr) {
        return failure(ErrorCode::resource_exhausted, "there are no {} bytes of memory for the result", bytes);
    }
    output.shape = std::move(shape);
    output.dtype = dtype;
    return output;
}

std::span<const std::int64_t> numbers_of(const Completion::Output& output) {
    return {reinterpret_cast<const std::int64_t*>(output.memory.get()), static_cast<std::size_t>(output.shape.front())};
}

}  // namespace

Result<std::unique_ptr<SparseAllreduce>> SparseAllreduce::make(const rueda_tensor& indices, const rueda_tensor& values,
                                                               std::span<const std::int64_t> shape,
                                                               const rueda_options& options) {
    RUEDA_RETURN_IF_FAILED(check_options(options));
    RUEDA_RETURN_IF_FAILED(check_part(indices, "indices"));
    RUEDA_RETURN_IF_FAILED(check_part(values, "values"));
    if ((indices.ndim != 1 && indices.ndim != 2) || !is_integer(indices.dtype)) {
        return failure(ErrorCode::invalid_argument,
                       "the indices have {} dimensions and the dtype {}; expected whole numbers of shape [n] or [n, k]",
                       indices.ndim, name_of(static_cast<DType>(indices.dtype)));
    }
    const std::int64_t along = indices.ndim == 1 ? 1 : indices.shape[1];
    if (along < 1 || along > static_cast<std::int64_t>(shape.size())) {
        return failure(ErrorCode::invalid_argument,
                       "the indices are places along {} dimensions, and the shape {} has {}", along, text_of(shape),
                       shape.size());
    }
    std::unique_ptr<SparseAllreduce> made(new SparseAllreduce);
    made->along_ = static_cast<std::size_t>(along);
    RUEDA_RETURN_IF_FAILED(check_whole(shape, made->along_));
    const std::int64_t rows = indices.shape[0];
    made->values_shape_.push_back(rows);
    made->values_shape_.insert(made->values_shape_.end(), shape.begin() + along, shape.end());
    if (!std::equal(made->values_shape_.begin(), made->values_shape_.end(), values.shape, values.shape + values.ndim)) {
        return failure(ErrorCode::invalid_argument, "the values have the shape {}; expected {}, for {} places in {}",
                       text_of({values.shape, static_cast<std::size_t>(values.ndim)}), text_of(made->values_shape_),
                       rows, text_of(shape));
    }
    made->shape_.assign(shape.begin(), shape.end());
    made->op_ = static_cast<ReduceOp>(options.reduce_op);
    made->indices_ndim_ = indices.ndim;
    made->values_ = values;
    made->prescale_ = options.prescale;
    made->postscale_ = options.postscale;
    made->row_ = {options.reduce_op, std::bit_cast<std::int64_t>(options.prescale),
                  std::bit_cast<std::int64_t>(options.postscale)};
    made->row_.insert(made->row_.end(), shape.begin(), shape.end());
    made->row_shape_ = {1, static_cast<std::int64_t>(made->row_.size())};
    RUEDA_RETURN_IF_FAILED(made->number_places(indices));
    return made;
}

/// Converts each position to one number: the row-major index in the first dimensions of the tensor.
Status SparseAllreduce::number_places(const rueda_tensor& indices) {
    const auto rows = static_cast<std::size_t>(indices.shape[0]);
    places_.reserve(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        std::int64_t place = 0;
        for (std::size_t i = 0; i < along_; ++i) {
            const std::int64_t index = integer_at(indices, row * along_ + i);
            if (index < 0 || index >= shape_[i]) {
                return failure(ErrorCode::invalid_argument,
                               "the index {} lies outside of the shape {}; expected 0 to {}", index, text_of(shape_),
                               shape_[i] - 1);
            }
            place = place * shape_[i] + index;
        }
        places_.push_back(place);
    }
    places_shape_ = static_cast<std::int64_t>(rows);
    return {};
}

std::array<rueda_tensor, SparseAllreduce::kMembers> SparseAllreduce::members() const {
    // The operations only read these tensors, but the C interface has no type for constant data.
    rueda_tensor values = values_;
    values.shape = values_shape_.data();
    return {{{const_cast<std::int64_t*>(places_.data()), &places_shape_, 1, RUEDA_INT64},
             values,
             {const_cast<std::int64_t*>(row_.data()), row_shape_.data(), 2, RUEDA_INT64}}};
}

void SparseAllreduce::belongs_to(std::string group, std::vector<int> ranks) {
    group_ = std::move(group);
    ranks_ = std::move(ranks);
}

const Status& SparseAllreduce::agreed(Completion& gathered) noexcept {
    const std::lock_guard lock(mutex_);
    if (!agreed_) {
        try {
            agreed_ = compare_rows(gathered);
            if (agreed_->is_ok()) {
                agreed_ = check_possible();
            }
        } catch (const std::bad_alloc&) {
            agreed_ = Status(ErrorCode::resource_exhausted, "out of memory");
        }
    }
    return *agreed_;
}

Result<const Completion::Output*> SparseAllreduce::result(Completion& gathered, std::size_t index) {
    RUEDA_RETURN_IF_FAILED(agreed(gathered));
    const std::lock_guard lock(mutex_);
    if (!combined_) {
        combined_ = combine(gathered);
    }
    RUEDA_RETURN_IF_FAILED(*combined_);
    return &results_[index];
}

/// Checks that the descriptions of all ranks are equal. All ranks have gathered the same descriptions, so all ranks
/// return the same failure.
Status SparseAllreduce::compare_rows(Completion& gathered) const {
    const Completion::Output& rows = gathered.output(2);
    const std::size_t length = row_.size();
    if (rows.shape != std::vector{static_cast<std::int64_t>(ranks_.size()), static_cast<std::int64_t>(length)}) {
        return failure(ErrorCode::internal, "sparse allreduce '{}': {} ranks announced rows of shape {}", group_,
                       ranks_.size(), text_of(rows.shape));
    }
    std::map<std::vector<std::int64_t>, std::vector<std::int32_t>> ranks_of;
    const auto* const all = reinterpret_cast<const std::int64_t*>(rows.memory.get());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_of[{all + rank * length, all + (rank + 1) * length}].push_back(ranks_[rank]);
    }
    if (ranks_of.size() == 1) {
        return {};
    }
    std::map<std::int32_t, std::string> by_first_rank;
    for (const auto& [row, ranks] : ranks_of) {
        by_first_rank[ranks.front()] = base::format_ranks(ranks) + ": " + text_of_row(row);
    }
    std::string who;
    for (const auto& [rank, what] : by_first_rank) {
        who += (who.empty() ? "" : "; ") + what;
    }
    return failure(ErrorCode::mismatch, "sparse allreduce '{}': the ranks disagree: {}", group_, who);
}

/// Returns an error if the request is impossible. All ranks have made the same request, so all ranks get this error.
Status SparseAllreduce::check_possible() const {
    if (op_ != ReduceOp::sum && op_ != ReduceOp::average) {
        return failure(ErrorCode::invalid_argument,
                       "sparse allreduce '{}': the reduce operation is {}; expected sum or average", group_,
                       name_of(op_));
    }
    if (prescale_ != 1.0 || postscale_ != 1.0) {
        return failure(ErrorCode::unsupported,
                       "sparse allreduce '{}': it has the factors {} and {}; expected none: multiply the values",
                       group_, prescale_, postscale_);
    }
    if (values_.dtype == RUEDA_BOOL) {
        return failure(ErrorCode::unsupported,
                       "sparse allreduce '{}': there is no {} of bool; use an integer dtype to count", group_,
                       name_of(op_));
    }
    return {};
}

/// Checks the gathered data, which come from other processes.
Status SparseAllreduce::check_gathered(const Completion::Output& places, const Completion::Output& values) const {
    const auto most = static_cast<std::int64_t>(
        // the number of positions cannot overflow, because make() has checked it
        *detail::count_of_elements(std::span(shape_).first(along_), kMostPlaces));
    const auto all = numbers_of(places);
    const auto wrong = std::find_if(all.begin(), all.end(), [most](std::int64_t p) { return p < 0 || p >= most; });
    if (wrong != all.end() || values.shape.front() != places.shape.front()) {
        return failure(ErrorCode::internal,
                       "sparse allreduce '{}': the ranks announced {} places and {} values, and the place {}; expected "
                       "as many, and places from 0 to {}",
                       group_, places.shape.front(), values.shape.front(), wrong != all.end() ? *wrong : 0, most - 1);
    }
    return {};
}

Status SparseAllreduce::combine(Completion& gathered) {
    Completion::Output& places = gathered.output(0);
    Completion::Output& values = gathered.output(1);
    RUEDA_RETURN_IF_FAILED(check_gathered(places, values));
    const auto all = numbers_of(places);
    // Sorts the indices of all values by position. If positions are equal, the order of the ranks is kept.
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return all[a] < all[b]; });
    std::vector<std::int64_t> different;
    for (const std::size_t i : order) {
        if (different.empty() || different.back() != all[i]) {
            different.push_back(all[i]);
        }
    }
    RUEDA_RETURN_IF_FAILED(write_places(different));

    std::vector<std::int64_t> shape = values_shape_;
    shape.front() = static_cast<std::int64_t>(different.size());
    // The number of elements that belong to one position. The product cannot overflow, because the caller passed as
    // many elements for each position.
    const std::size_t elements = detail::count_of_elements(std::span(shape).subspan(1)).value_or(0);
    const std::size_t bytes = elements * size_of(values.dtype);
    Result<Completion::Output> sums = made_output(shape, values.dtype, different.size() * bytes);
    RUEDA_RETURN_IF_FAILED(sums.status());
    if (bytes > 0) {
        const base::DefaultFloatingPoint environment;
        const ops::Reduction reduction{.dtype = values.dtype, .op = op_, .divisor = static_cast<int>(ranks_.size())};
        std::vector<const std::byte*> sources;
        std::size_t next = 0;
        for (std::size_t i = 0; i < different.size(); ++i) {
            sources.clear();
            for (; next < order.size() && all[order[next]] == different[i]; ++next) {
                sources.push_back(values.memory.get() + order[next] * bytes);
            }
            std::byte* const sum = sums.value().memory.get() + i * bytes;
            ops::reduce(reduction, sources, std::span(&sum, 1), elements);
        }
    }
    results_[1] = std::move(sums).value();
    places.memory.reset();
    values.memory.reset();
    return {};
}

/// Writes the positions in the form of the caller's indices: with the shape [n] or [n, k].
Status SparseAllreduce::write_places(std::span<const std::int64_t> places) {
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(places.size())};
    if (indices_ndim_ == 2) {
        shape.push_back(static_cast<std::int64_t>(along_));
    }
    Result<Completion::Output> output =
        made_output(std::move(shape), DType::int64, places.size() * along_ * sizeof(std::int64_t));
    RUEDA_RETURN_IF_FAILED(output.status());
    auto* const indices = reinterpret_cast<std::int64_t*>(output.value().memory.get());
    for (std::size_t row = 0; row < places.size(); ++row) {
        std::int64_t rest = places[row];
        for (std::size_t i = along_; i-- > 0;) {
            indices[row * along_ + i] = rest % shape_[i];
            rest /= shape_[i];
        }
    }
    results_[0] = std::move(output).value();
    return {};
}

}  // namespace rueda::core
