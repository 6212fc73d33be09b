// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <catch2/catch.hpp>

#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// A Catch check that every rank has passed. A failure's report describes what became of each rank.
inline void check_passed(const RanksResult& result) {
    INFO(result.text());
    CHECK(result.passed());
}

}  // namespace rueda::tests
