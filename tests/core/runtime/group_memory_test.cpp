// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/group_memory.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "rueda/types.hpp"

namespace rueda::core::test {
namespace {

std::array<float, 64> memory;

/// A list of tensors in `memory`. add() appends a tensor of `count` floats that begins at the float with index `place`.
struct Tensors {
    void add(std::size_t place, std::int64_t count) {
        counts.push_back(count);
        places.push_back(place);
    }
    [[nodiscard]] std::vector<rueda_tensor> c_tensors() const {
        std::vector<rueda_tensor> all;
        for (std::size_t i = 0; i < places.size(); ++i) {
            all.push_back({memory.data() + places[i], &counts[i], 1, static_cast<std::int32_t>(DType::float32)});
        }
        return all;
    }
    /// Returns whether the tensor contains the element. The test compares element by element, whereas the library
    /// compares ranges.
    [[nodiscard]] bool has(std::size_t tensor, std::size_t element) const {
        return element >= places[tensor] && element < places[tensor] + static_cast<std::size_t>(counts[tensor]);
    }

    std::vector<std::size_t> places;
    std::vector<std::int64_t> counts;
};

std::optional<MembersInConflict> find(const Tensors& in, const Tensors& out) {
    return find_members_in_conflict(in.c_tensors().data(), out.c_tensors().data(), in.places.size());
}

bool in_conflict(const Tensors& in, const Tensors& out, std::size_t a, std::size_t b) {
    for (std::size_t element = 0; element < memory.size(); ++element) {
        const bool a_writes = out.has(a, element);
        const bool b_writes = out.has(b, element);
        if ((a_writes && (b_writes || in.has(b, element))) || (b_writes && in.has(a, element))) {
            return true;
        }
    }
    return false;
}

TEST_CASE("members of a group are in conflict where one writes what another one has") {
    Tensors in;
    Tensors out;
    in.add(0, 4);
    in.add(4, 4);
    in.add(0, 4);  // reading the same memory twice is allowed
    out.add(10, 4);
    out.add(4, 4);  // an in-place output: the same memory as the second input
    out.add(14, 4);
    CHECK_FALSE(find(in, out));
    CHECK_FALSE(find_members_in_conflict(in.c_tensors().data(), nullptr, 3));
    out.places[2] = 13;
    REQUIRE(find(in, out));
    CHECK(find(in, out)->first == 0);
    CHECK(find(in, out)->second == 2);
    out.places[2] = 7;  // overlaps the memory of the second tensor
    REQUIRE(find(in, out));
    CHECK(find(in, out)->first == 1);
    CHECK(find(in, out)->second == 2);
    out.counts[2] = 0;
    CHECK_FALSE(find(in, out));
}

TEST_CASE("conflicts of random members are found, and no others") {
    std::mt19937 random(7);
    int found_some = 0;
    int found_none = 0;
    for (int round = 0; round < 20'000; ++round) {
        Tensors in;
        Tensors out;
        const std::size_t members = 1 + random() % 5;
        for (std::size_t i = 0; i < members; ++i) {
            in.add(random() % 50, static_cast<std::int64_t>(random() % 12));
            out.add(random() % 2 == 0 ? in.places[i] : random() % 50, static_cast<std::int64_t>(random() % 6));
        }
        bool any = false;
        for (std::size_t a = 0; a < members; ++a) {
            for (std::size_t b = a + 1; b < members; ++b) {
                any = any || in_conflict(in, out, a, b);
            }
        }
        const auto found = find(in, out);
        if (found.has_value() != any || (found && !in_conflict(in, out, found->first, found->second))) {
            FAIL("round " << round);
        }
        ++(any ? found_some : found_none);
    }
    CHECK(found_some > 1000);
    CHECK(found_none > 1000);
}

}  // namespace
}  // namespace rueda::core::test
