// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_agreement.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "training/outcome.hpp"

namespace rueda::training {

Status agree_on_replicas(const Status& mine, ProcessSet set) {
    const int members = set.size();
    const int position = set.rank();
    // The maximum belongs to the lowest member that failed. It is 0 if no member failed.
    std::int32_t failed = mine.is_ok() ? 0 : members - position;
    allreduce("rueda.training.replicas.failed", TensorView(std::span(&failed, 1)),
              {.op = ReduceOp::max, .process_set = set});
    if (failed == 0) {
        return {};
    }
    const int root = set.ranks()[static_cast<std::size_t>(members - failed)];
    OutcomeBytes bytes = encode_outcome(mine);
    broadcast("rueda.training.replicas.failure", TensorView(bytes), root, {.process_set = set});
    if (members - failed == position) {
        return mine;
    }
    const Status first = decode_outcome(bytes, root);
    return {first.code(), fmt::format("rank {}: {}", root, first.message())};
}

}  // namespace rueda::training
