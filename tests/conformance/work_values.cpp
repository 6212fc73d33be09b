// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Computes the expected results of work.hpp from the definitions. Integers are computed in 128 bits, and floats
// in long double, with bounds for their rounding errors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "collectives/rows.hpp"
#include "tests/conformance/work.hpp"
#include "tests/ops/adasum_reference.hpp"

namespace rueda::tests {
namespace {

__extension__ using Int128 = __int128;

template <class T>
T element_of(const Bytes& bytes, std::size_t index) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

bool is_float8(DType dtype) { return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2; }
bool is_float(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64 ||
           is_float8(dtype);
}

Int128 whole_of(DType dtype, const Bytes& bytes, std::size_t i) {
    switch (dtype) {
        case DType::boolean:
            return element_of<std::uint8_t>(bytes, i) != 0 ? 1 : 0;
        case DType::uint8:
            return element_of<std::uint8_t>(bytes, i);
        case DType::int8:
            return element_of<std::int8_t>(bytes, i);
        case DType::int16:
            return element_of<std::int16_t>(bytes, i);
        case DType::uint16:
            return element_of<std::uint16_t>(bytes, i);
        case DType::int32:
            return element_of<std::int32_t>(bytes, i);
        case DType::uint32:
            return element_of<std::uint32_t>(bytes, i);
        case DType::int64:
            return element_of<std::int64_t>(bytes, i);
        default:
            return element_of<std::uint64_t>(bytes, i);
    }
}

/// Returns the low bits of `value`, as many as a value of this type has.
std::uint64_t last_bits(DType dtype, Int128 value) {
    const std::size_t bits = 8 * size_of(dtype);
    const auto all = static_cast<std::uint64_t>(value);
    return bits == 64 ? all : all & ((std::uint64_t{1} << bits) - 1);
}

struct Bounded {
    long double value = 0;
    long double off = 0;  ///< the largest error that rounding can cause in the library's result
};

/// The errors of rounding to a type: relative (half a unit in the last place) and absolute (half of the smallest
/// number).
struct Rounding {
    long double relative = 0;
    long double least = 0;
};
Rounding rounding_of(DType dtype) {
    switch (dtype) {
        case DType::float16:
            return {std::ldexp(1.0L, -11), std::ldexp(1.0L, -25)};
        case DType::bfloat16:
            return {std::ldexp(1.0L, -8), std::ldexp(1.0L, -134)};
        case DType::float8_e4m3fn:
            return {std::ldexp(1.0L, -4), std::ldexp(1.0L, -10)};
        case DType::float8_e5m2:
            return {std::ldexp(1.0L, -3), std::ldexp(1.0L, -17)};
        case DType::float32:
            return {std::ldexp(1.0L, -24), 0};
        default:
            return {std::ldexp(1.0L, -53), 0};
    }
}

/// Computes the elements [first, first + count) of the result for one tensor.
class Reduction {
public:
    Reduction(const Work& work, const Place& place, std::vector<Bytes> inputs)
        : work_(work),
          place_(place),
          inputs_(std::move(inputs)),
          hosts_(place.members_of_hosts()),
          travels_as_16_bits_(work.reduce.compression != Compression::none && hosts_.size() > 1),
          narrow_(rounding_of(!travels_as_16_bits_                           ? work.dtype
                              : work.reduce.compression == Compression::fp16 ? DType::float16
                                                                             : DType::bfloat16)) {
        const bool is_narrow = is_float(work.dtype) && size_of(work.dtype) <= 2;
        step_ = rounding_of(is_narrow ? DType::float32 : work.dtype).relative;
        roundings_ = is_narrow || travels_as_16_bits_ ? static_cast<long double>(hosts_.size()) + 1 : 0;
        if (is_float(work.dtype)) {
            for (const Bytes& input : inputs_) {
                values_.push_back(ops::test::values_of(work.dtype, input));
            }
        }
        if (work.reduce.op == ReduceOp::adasum) {
            std::vector<std::vector<long double>> partials;
            for (const std::vector<int>& members : hosts_) {
                std::vector<std::vector<long double>> of_host;
                for (const int member : members) {
                    of_host.push_back(values_[static_cast<std::size_t>(member)]);
                }
                partials.push_back(ops::test::adasum_of_vectors(std::move(of_host)));
            }
            adasum_ = ops::test::adasum_of_vectors(std::move(partials));
        }
    }

