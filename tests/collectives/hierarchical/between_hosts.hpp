// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ops/reference.hpp"

namespace rueda::tests {

/// How the partial results of hosts are combined: as a balanced tree (small tensors), or one host after the other.
enum class HostOrder : std::uint8_t { balanced, by_host };

/// What an allreduce over several hosts must give, bit for bit: the definition in docs/design/0002-several-hosts.md and
/// collectives/hierarchical/README.md, written as code. `inputs` is indexed by host and local rank; it has no entries
/// for a host that contributes nothing.
ops::test::Bytes expected_between_hosts(const ops::Reduction& reduction,
                                        const std::vector<std::vector<ops::test::Bytes>>& inputs, std::size_t count,
                                        HostOrder order);

/// The same for a tensor of float32 or float64 that travels compressed, by the definition in
/// docs/design/0008-compression.md.
ops::test::Bytes expected_compressed(const ops::Reduction& reduction, Compression compression,
                                     const std::vector<std::vector<ops::test::Bytes>>& inputs, std::size_t count);

}  // namespace rueda::tests
