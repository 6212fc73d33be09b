// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    bool right = true;

    // Every rank calls this function, even if it is not a member. Here the members are the even ranks.
    std::vector<std::int32_t> even;
    for (std::int32_t rank = 0; rank < rueda::size(); rank += 2) {
        even.push_back(rank);
    }
    if (even.size() < static_cast<std::size_t>(rueda::size())) {  // otherwise the set is the world
        const rueda::ProcessSet set = rueda::add_process_set(even);
        if (set.included()) {
            std::vector<float> value = {static_cast<float>(rueda::rank())};
            rueda::allreduce("value", value, {.op = rueda::ReduceOp::max, .process_set = set});
            right = value[0] == static_cast<float>(even.back());

            rueda::broadcast("value", value, /*root=*/0, {.process_set = set});  // a rank of the job
            right = right && set.size() == static_cast<int>(even.size()) && set.rank() == rueda::rank() / 2;
        }
        rueda::remove_process_set(set);  // again by all
    }

    rueda::shutdown();
    return right ? 0 : 1;
}
