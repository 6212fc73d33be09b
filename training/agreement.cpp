// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/agreement.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "rueda/rueda.hpp"
#include "training/outcome.hpp"

namespace rueda::training {
namespace {

Status run(const std::function<void()>& body) {
    try {
        body();
        return {};
    } catch (const Error& error) {
        return {error.code(), error.what()};
    } catch (const std::exception& error) {
        return {ErrorCode::internal, error.what()};
    }
}

}  // namespace

void run_on_root(const std::function<void()>& body, int root) {
    OutcomeBytes bytes = encode_outcome(rank() == root ? run(body) : Status());
    broadcast("rueda.training.agreement.root", TensorView(bytes), root);
    decode_outcome(bytes, root).throw_if_failed();
}

void run_on_every_rank(const std::function<void()>& body) {
    OutcomeBytes mine = encode_outcome(run(body));
    const Handle gathered =
        allgather("rueda.training.agreement.all",
                  TensorView(mine.data(), DType::uint8, Shape{1, static_cast<std::int64_t>(mine.size())}));
    const TensorView output = gathered.output();
    const std::size_t ranks = static_cast<std::size_t>(size());
    if (static_cast<std::size_t>(output.shape().elements()) != ranks * mine.size()) {
        throw Internal(fmt::format("{} bytes were gathered from {} ranks; {} were expected", output.shape().elements(),
                                   ranks, ranks * mine.size()));
    }
    const std::span all(static_cast<const std::uint8_t*>(output.data()), ranks * mine.size());
    Status first;
    std::size_t first_rank = 0;
    std::size_t failed = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
        Status status = decode_outcome(all.subspan(i * mine.size(), mine.size()), static_cast<int>(i));
        if (!status.is_ok()) {
            if (failed == 0) {
                first = status;
                first_rank = i;
            }
            ++failed;
        }
    }
    if (failed == ranks || failed == 0) {
        first.throw_if_failed();
        return;
    }
    throw_error(first.code(), fmt::format("rank {}: {}", first_rank, first.message()));
}

}  // namespace rueda::training
