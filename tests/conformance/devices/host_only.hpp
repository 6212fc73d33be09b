// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <span>

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A class of operations that works in the CPU's memory and returns Unsupported on GPUs. The conformance suite runs
/// these operations in the CPU's memory. host_only_test.cpp proves that each class is still refused on GPUs, so an
/// entry must be removed when its class works.
struct HostOnly {
    const char* what;
    bool (*is)(DType dtype, const Reduce& reduce);
    /// An example, which the test starts as an allreduce.
    DType dtype;
    Reduce reduce;
};

/// The list. All decisions depend only on what the ranks agree on.
[[nodiscard]] std::span<const HostOnly> host_only_reductions();
/// Whether an operation with a reduction is on the list.
[[nodiscard]] bool is_host_only(DType dtype, const Reduce& reduce);

/// Whether operations on GPUs return outputs in memory that Rueda allocates. Today the program gives the memory.
inline constexpr bool kAllocatesOutputs = false;
/// Whether sends and receives work with tensors on GPUs.
inline constexpr bool kHasMessages = false;

}  // namespace rueda::tests
