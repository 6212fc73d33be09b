// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"

namespace rueda::tests {

/// The documentation promises errors within about a second. The test allows a longer time, for busy machines.
inline constexpr double kPromiseSeconds = 3;

/// Returns the time of a clock that all processes of the host share.
[[nodiscard]] inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the number in an environment variable (FAULT_ROUNDS or FAULT_SEED), or `usual` if it is not set. Long runs
/// set these variables.
[[nodiscard]] inline std::uint32_t number_from_environment(const char* name, std::uint32_t usual) {
    const char* const text = std::getenv(name);
    return text == nullptr ? usual : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// Starts allreduces under `name` until one fails, and checks the results before that. Returns the status of the failed
/// one.
[[nodiscard]] inline Status reduce_until_failure(Client& client, const std::string& name, bool new_names,
                                                 std::int64_t elements, bool resident) {
    const Buffer buffer(client, DType::float32, {elements}, resident);
    for (int i = 0;; ++i) {
        fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), i);
        const std::string full_name = new_names ? name + std::to_string(i) : name;
        const Status status = client.allreduce(full_name, buffer.tensor(), buffer.tensor(), {ReduceOp::sum});
        if (!status.is_ok()) {
            return status;
        }
        check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), i, full_name);
    }
}

/// Does the same as reduce_until_failure() with Adasum. All ranks have the same vector, so the result is this vector.
[[nodiscard]] inline Status adasum_until_failure(Client& client, const std::string& name, std::int64_t elements,
                                                 bool resident) {
    const Buffer buffer(client, DType::float32, {elements}, resident);
    for (int i = 0;; ++i) {
        fill_input(buffer.tensor(), ReduceOp::sum, 0, i);
        const Status status = client.allreduce(name, buffer.tensor(), buffer.tensor(), {ReduceOp::adasum});
        if (!status.is_ok()) {
            return status;
        }
        check_copy(buffer.tensor(), 0, static_cast<std::size_t>(elements), 0, i, name);
    }
}

}  // namespace rueda::tests
