// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/reduce.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

constexpr std::size_t kMargin = 64;
constexpr std::byte kPattern{0xC3};
/// Values repeat after this number of elements. The number is prime. So if a cache line or a chunk is at a wrong place,
/// its values are wrong, too.
constexpr std::size_t kPeriod = 61;

bool is_float(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64 ||
           dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2;
}
bool has_sign(DType dtype) {
    return is_float(dtype) || dtype == DType::int8 || dtype == DType::int16 || dtype == DType::int32 ||
           dtype == DType::int64;
}

template <class T>
T read(const Tensor& tensor, std::size_t index) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(tensor.data) + index * sizeof(T), sizeof(T));
    return value;
}
template <class T>
void write(const Tensor& tensor, std::size_t index, T value) {
    std::memcpy(static_cast<std::byte*>(tensor.data) + index * sizeof(T), &value, sizeof(T));
}

/// Returns the binary16 (float16) bits of an integer that binary16 represents exactly.
std::uint16_t half_of(std::int64_t value) {
    if (value == 0) {
        return 0;
    }
    const int sign = value < 0 ? 0x8000 : 0;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(value)), &exponent);  // in [0.5, 1)
    // the fraction as an integer of 11 bits; its highest bit is always set
    const auto significand = static_cast<int>(std::ldexp(fraction, 11));
    return static_cast<std::uint16_t>(sign | (exponent + 14) << 10 | (significand & 0x3FF));
}

double value_of_half(std::uint16_t bits) {
    const int exponent = bits >> 10 & 0x1F;
    const int significand = bits & 0x3FF;
    const double magnitude =
        exponent == 0 ? std::ldexp(significand, -24) : std::ldexp(significand + 1024, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double value_of_bfloat16(std::uint16_t bits) {
    const int exponent = bits >> 7 & 0xFF;
    const int significand = bits & 0x7F;
    const double magnitude =
        exponent == 0 ? std::ldexp(significand, -133) : std::ldexp(significand + 128, exponent - 134);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// The number of bits that an 8-bit float has for the fraction. The others are the sign and the exponent.
int fraction_bits(DType dtype) { return dtype == DType::float8_e4m3fn ? 3 : 2; }

/// Returns the bits of an integer that the 8-bit float represents exactly.
std::uint8_t float8_of(DType dtype, std::int64_t value) {
    if (value == 0) {
        return 0;
    }
    const int bits = fraction_bits(dtype);
    const int bias = (1 << (6 - bits)) - 1;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(value)), &exponent);  // in [0.5, 1)
    const auto significand = static_cast<int>(std::ldexp(fraction, bits + 1));
    return static_cast<std::uint8_t>((value < 0 ? 0x80 : 0) | (exponent - 1 + bias) << bits |
                                     (significand & ((1 << bits) - 1)));
}

double value_of_float8(DType dtype, std::uint8_t byte) {
    const int bits = fraction_bits(dtype);
    const int bias = (1 << (6 - bits)) - 1;
    const int exponent = (byte & 0x7F) >> bits;
    const int significand = byte & ((1 << bits) - 1);
    const double magnitude = exponent == 0 ? std::ldexp(significand, 1 - bias - bits)
                                           : std::ldexp(significand + (1 << bits), exponent - bias - bits);
    return (byte & 0x80) != 0 ? -magnitude : magnitude;
}

/// Returns the value as an integer of this type, which wraps around.
std::int64_t wrapped(std::int64_t value, DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return static_cast<std::uint8_t>(value);
        case DType::int8:
            return static_cast<std::int8_t>(value);
        case DType::int16:
            return static_cast<std::int16_t>(value);
        case DType::uint16:
            return static_cast<std::uint16_t>(value);
        case DType::int32:
            return static_cast<std::int32_t>(value);
        case DType::uint32:
            return static_cast<std::uint32_t>(value);
        default:
            return value;  // uint64 needs no wrapping, because no value is negative
    }
}

double combine(std::span<const double> values, ReduceOp op) {
    double all = values.front();
    for (const double value : values.subspan(1)) {
        switch (op) {
            case ReduceOp::min:
                all = std::min(all, value);
                break;
            case ReduceOp::max:
                all = std::max(all, value);
                break;
            case ReduceOp::product:
                all *= value;
                break;
            default:
                all += value;
        }
    }
    return all;
}

/// Returns the result by the operation's definition, before a floating-point result is rounded to its type.
double expected_value(DType dtype, const Reduce& reduce, int size, std::size_t index, int salt) {
    std::vector<double> values;
    for (int rank = 0; rank < size; ++rank) {
        const double scaled = static_cast<double>(input_value(dtype, reduce.op, rank, index, salt)) * reduce.prescale;
        values.push_back(is_float(dtype) ? scaled : std::trunc(scaled));
    }
    double all = combine(values, reduce.op);
    if (!is_float(dtype) && reduce.op != ReduceOp::average) {
        all = static_cast<double>(wrapped(static_cast<std::int64_t>(all), dtype));
    }
    all *= reduce.postscale;
    if (reduce.op == ReduceOp::average) {
        all /= size;
    }
    return is_float(dtype) ? all : std::trunc(all);
}

