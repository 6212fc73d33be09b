// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ops/reference.hpp"

namespace rueda::tests {

/// The order in which the hosts' partial results are combined: in a balanced tree (for small tensors), or host by host
/// (for larger ones).
enum class HostOrder : std::uint8_t { balanced, by_host };

/// Returns the exact bits of an allreduce over several hosts, computed from the definition in
/// docs/design/0002-several-hosts.md and collectives/hierarchical/README.md. `inputs` is indexed by host and local
/// rank. `inputs[host]` is empty for a host that contributes nothing.
ops::test::Bytes expected_between_hosts(const ops::Reduction& reduction,
                                        const std::vector<std::vector<ops::test::Bytes>>& inputs, std::size_t count,
                                        HostOrder order);

/// Returns the exact bits of an allreduce whose float32 or float64 values are compressed between hosts.
/// docs/design/0008-compression.md has the definition.
ops::test::Bytes expected_compressed(const ops::Reduction& reduction, Compression compression,
                                     const std::vector<std::vector<ops::test::Bytes>>& inputs, std::size_t count);

}  // namespace rueda::tests
