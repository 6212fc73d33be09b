// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/requests.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

TEST_CASE("a broadcast without an input is refused on the root, and nowhere else", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor out{values.data(), &extent, 1, RUEDA_FLOAT32};
    const rueda_tensor in{nullptr, &extent, 1, RUEDA_FLOAT32};
    const rueda_options options = RUEDA_OPTIONS_INIT;
    for (int rank = 0; rank < 3; ++rank) {
        INFO("rank " << rank);
        Request request;
        const Status made = make_broadcast(in, out, /*root=*/1, std::array{0, 1, 2}, rank, options, request);
        CHECK(made.is_ok() == (rank != 1));
        if (rank == 1) {
            CHECK(made.code() == ErrorCode::invalid_argument);
            CHECK(made.message() == "the input tensor has 4 elements and no data (a null pointer)");
        }
    }
}

}  // namespace
}  // namespace rueda::core
