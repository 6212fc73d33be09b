// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <catch2/catch.hpp>

#include "tests/support/explorer/explorer.hpp"

namespace rueda::explorer {

/// A Catch check that all schedules were explored and that none failed.
inline void check_passed(const Exploration& result) {
    INFO(result.report);
    CHECK(result.passed());
}

}  // namespace rueda::explorer
