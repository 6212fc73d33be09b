// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/cuda/allreduces.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "ops/reduce.hpp"
#include "tests/collectives/cuda/elements.hpp"

namespace rueda::tests {
namespace {

constexpr DType kReducible[] = {DType::uint8,   DType::int8,    DType::int32,   DType::int64,
                                DType::uint32,  DType::uint64,  DType::float16, DType::bfloat16,
                                DType::float32, DType::float64, DType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};

bool is_unsigned(DType dtype) {
    return dtype == DType::uint8 || dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::uint64;
}

/// Returns how much a result may differ from the exact value. Factors are rounded to the type, and 16-bit sums are
/// rounded at every step.
double tolerance_of(const Segment& segment) {
    const bool is_exact = segment.reduce_op != ReduceOp::average && segment.prescale == 1.0 && segment.postscale == 1.0;
    if (is_exact || !ops::is_floating_point(segment.dtype)) {
        return 0;
    }
    return segment.dtype == DType::bfloat16 ? 0.3 : segment.dtype == DType::float16 ? 0.03 : 1e-5;
}

std::vector<std::uint32_t> others_than(const std::vector<std::uint32_t>& joined, std::uint32_t members) {
    std::vector<std::uint32_t> others;
    for (std::uint32_t member = 0; member < members; ++member) {
        if (std::find(joined.begin(), joined.end(), member) == joined.end()) {
            others.push_back(member);
        }
    }
    return others;
}

/// Allocates memory for the tensor and for its output, and writes this member's values to the tensor.
void place(Member& member, Segment& segment, std::size_t shift, bool in_place) {
    const std::size_t begin = shift * size_of(segment.dtype);
    std::vector<std::byte> bytes(begin, std::byte{0x77});
    const auto values =
        encode(segment.dtype, values_of(segment.dtype, segment.reduce_op, member.number(), segment.count));
    bytes.insert(bytes.end(), values.begin(), values.end());
    std::byte* const input = member.put(bytes);
    segment.input = input + begin;
    segment.output = (in_place ? input : member.garbage(bytes.size())) + begin;
}

void check_result(const Segment& segment, std::span<const std::byte> bytes,
                  const std::vector<std::uint32_t>& contributing, std::uint32_t members) {
    const auto found = decode(segment.dtype, bytes);
    for (std::size_t i = 0; i < segment.count; ++i) {
        require_equal(
            std::string(name_of(segment.dtype)) + " " + name_of(segment.reduce_op) + " element " + std::to_string(i),
            found[i], expected_of(segment, contributing, members, i), tolerance_of(segment));
    }
}

}  // namespace

double value_of(DType dtype, ReduceOp op, std::uint32_t member, std::size_t i) {
    const std::size_t mixed = member * 5 + i * 3 + i / 7;
    if (dtype == DType::boolean) {
        return static_cast<double>(mixed % 3 == 0 ? 0 : 1);
    }
    if (op == ReduceOp::product) {
        return mixed % 4 == 0 ? 2 : 1;
    }
    return static_cast<double>(mixed % 7) - (is_unsigned(dtype) ? 0 : 3);
}

std::vector<double> values_of(DType dtype, ReduceOp op, std::uint32_t member, std::size_t count, std::size_t begin) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = value_of(dtype, op, member, begin + i);
    }
    return values;
}

double expected_of(const Segment& segment, const std::vector<std::uint32_t>& contributing, std::uint32_t members,
                   std::size_t i) {
    double result = value_of(segment.dtype, segment.reduce_op, contributing[0], i);
    for (std::size_t m = 1; m < contributing.size(); ++m) {
        const double next = value_of(segment.dtype, segment.reduce_op, contributing[m], i);
        switch (segment.reduce_op) {
            case ReduceOp::min:
                result = std::min(result, next);
                break;
            case ReduceOp::max:
                result = std::max(result, next);
                break;
            case ReduceOp::product:
                result *= next;
                break;
            default:
                result += next;
        }
    }
    result *= segment.prescale * segment.postscale;
    if (segment.reduce_op == ReduceOp::average) {
        result /= members - segment.uncounted;
        return ops::is_floating_point(segment.dtype) ? result : std::trunc(result);
    }
    return result;
}

void require_equal(const std::string& what, double found, double expected, double tolerance) {
    if (!(std::fabs(found - expected) <= tolerance)) {
        throw std::runtime_error(what + ": " + std::to_string(found) + " instead of " + std::to_string(expected));
    }
}

void require_ok(const Status& status) {
    if (!status.is_ok()) {
        throw std::runtime_error(status.message());
    }
}

std::vector<Segment> every_reduction(std::uint32_t uncounted, bool with_factors) {
    std::vector<Segment> segments;
    std::uint64_t count = 0;
    for (const DType dtype : kReducible) {
        for (const ReduceOp op : kOps) {
            const bool is_sum = op == ReduceOp::sum || op == ReduceOp::average;
            if (dtype == DType::boolean && is_sum) {
                continue;
            }
            if (op == ReduceOp::average && uncounted > 0 && !ops::is_floating_point(dtype)) {
                continue;
            }
            const bool scales = with_factors && is_sum && ops::is_floating_point(dtype);
            segments.push_back({.dtype = dtype,
                                .reduce_op = op,
                                .prescale = scales ? 0.5 : 1.0,
                                .postscale = scales ? 3.0 : 1.0,
                                .count = count,
                                .uncounted = uncounted});
            count = count * 3 % 1000 + 1;
        }
    }
    return segments;
}

std::vector<std::vector<std::byte>> run_allreduces(Member& member, DeviceCommunicator& communicator, Allreduces test) {
    const auto contributing = others_than(test.joined, member.members());
    const bool has_joined = std::find(test.joined.begin(), test.joined.end(), member.number()) != test.joined.end();
    for (std::size_t i = 0; i < test.segments.size(); ++i) {
        require_ok(communicator.check(Operation::allreduce, test.segments[i]));
        if (!has_joined) {
            place(member, test.segments[i], i % test.shifts, test.in_place);
        }
    }
    const std::vector<DeviceEventPtr> no_events(test.segments.size());
    std::vector<Location> locations(test.segments.size() * member.members());
    for (std::size_t i = 0; i < locations.size(); ++i) {
        const auto m = static_cast<std::uint32_t>(i % member.members());
        locations[i].absent = std::find(test.joined.begin(), test.joined.end(), m) != test.joined.end();
    }
    for (Segment& segment : test.segments) {
        segment.absent = static_cast<std::uint32_t>(test.joined.size());
    }
    require_ok(member.run(
        communicator,
        {.segments = test.segments,
         .ready = has_joined ? std::span(no_events) : std::span<const DeviceEventPtr>(),
         .host = {
             .operation = Operation::allreduce, .segments = test.segments, .locations = locations, .splits = {}}}));
    std::vector<std::vector<std::byte>> outputs;
    for (const Segment& segment : has_joined ? std::vector<Segment>() : test.segments) {
        outputs.push_back(member.get(segment.output, segment.bytes()));
        check_result(segment, outputs.back(), contributing, member.members());
    }
    return outputs;
}

void allreduce(Member& member, DeviceCommunicator& communicator, std::vector<Segment> segments,
               const std::vector<std::uint32_t>& joined, bool in_place) {
    run_allreduces(member, communicator, {std::move(segments), joined, in_place});
}

}  // namespace rueda::tests
