// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that an exception inside a function of the C interface becomes an error code and a text.
#include "core/c_interface/guarded.hpp"

#include <catch2/catch.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "rueda/rueda.h"

namespace rueda::tests {
namespace {

using core::c_interface::guarded;

template <class Thrown>
std::string outcome(const Thrown& thrown) {
    const int code = guarded([&]() -> Status { throw thrown; });
    return std::to_string(code) + ": " + rueda_last_error();
}

TEST_CASE("nothing that is thrown escapes the C interface", "[threads]") {
    CHECK(outcome(7) == std::to_string(RUEDA_INTERNAL) + ": an exception of an unknown type was thrown");
    CHECK(outcome("text") == std::to_string(RUEDA_INTERNAL) + ": an exception of an unknown type was thrown");
    CHECK(outcome(std::length_error("too long")) == std::to_string(RUEDA_INTERNAL) + ": too long");
    CHECK(outcome(std::bad_alloc()) == std::to_string(RUEDA_RESOURCE_EXHAUSTED) + ": out of memory");
    CHECK(outcome(Timeout("late")) == std::to_string(RUEDA_TIMEOUT) + ": late");
    CHECK(guarded([]() -> Status { return {ErrorCode::mismatch, "they differ"}; }) == RUEDA_MISMATCH);
    CHECK(std::string(rueda_last_error()) == "they differ");
}

}  // namespace
}  // namespace rueda::tests