    void check(const Bytes& result, std::size_t at, std::size_t first, std::size_t count) const {
        const std::size_t bytes = size_of(work_.dtype);
        const Bytes part(result.begin() + static_cast<std::ptrdiff_t>(at),
                         result.begin() + static_cast<std::ptrdiff_t>(at + count * bytes));
        if (!is_float(work_.dtype)) {
            return check_whole(part, first, count);
        }
        const std::vector<long double> found = ops::test::values_of(work_.dtype, part);
        for (std::size_t i = 0; i < count; ++i) {
            const Bounded right = expected(first + i);
            if (!(std::fabs(found[i] - right.value) <= right.off)) {
                wrong(first + i, static_cast<double>(found[i]), static_cast<double>(right.value),
                      static_cast<double>(right.off));
            }
        }
    }

private:
    void check_whole(const Bytes& part, std::size_t first, std::size_t count) const {
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t found = last_bits(work_.dtype, whole_of(work_.dtype, part, i));
            const std::uint64_t right = last_bits(work_.dtype, expected_whole(first + i));
            if (found != right || (work_.dtype == DType::boolean && static_cast<std::uint8_t>(part[i]) > 1)) {
                wrong(first + i, static_cast<double>(found), static_cast<double>(right), 0);
            }
        }
    }

    /// The library's integers wrap around. 128 bits keep all bits that the result needs.
    [[nodiscard]] Int128 expected_whole(std::size_t i) const {
        Int128 all = whole_of(work_.dtype, inputs_.front(), i);
        for (std::size_t member = 1; member < inputs_.size(); ++member) {
            const Int128 next = whole_of(work_.dtype, inputs_[member], i);
            switch (work_.reduce.op) {
                case ReduceOp::min:
                    all = std::min(all, next);
                    break;
                case ReduceOp::max:
                    all = std::max(all, next);
                    break;
                case ReduceOp::product:
                    all = static_cast<Int128>(static_cast<std::uint64_t>(all) * static_cast<std::uint64_t>(next));
                    break;
                default:
                    all += next;
            }
        }
        return work_.reduce.op == ReduceOp::average ? all / place_.size() : all;
    }

    /// Returns a sum by its definition: host by host, and within a host in the order of the ranks. Each addition is
    /// rounded.
    template <class T>
    [[nodiscard]] Bounded sum_in_order(std::size_t i) const {
        T sum = 0;
        for (std::size_t host = 0; host < hosts_.size(); ++host) {
            T partial = 0;
            for (const int member : hosts_[host]) {
                partial += static_cast<T>(values_[static_cast<std::size_t>(member)][i]);
            }
            sum += partial;
        }
        return {sum, 0};
    }

    /// More than two hosts combine their partial sums in an order that depends on the size of the tensor.
    [[nodiscard]] bool has_known_order() const {
        return work_.reduce.op == ReduceOp::sum && work_.reduce.prescale == 1 && work_.reduce.postscale == 1 &&
               hosts_.size() <= 2 && !travels_as_16_bits_;
    }

    [[nodiscard]] Bounded expected(std::size_t i) const {
        if (has_known_order() && work_.dtype == DType::float32) {
            return sum_in_order<float>(i);
        }
        if (has_known_order() && work_.dtype == DType::float64) {
            return sum_in_order<double>(i);
        }
        const Reduce& reduce = work_.reduce;
        const auto n = static_cast<long double>(place_.size());
        const bool travels_as_16_bits = travels_as_16_bits_;
        const Rounding narrow = narrow_;
        const long double step = step_;
        const long double roundings = roundings_;
        // Rounding to 8 bits is so coarse that the errors of several roundings multiply visibly.
        const bool is_coarse = is_float8(work_.dtype);
        long double sum = 0;
        long double magnitudes = 0;
        long double least = values_[0][i];
        long double most = values_[0][i];
        long double product = 1;
        for (const std::vector<long double>& values : values_) {
            const long double value = values[i] * reduce.prescale;
            sum += value;
            magnitudes += std::fabs(value);
            least = std::min(least, value / reduce.prescale);
            most = std::max(most, value / reduce.prescale);
            product *= value;
        }
        const long double scale = reduce.postscale / (reduce.op == ReduceOp::average ? n : 1);
        switch (reduce.op) {
            case ReduceOp::adasum:
                return {adasum_[i], (64 * narrow.relative + std::ldexp(static_cast<long double>(adasum_.size()), -53)) *
                                        magnitudes};
            case ReduceOp::min:
            case ReduceOp::max: {
                const long double one = (reduce.op == ReduceOp::min ? least : most) * reduce.prescale;
                const long double factors =
                    reduce.prescale == 1 && reduce.postscale == 1 ? 0 : 2 * step + narrow.relative;
                return {one * reduce.postscale,
                        std::fabs(one * reduce.postscale) * (factors + (travels_as_16_bits ? narrow.relative : 0)) +
                            (is_coarse ? 4 : 2) * narrow.least};
            }
            case ReduceOp::product:
                return {product,
                        std::fabs(product) * (is_coarse ? 1.3L : 1.1L) * (n * step + roundings * narrow.relative) +
                            roundings * narrow.least * 8};
            default:
                // docs/compression.md derives this bound from the sum of the magnitudes of the partial results. The sum
                // of the magnitudes of the inputs (`magnitudes`), which this function uses, is at least as large.
                return {
                    sum * scale,
                    std::fabs(scale) * magnitudes *
                            (roundings > 0 ? (is_coarse ? 1.3L * roundings : 2.1L) * narrow.relative : 0) +
                        std::fabs(scale) * magnitudes * (n + 6) * step +
                        (roundings > 0 ? 2.1L * roundings * narrow.least * std::max(1.0L, std::fabs(scale) * n) : 0)};
        }
    }

