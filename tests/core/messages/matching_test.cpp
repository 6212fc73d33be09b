// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/matching.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

namespace rueda::core {
namespace {

const auto kWorld = std::make_shared<const SetIdentity>(SetIdentity{0, {0, 1, 2}});
const auto kSet = std::make_shared<const SetIdentity>(SetIdentity{4, {1, 2}});

MessageOperation receive(int peer, std::int32_t tag, const std::shared_ptr<const SetIdentity>& set) {
    MessageOperation operation;
    operation.request.peer = peer;
    operation.request.tag = tag;
    operation.request.set = set;
    return operation;
}

MessageArrival arrival(int sender, std::int32_t tag, std::int32_t set, std::uint64_t id, bool whole = false) {
    MessageArrival made;
    made.sender = sender;
    made.tag = tag;
    made.set = set;
    made.id = id;
    made.is_whole = whole;
    return made;
}

/// Compares Matching with the simplest implementation of its rule: a receive gets the first matching message that no
/// other receive took.
TEST_CASE("random messages and receives are matched to the first that fits", "[unit]") {
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        Matching matching;
        std::deque<MessageOperation> receives;
        std::vector<MessageOperation*> waiting;
        std::vector<MessageArrival> kept;
        std::uint64_t number = 0;
        for (int i = 0; i < 100; ++i) {
            const auto& set = random() % 3 == 0 ? kSet : kWorld;
            const auto tag = static_cast<std::int32_t>(random() % 2);
            const int rank = static_cast<int>(random() % 3);
            if (random() % 2 == 0) {
                receives.push_back(receive(random() % 3 == 0 ? RUEDA_ANY_PEER : rank, tag, set));
                MessageOperation& posted = receives.back();
                const auto expected = std::find_if(kept.begin(), kept.end(), [&](const MessageArrival& a) {
                    return a.tag == tag && a.set == set->id &&
                           (posted.request.is_from_anybody() || posted.request.peer == a.sender);
                });
                const auto found = matching.arrival_for(posted.request);
                REQUIRE(found.has_value() == (expected != kept.end()));
                if (found) {
                    REQUIRE(found->id == expected->id);
                    kept.erase(expected);
                } else {
                    matching.post(posted);
                    waiting.push_back(&posted);
                }
            } else {
                const auto expected = std::find_if(waiting.begin(), waiting.end(), [&](const MessageOperation* w) {
                    return w->request.tag == tag && w->request.set->id == set->id &&
                           (w->request.is_from_anybody() || w->request.peer == rank);
                });
                MessageOperation* const found = matching.receive_for(rank, tag, set->id);
                REQUIRE((found != nullptr) == (expected != waiting.end()));
                if (found != nullptr) {
                    REQUIRE(found == *expected);
                    waiting.erase(expected);
                } else {
                    matching.keep(arrival(rank, tag, set->id, ++number));
                    kept.push_back(arrival(rank, tag, set->id, number));
                }
            }
        }
    }
}

TEST_CASE("the sender of a whole message that is kept is notified once", "[unit]") {
    Matching matching;
    CHECK_FALSE(matching.has_untold());
    matching.keep(arrival(1, 0, 0, 1, /*whole=*/true));
    matching.keep(arrival(1, 0, 0, 2, /*whole=*/false));
    matching.keep(arrival(2, 5, 4, 1, /*whole=*/true));
    REQUIRE(matching.has_untold());
    auto untold = matching.take_untold();
    std::sort(untold.begin(), untold.end(), [](const auto& a, const auto& b) { return a.sender < b.sender; });
    REQUIRE(untold.size() == 2);
    CHECK((untold[0].sender == 1 && untold[0].id == 1 && untold[1].sender == 2 && untold[1].id == 1));
    CHECK_FALSE(matching.has_untold());
    CHECK(matching.take_untold().empty());
    // If no receive takes a message, its sender must be told that the message is kept.
    matching.keep(arrival(0, 1, 0, 9, /*whole=*/true));
    CHECK(matching.arrival_for(receive(0, 1, kWorld).request).has_value());
    CHECK_FALSE(matching.has_untold());
    matching.keep(arrival(0, 1, 0, 10, /*whole=*/true));
    matching.drop_arrivals([](const MessageArrival& kept) { return kept.sender == 0; });
    CHECK_FALSE(matching.has_untold());
}

TEST_CASE("removing a process set removes its receives and messages, and no others", "[unit]") {
    Matching matching;
    MessageOperation in_world = receive(1, 0, kWorld);
    MessageOperation in_set = receive(RUEDA_ANY_PEER, 0, kSet);
    matching.post(in_world);
    matching.post(in_set);
    const auto taken = matching.take_receives([](const MessageRequest& r) { return r.set->id == kSet->id; });
    REQUIRE(taken == std::vector<MessageOperation*>{&in_set});
    CHECK(matching.receive_for(1, 0, kSet->id) == nullptr);
    CHECK(matching.receive_for(1, 0, 0) == &in_world);
}

}  // namespace
}  // namespace rueda::core
