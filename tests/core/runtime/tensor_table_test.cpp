// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/pending/tensor_table.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace rueda::tests {
namespace {

constexpr std::uint32_t kSlots = 8;
constexpr std::uint32_t kUnnamed = 1;

TEST_CASE("the table expects the order of the step before", "[threads]") {
    core::TensorTable table(kSlots, kUnnamed);
    const std::array<std::string, 3> names{"first", "second", "third"};
    for (const std::string& name : names) {
        CHECK(table.expect_after(table.entry(name)) == nullptr);
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        core::TensorEntry& entry = table.entry(names[i]);
        core::TensorEntry& next = *table.find(names[(i + 1) % names.size()]);
        CHECK(entry.name == names[i]);
        CHECK(table.expect_after(entry) == &next);
        CHECK(table.expects(next));
    }
}

TEST_CASE("a changed order is expected from the next step on", "[threads]") {
    core::TensorTable table(kSlots, kUnnamed);
    for (const char* name : {"a", "b", "c", "a", "c"}) {
        table.expect_after(table.entry(name));
    }
    CHECK(table.expect_after(table.entry("a")) == table.find("c"));
    CHECK(&table.entry("b") == table.find("b"));  // found, although the table expects another name
}

TEST_CASE("a forgotten name is not expected, and its ticket may belong to another name", "[threads]") {
    core::TensorTable table(kSlots, kUnnamed);
    for (const char* name : {"a", "b", "a"}) {
        table.expect_after(table.entry(name));
    }
    REQUIRE(table.expects(*table.find("b")));
    table.forget_if_unused(*table.find("b"));
    core::TensorEntry& other = table.entry("other");  // gets the ticket of "b"
    CHECK(other.name == "other");
    CHECK(&table.entry("other") == &other);
    CHECK(table.entry("b").name == "b");
    table.forget_if_unused(*table.find("a"));
    CHECK(table.expect_after(table.entry("b")) == nullptr);  // the last announced name is forgotten
}

}  // namespace
}  // namespace rueda::tests