    [[noreturn]] void wrong(std::size_t index, double found, double right, double off) const {
        throw RankCheckFailed(fmt::format("{}: element {} is {}, expected {} or off by {} at most", work_.name(), index,
                                          found, right, off));
    }

    const Work& work_;
    const Place& place_;
    std::vector<Bytes> inputs_;
    std::vector<std::vector<int>> hosts_;
    bool travels_as_16_bits_;
    Rounding narrow_;
    long double step_ = 0;       ///< the error of one addition or multiplication; narrow types are combined in float32
    long double roundings_ = 0;  ///< how often a value is rounded to 8 or 16 bits before it is in the result
    std::vector<std::vector<long double>> values_;
    std::vector<long double> adasum_;
};

/// Returns the inputs of all members for one tensor of the work.
std::vector<Bytes> inputs_of_all(const Work& work, const Place& place, std::size_t tensor) {
    std::vector<Bytes> all;
    for (int member = 0; member < place.size(); ++member) {
        all.push_back(std::move(work.inputs(member, place.size())[tensor]));
    }
    return all;
}

void check_reductions(const Work& work, const Place& place, int member, const Bytes& result) {
    const bool scatters = work.kind == WorkKind::reducescatter || work.kind == WorkKind::grouped_reducescatter;
    const collectives::Rows rows = scatters ? collectives::rows_of_member(work.rows, static_cast<std::uint32_t>(member),
                                                                          static_cast<std::uint32_t>(place.size()))
                                            : collectives::Rows{0, work.rows};
    const auto first = static_cast<std::size_t>(rows.begin * work.columns);
    const auto count = static_cast<std::size_t>(rows.count * work.columns);
    RUEDA_RANK_EQUAL(result.size(), work.tensors() * count * size_of(work.dtype));
    for (std::size_t tensor = 0; tensor < work.tensors(); ++tensor) {
        const Reduction reduction(work, place, inputs_of_all(work, place, tensor));
        reduction.check(result, tensor * count * size_of(work.dtype), first, count);
    }
}

/// Appends `rows` rows of `from`, beginning with row `first`.
void add_rows(Bytes& to, const Work& work, const Bytes& from, std::int64_t first, std::int64_t rows) {
    const auto row = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(work.columns) * size_of(work.dtype));
    to.insert(to.end(), from.begin() + first * row, from.begin() + (first + rows) * row);
}

std::int64_t rows_before(const Work& work, int from, int to) {
    std::int64_t rows = 0;
    for (int other = 0; other < to; ++other) {
        rows += work.split(from, other);
    }
    return rows;
}

Bytes expected_copy(const Work& work, const Place& place, int member) {
    const int members = place.size();
    const int root = work.root(members);
    Bytes right;
    switch (work.kind) {
        case WorkKind::broadcast:
            return work.inputs(root, members).front();
        case WorkKind::message:
            return work.inputs((member + members - 1) % members, members).front();
        case WorkKind::scatter:
            add_rows(right, work, work.inputs(root, members).front(), rows_before(work, root, member),
                     work.split(root, member));
            return right;
        case WorkKind::alltoall:
            for (int from = 0; from < members; ++from) {
                add_rows(right, work, work.inputs(from, members).front(), rows_before(work, from, member),
                         work.split(from, member));
            }
            return right;
        default:
            for (std::size_t tensor = 0; tensor < work.tensors(); ++tensor) {
                for (const Bytes& input : inputs_of_all(work, place, tensor)) {
                    right.insert(right.end(), input.begin(), input.end());
                }
            }
            return right;
    }
}

}  // namespace

void check_values(const Work& work, const Place& place, int member, const Bytes& result) {
    const bool is_root = member == work.root(place.size());
    if (!is_root && (work.kind == WorkKind::reduce || work.kind == WorkKind::gather)) {
        RUEDA_RANK_CHECK(result.empty());
        return;
    }
    switch (work.kind) {
        case WorkKind::allreduce:
        case WorkKind::reduce:
        case WorkKind::reducescatter:
        case WorkKind::grouped_allreduce:
        case WorkKind::grouped_reducescatter:
            return check_reductions(work, place, member, result);
        default:
            if (result != expected_copy(work, place, member)) {
                throw RankCheckFailed(work.name() + ": other bytes than were given");
            }
    }
}

}  // namespace rueda::tests
