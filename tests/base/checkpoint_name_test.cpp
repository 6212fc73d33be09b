// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/checkpoint_name.hpp"

#include <catch2/catch.hpp>

namespace rueda::base {
namespace {

TEST_CASE("the name of a checkpoint's folder is read as it is written", "[unit]") {
    CHECK(format_checkpoint_name({2, 200}) == "save-000002-step-200");
    CHECK(parse_checkpoint_name("save-000002-step-200") == CheckpointName{2, 200});
    CHECK(parse_checkpoint_name("save-1234567-step-0") == CheckpointName{1234567, 0});
    for (const CheckpointName name : {CheckpointName{0, 0}, CheckpointName{~std::uint64_t{0}, INT64_MAX}}) {
        CHECK(parse_checkpoint_name(format_checkpoint_name(name)) == name);
    }
}

TEST_CASE("other names are no checkpoints", "[unit]") {
    for (const char* text :
         {"", "save-", "save-1", "save-1-step-", "save--step-1", "save-1-step-2 ", " save-1-step-2",
          "save-1-step-2.tmp", "save-1-step--2", "save--1-step-2", "save-step-2", "Save-1-step-2",
          "save-18446744073709551616-step-1", "save-1-step-9223372036854775808", "save-1-step-2-step-3"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_checkpoint_name(text));
    }
}

}  // namespace
}  // namespace rueda::base
