// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <rueda/rueda.hpp>

int main() {
    rueda::init();
    const int next = (rueda::rank() + 1) % rueda::size();
    const int before = (rueda::rank() + rueda::size() - 1) % rueda::size();

    // The ranks form a ring: each rank sends to the next rank and receives from the previous rank.
    std::array<float, 3> mine{};
    mine.fill(static_cast<float>(rueda::rank()));
    std::array<float, 3> theirs{};
    const rueda::Handle sent = rueda::send_async(mine, next, /*tag=*/7);
    rueda::receive(theirs, before, /*tag=*/7);
    sent.wait();
    bool right = theirs[2] == static_cast<float>(before);

    // Receives from any rank that sends with this tag, and returns the rank of the sender.
    const rueda::Handle results = rueda::send_async(mine, 0, /*tag=*/8);
    if (rueda::rank() == 0) {
        for (int i = 0; i < rueda::size(); ++i) {
            const int sender = rueda::receive(theirs, rueda::any_peer, /*tag=*/8);
            right = right && theirs[0] == static_cast<float>(sender);
        }
    }
    results.wait();
    rueda::shutdown();
    return right ? 0 : 1;
}