/// The allowed relative error. For floats of 8 and 16 bits, it is half a unit in the last place. For float32 and
/// float64 it is twice as large, because the computation in the type itself adds one rounding.
double tolerance(DType dtype) {
    switch (dtype) {
        case DType::float16:
            return std::ldexp(1.01, -11);
        case DType::bfloat16:
            return std::ldexp(1.01, -8);
        case DType::float8_e4m3fn:
            return std::ldexp(1.01, -4);
        case DType::float8_e5m2:
            return std::ldexp(1.01, -3);
        case DType::float32:
            return std::ldexp(1.01, -23);
        case DType::float64:
            return std::ldexp(1.01, -52);
        default:
            return 0;
    }
}

/// Returns the largest absolute value that one rank adds to a sum. The allowed error depends on this value. Returns 0
/// if no intermediate result is rounded: for operations other than sums and averages, and for sums of 8-bit floats over
/// up to eight ranks without factors. Such a sum of 8-bit floats is exact, because these types have all integers up to
/// 8. If this function returned more, the allowed error would hide that a rank is missing.
double largest_share(DType dtype, const Reduce& reduce, int ranks) {
    const double largest_input = ops::is_float8(dtype) ? 1 : 4;
    if (ops::is_float8(dtype) && ranks <= 8 && reduce.op == ReduceOp::sum && reduce.prescale == 1 &&
        reduce.postscale == 1) {
        return 0;
    }
    const double share = largest_input * std::fabs(reduce.prescale * reduce.postscale);
    return reduce.op == ReduceOp::average ? share / ranks : reduce.op == ReduceOp::sum ? share : 0;
}

}  // namespace

std::int64_t input_value(DType dtype, ReduceOp op, int rank, std::size_t element_index, int salt) {
    const std::size_t index = element_index % kPeriod;
    const auto mixed = static_cast<std::int64_t>(
        (index * 2654435761U + static_cast<std::size_t>(rank) * 40503U + static_cast<std::size_t>(salt) * 97U) >> 3U &
        0xFFFF);
    // With these inputs over eight ranks, the results of a logical "and" contain both true and false. The same holds
    // for a logical "or".
    if (dtype == DType::boolean) {
        return op == ReduceOp::max ? (mixed % 8 == 0 ? 1 : 0) : (mixed % 8 == 0 ? 0 : 1);
    }
    if (op == ReduceOp::product) {
        return mixed % 3 == 0 ? 2 : has_sign(dtype) && mixed % 3 == 1 ? -1 : 1;
    }
    if (ops::is_float8(dtype)) {
        return mixed % 3 - 1;
    }
    return has_sign(dtype) ? mixed % 9 - 4 : mixed % 5;
}

double element(const Tensor& tensor, std::size_t index) {
    switch (tensor.dtype) {
        case DType::uint8:
            return read<std::uint8_t>(tensor, index);
        case DType::int8:
            return read<std::int8_t>(tensor, index);
        case DType::boolean:
            return read<std::uint8_t>(tensor, index);
        case DType::int16:
            return read<std::int16_t>(tensor, index);
        case DType::uint16:
            return read<std::uint16_t>(tensor, index);
        case DType::int32:
            return read<std::int32_t>(tensor, index);
        case DType::uint32:
            return read<std::uint32_t>(tensor, index);
        case DType::int64:
            return static_cast<double>(read<std::int64_t>(tensor, index));
        case DType::uint64:
            return static_cast<double>(read<std::uint64_t>(tensor, index));
        case DType::float16:
            return value_of_half(read<std::uint16_t>(tensor, index));
        case DType::bfloat16:
            return value_of_bfloat16(read<std::uint16_t>(tensor, index));
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return value_of_float8(tensor.dtype, read<std::uint8_t>(tensor, index));
        case DType::float32:
            return static_cast<double>(read<float>(tensor, index));
        case DType::float64:
            return read<double>(tensor, index);
    }
    throw RankCheckFailed("a tensor of unknown dtype");
}

std::vector<DType> dtypes_of_round(ReduceOp op, int round) {
    std::vector<DType> dtypes = {DType::uint8,   DType::int8,     DType::int32,   DType::int64,
                                 DType::float16, DType::bfloat16, DType::float32, DType::float64};
    constexpr std::array kInTurn = {DType::boolean, DType::int16,         DType::uint16,     DType::uint32,
                                    DType::uint64,  DType::float8_e4m3fn, DType::float8_e5m2};
    // rounds 1, 2 and 3 together have all these types except bool
    for (const int turn : {round, round + 3}) {
        const DType next = kInTurn[static_cast<std::size_t>(turn) % kInTurn.size()];
        if (next != DType::boolean || (op != ReduceOp::sum && op != ReduceOp::average)) {
            dtypes.push_back(next);
        }
    }
    return dtypes;
}

