// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_agreement.hpp"

#include <array>
#include <cstdint>
#include <span>

#include "training/outcome.hpp"

namespace rueda::training {

Status agree_on_replicas(const Status& mine, int count, ProcessSet set) {
    const int members = set.size();
    const int position = set.rank();
    // The first maximum tells the lowest position of a member that failed, because a lower position gives a larger
    // number. It is 0 if no member failed. The second maximum is the largest number of replicas of a member. The third
    // one is minus the smallest number.
    std::array<std::int32_t, 3> numbers = {mine.is_ok() ? 0 : members - position, count, -count};
    allreduce("rueda.training.replicas.failed", TensorView(numbers), {.op = ReduceOp::max, .process_set = set});
    const auto [failed, most, negative_least] = numbers;
    if (failed < 0 || failed > members) {
        return failure(ErrorCode::internal,
                       "replicas: the number that says which process failed is {}; expected 0 to {}", failed, members);
    }
    if (failed == 0 && most != -negative_least) {
        return failure(
            ErrorCode::invalid_argument,
            "replicas: a process has {} replicas, and another one has {}; give all processes the same number",
            -negative_least, most);
    }
    if (failed == 0) {
        return {};
    }
    const int root = set.ranks()[static_cast<std::size_t>(members - failed)];
    OutcomeBytes bytes = encode_outcome(mine);
    broadcast("rueda.training.replicas.failure", TensorView(bytes), root, {.process_set = set});
    return members - failed == position ? mine : failure_from(bytes, root);
}

Status failure_from(std::span<const std::uint8_t> bytes, int root) {
    const Status first = decode_outcome(bytes, root);
    if (first.is_ok()) {
        return failure(ErrorCode::internal, "rank {} has failed, but sent no error", root);
    }
    return failure(first.code(), "rank {}: {}", root, first.message());
}

}  // namespace rueda::training
