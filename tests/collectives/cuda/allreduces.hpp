// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/collectives/cuda/members.hpp"

/// Allreduces of device tensors whose results a test can compute.
namespace rueda::tests {

/// The value of element `i` of a member's tensor. Results are exact in every type, except for averages.
[[nodiscard]] double value_of(DType dtype, ReduceOp op, std::uint32_t member, std::size_t i);
[[nodiscard]] std::vector<double> values_of(DType dtype, ReduceOp op, std::uint32_t member, std::size_t count,
                                            std::size_t begin = 0);
/// The result of a reduction of the given members' elements.
[[nodiscard]] double expected_of(const Segment& segment, const std::vector<std::uint32_t>& contributing,
                                 std::uint32_t members, std::size_t i);

/// require_equal() throws if the difference is larger than `tolerance`, and require_ok() throws if the status is a
/// failure. Catch2's checks cannot be used, because the members are threads.
void require_equal(const std::string& what, double found, double expected, double tolerance);
void require_ok(const Status& status);

/// One tensor for each type and operation that NCCL has, with different numbers of elements.
[[nodiscard]] std::vector<Segment> every_reduction(std::uint32_t uncounted, bool with_factors);

struct Allreduces {
    std::vector<Segment> segments{};
    std::vector<std::uint32_t> joined{};  ///< the members that contribute nothing
    bool in_place = false;
    /// Tensor i begins i mod `shifts` elements after an aligned address.
    std::size_t shifts = 1;
};
/// Runs one batch on a member, and checks the results. Returns the outputs' bytes.
std::vector<std::vector<std::byte>> run_allreduces(Member& member, DeviceCommunicator& communicator, Allreduces test);
/// Does the same as run_allreduces(), but does not return the outputs.
void allreduce(Member& member, DeviceCommunicator& communicator, std::vector<Segment> segments,
               const std::vector<std::uint32_t>& joined, bool in_place);

}  // namespace rueda::tests