void set_element(const Tensor& tensor, std::size_t index, std::int64_t value) {
    switch (tensor.dtype) {
        case DType::uint8:
            return write(tensor, index, static_cast<std::uint8_t>(value));
        case DType::int8:
            return write(tensor, index, static_cast<std::int8_t>(value));
        case DType::boolean:
            return write(tensor, index, static_cast<std::uint8_t>(value));
        case DType::int16:
        case DType::uint16:
            return write(tensor, index, static_cast<std::uint16_t>(value));
        case DType::int32:
        case DType::uint32:
            return write(tensor, index, static_cast<std::uint32_t>(value));
        case DType::int64:
        case DType::uint64:
            return write(tensor, index, value);
        case DType::float16:
            return write(tensor, index, half_of(value));
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return write(tensor, index, float8_of(tensor.dtype, value));
        case DType::bfloat16: {
            const auto whole = static_cast<float>(value);
            std::uint32_t bits = 0;
            std::memcpy(&bits, &whole, sizeof(bits));
            return write(tensor, index, static_cast<std::uint16_t>(bits >> 16));
        }
        case DType::float32:
            return write(tensor, index, static_cast<float>(value));
        case DType::float64:
            return write(tensor, index, static_cast<double>(value));
    }
}

void fill_input(const Tensor& tensor, ReduceOp op, int rank, int salt) {
    for (std::size_t i = 0; i < std::min(tensor.elements(), kPeriod); ++i) {
        set_element(tensor, i, input_value(tensor.dtype, op, rank, i, salt));
    }
    auto* const bytes = static_cast<std::byte*>(tensor.data);
    const std::size_t period = kPeriod * size_of(tensor.dtype);
    for (std::size_t done = period; done < tensor.bytes(); done += period) {
        std::memcpy(bytes + done, bytes, std::min(period, tensor.bytes() - done));
    }
}

void check_allreduce(const Tensor& result, const Reduce& reduce, Among among, int salt, const std::string& what) {
    check_reduction(result, 0, reduce, among, salt, what);
}

void check_reduction(const Tensor& result, std::size_t first, const Reduce& reduce, Among among, int salt,
                     const std::string& what) {
    std::vector<double> expected;
    for (std::size_t i = 0; i < std::min(result.elements(), kPeriod); ++i) {
        expected.push_back(expected_value(result.dtype, reduce, among.ranks, first + i, salt));
    }
    for (std::size_t i = 0; i < result.elements(); ++i) {
        const double found = element(result, i);
        const double wanted = expected[i % kPeriod];
        const double magnitude =
            std::fabs(wanted) +
            (among.several_hosts ? among.ranks * largest_share(result.dtype, reduce, among.ranks) : 0);
        if (!(std::fabs(found - wanted) <= tolerance(result.dtype) * magnitude)) {
            throw RankCheckFailed(
                fmt::format("{}: element {} of {} is {}, expected {}", what, i, result.elements(), found, wanted));
        }
    }
}

void check_copy(const Tensor& result, std::size_t first, std::size_t count, int rank, int salt, const std::string& what,
                std::size_t from) {
    for (std::size_t i = 0; i < count; ++i) {
        const double found = element(result, first + i);
        const auto expected = static_cast<double>(input_value(result.dtype, ReduceOp::sum, rank, from + i, salt));
        if (found != expected) {
            throw RankCheckFailed(
                fmt::format("{}: element {} of rank {} is {}, expected {}", what, from + i, rank, found, expected));
        }
    }
}

Buffer::Buffer(Client& client, DType dtype, std::vector<std::int64_t> shape, bool resident)
    : client_(&client), resident_(resident), tensor_{nullptr, dtype, std::move(shape)} {
    const std::size_t bytes = tensor_.bytes() + kMargin;
    if (resident) {
        Result<void*> memory = client.allocate(bytes);
        memory.status().throw_if_failed();
        tensor_.data = memory.value();
    } else {
        private_ = std::make_unique<std::byte[]>(bytes);
        tensor_.data = private_.get();
    }
    std::fill_n(static_cast<std::byte*>(tensor_.data), bytes, kPattern);
}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(other.client_),
      resident_(std::exchange(other.resident_, false)),
      private_(std::move(other.private_)),
      tensor_(std::move(other.tensor_)) {}

Buffer::~Buffer() {
    if (resident_) {
        static_cast<void>(client_->deallocate(tensor_.data));
    }
}

void Buffer::check_margin(const std::string& what) const {
    const auto* margin = static_cast<const std::byte*>(tensor_.data) + tensor_.bytes();
    if (std::any_of(margin, margin + kMargin, [](std::byte b) { return b != kPattern; })) {
        throw RankCheckFailed(fmt::format("{}: written behind the tensor's end", what));
    }
}

}  // namespace rueda::tests
