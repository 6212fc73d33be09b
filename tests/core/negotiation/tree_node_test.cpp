// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/tree_node.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <set>

#include "core/negotiation/batch_end.hpp"
#include "core/negotiation/carried.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/impossible.hpp"
#include "tests/core/negotiation/leaders.hpp"

namespace rueda::core::test {
namespace {

Metadata gather_of(std::int64_t columns) {
    Metadata metadata = allreduce_of({Metadata::kAnyExtent, columns});
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
    return metadata;
}

std::vector<std::uint64_t> ids_of(const std::vector<Decision>& decisions) {
    std::vector<std::uint64_t> ids;
    for (const Decision& decision : decisions) {
        ids.push_back(decision.id);
    }
    return ids;
}

/// Returns the number of calls in each batch of `decisions`.
std::vector<int> batches_of(const std::vector<Decision>& decisions) {
    std::vector<int> batches;
    int calls = 0;
    for (const Decision& decision : decisions) {
        ++calls;
        if (decision.ends_batch) {
            batches.push_back(calls);
            calls = 0;
        }
    }
    CHECK(calls == 0);
    return batches;
}

/// Announces the names "a", "b", … once on all hosts, so that they get the ids 1, 2, …
void give_ids(Leaders& leaders, const std::vector<Metadata>& metadata) {
    for (std::size_t i = 0; i < metadata.size(); ++i) {
        leaders.announce_everywhere(by_name(std::string(1, static_cast<char>('a' + i))), metadata[i]);
    }
    std::vector<Decision> calls;
    std::uint64_t batches = 0;
    while (leaders.run() > 0 || !leaders[0].pending().empty()) {
        for (const Decision& call : leaders.decisions()) {
            calls.push_back(call);
            batches += call.ends_batch ? 1 : 0;
        }
        leaders[0].executed(batches);
    }
    REQUIRE(calls.size() == metadata.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
        REQUIRE(calls[i].id == i + 1);
    }
}

std::uint32_t depth_of(const TreeShape& shape) {
    std::uint32_t depth = 0;
    for (std::optional<std::uint32_t> host = shape.hosts - 1; (host = shape.parent(*host));) {
        ++depth;
    }
    return depth;
}

TEST_CASE("the tree: every host is the child of its parent, and no host is left out") {
    for (const std::uint32_t radix : {1U, 2U, 8U}) {
        for (const std::uint32_t hosts : {1U, 2U, 9U, 10U, 73U, 74U}) {
            const TreeShape shape{hosts, radix};
            CHECK_FALSE(shape.parent(0).has_value());
            std::set<std::uint32_t> children;
            for (std::uint32_t host = 0; host < hosts; ++host) {
                CHECK(shape.children(host).size() <= radix);
                for (const std::uint32_t child : shape.children(host)) {
                    CHECK(shape.parent(child) == host);
                    CHECK(children.insert(child).second);
                }
            }
            CHECK(children.size() == hosts - 1);
        }
    }
    CHECK(depth_of({8, 8}) == 1);
    CHECK(depth_of({9, 8}) == 1);
    CHECK(depth_of({64, 8}) == 2);
    CHECK(depth_of({512, 8}) == 3);
    // The number of a child must not overflow for the highest host numbers.
    CHECK(TreeShape{0xffffffff, 8}.children(0xfffffff0).empty());
}

TEST_CASE("a tensor is called once all hosts have announced it") {
    for (const std::uint32_t hosts : {1U, 2U, 12U}) {
        Leaders leaders({.hosts = hosts, .ranks_per_host = 2, .radix = 3});
        for (std::uint32_t host = hosts; host-- > 1;) {
            leaders.announce(host, by_name("w"), allreduce_of({3, 4}));
        }
        leaders.run();
        CHECK(leaders.decisions().empty());
        leaders.announce(0, by_name("w"), allreduce_of({3, 4}));
        leaders.run();
        const Decision call = leaders.only_decision();
        CHECK(call.kind == DecisionKind::call);
        CHECK(call.id == 1);
        CHECK(call.name == "w");
        CHECK(call.operation == static_cast<std::uint8_t>(collectives::Operation::allreduce));
        CHECK(call.bytes == 48);
        CHECK(call.ends_batch);
        CHECK(call.rows.empty());
        for (std::uint32_t host = 0; host < hosts; ++host) {
            CHECK(leaders[host].pending().empty());
        }
    }
}

TEST_CASE("later the id is enough, and the name is not sent again") {
    Leaders leaders({.hosts = 5, .radix = 2});
    give_ids(leaders, {allreduce_of({3}), allreduce_of({5})});
    leaders.announce_everywhere(by_id(2));
    leaders.announce_everywhere(by_id(1));
    leaders.run();
    const std::vector<Decision> calls = leaders.decisions();
    CHECK(ids_of(calls) == std::vector<std::uint64_t>{2, 1});
    CHECK(calls[0].name.empty());
    CHECK(calls[0].bytes == 20);
    CHECK(calls[1].bytes == 12);
}

Metadata sum_of(std::int64_t count) {
    Metadata metadata = allreduce_of({count});
    metadata.reduce_op = static_cast<std::uint8_t>(ReduceOp::sum);
    return metadata;
}

CarriedBytes carried_of(const std::vector<float>& values) {
    CarriedBytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

TEST_CASE("if all announcements carry an input, the call carries the result and is a batch of its own") {
    for (const std::uint32_t hosts : {2U, 3U, 5U, 8U, 9U}) {
        Leaders leaders({.hosts = hosts, .ranks_per_host = 2, .fusion_threshold_bytes = 1000});
        give_ids(leaders, {sum_of(2), sum_of(3)});
        leaders[0].announce({by_id(2), {}, {}});
        for (std::uint32_t host = 0; host < hosts; ++host) {
            const auto value = static_cast<float>(host + 1);
            leaders[host].announce({by_id(1), {}, {}, {}, {}, carried_of({value, -value})});
        }
        for (std::uint32_t host = 1; host < hosts; ++host) {
            leaders[host].announce({by_id(2), {}, {}});
        }
        leaders.run();
        const std::vector<Decision> calls = leaders.decisions();
        CHECK(ids_of(calls) == std::vector<std::uint64_t>{1, 2});
        CHECK(batches_of(calls) == std::vector<int>{1, 1});
        const auto sum = static_cast<float>(hosts * (hosts + 1) / 2);
        CHECK(calls[0].result == carried_of({sum, -sum}));
        CHECK(calls[1].result.empty());
    }
}

TEST_CASE("carried inputs are combined in the order of recursive doubling") {
    // The result depends on the order of the additions: 1 is lost if it is added to 2^24, and 2 is not.
    constexpr float kLarge = 16777216;
    const std::vector<std::vector<float>> inputs = {{kLarge}, {1}, {1}, {1}, {1}};
    for (const auto& [hosts, expected] :
         {std::pair<std::uint32_t, float>{3, kLarge}, {4, kLarge + 2}, {5, kLarge + 2}}) {
        Leaders leaders({.hosts = hosts});
        give_ids(leaders, {sum_of(1)});
        for (std::uint32_t host = 0; host < hosts; ++host) {
            leaders[host].announce({by_id(1), {}, {}, {}, {}, carried_of(inputs[host])});
        }
        leaders.run();
        CHECK(leaders.only_decision().result == carried_of({expected}));
    }
}

TEST_CASE("if one announcement carries no input, or has claims, the call carries no result") {
    for (const bool has_claims : {false, true}) {
        for (std::uint32_t different = 0; different < 3; ++different) {
            Leaders leaders({.hosts = 3});
            give_ids(leaders, {sum_of(1)});
            for (std::uint32_t host = 0; host < 3; ++host) {
                if (host != different) {
                    leaders[host].announce({by_id(1), {}, {}, {}, {}, carried_of({1})});
                } else if (has_claims) {
                    leaders.announce(host, by_id(1), sum_of(1));
                } else {
                    leaders[host].announce({by_id(1), {}, {}});
                }
            }
            leaders.run();
            const Decision call = leaders.only_decision();
            CHECK(call.kind == DecisionKind::call);
            CHECK(call.result.empty());
        }
    }
}

TEST_CASE("carried inputs are used only if the call is decided at once") {
    Leaders leaders({.hosts = 2, .fusion_threshold_bytes = 1000, .batches_ahead = 2});
    give_ids(leaders, std::vector<Metadata>(6, sum_of(1)));
    leaders.announce_everywhere(by_id(6));
    const auto announce = [&](std::uint64_t id) {
        for (std::uint32_t host = 0; host < 2; ++host) {
            leaders[host].announce({by_id(id), {}, {}, {}, {}, carried_of({1})});
        }
    };
    // Tensor 6, whose announcements carry no inputs, is a batch. Tensor 1 is the second and last batch that is decided
    // ahead. All other tensors form the third batch, which waits.
    for (std::uint64_t id = 1; id <= 5; ++id) {
        leaders.run();
        announce(id);
    }
    leaders.run();
    std::vector<Decision> calls = leaders.decisions();
    CHECK(ids_of(calls) == std::vector<std::uint64_t>{6, 1});
    CHECK(calls[0].result.empty());
    CHECK(calls[1].result == carried_of({2}));
    constexpr std::uint64_t kOfNames = 1;  // give_ids() called all tensors in one batch
    leaders[0].executed(kOfNames + 2);
    leaders.run();
    calls = leaders.decisions();
    CHECK(ids_of(calls) == std::vector<std::uint64_t>{2, 3, 4, 5});
    CHECK(batches_of(calls) == std::vector<int>{4});
    for (const Decision& call : calls) {
        CHECK(call.result.empty());
    }
    announce(1);
    leaders.run();
    CHECK(leaders.only_decision().result == carried_of({2}));
}

Announcement with_input(std::uint64_t id, float value) { return {by_id(id), {}, {}, {}, {}, carried_of({value})}; }

/// Two hosts with tensors of one float that were called before. All batches are executed.
Leaders two_hosts(std::size_t tensors) {
    Leaders leaders({.hosts = 2, .fusion_threshold_bytes = 1000});
    give_ids(leaders, std::vector<Metadata>(tensors, sum_of(1)));
    leaders[0].executed(1);
    return leaders;
}

/// Delivers the next message of a leader to the other leader.
void send_next(Leaders& leaders, std::uint32_t from) {
    const auto message = leaders[from].next_message(1 - from);
    REQUIRE(message.has_value());
    REQUIRE(leaders.deliver(from, 1 - from, *message).is_ok());
}

TEST_CASE("two hosts that announce a tensor at the same time decide after half a round trip") {
    for (const bool carries : {false, true}) {
        Leaders leaders = two_hosts(1);
        for (int round = 1; round < 5; ++round) {
            for (const std::uint32_t host : {0U, 1U}) {
                carries ? leaders[host].announce(with_input(1, static_cast<float>(round)))
                        : leaders[host].announce({by_id(1), {}, {}});
            }
            const auto up = leaders[1].next_message(0);
            const auto down = leaders[0].next_message(1);
            REQUIRE((up.has_value() && down.has_value()));
            REQUIRE(leaders.deliver(0, 1, *down).is_ok());
            REQUIRE(leaders.deliver(1, 0, *up).is_ok());
            // Neither leader has anything to send, and both have decided.
            CHECK(leaders.run() == 0);
            const Decision call = leaders.only_decision();
            CHECK(call.kind == DecisionKind::call);
            CHECK(call.ends_batch);
            CHECK(call.result == (carries ? carried_of({2 * static_cast<float>(round)}) : CarriedBytes()));
            leaders[0].executed(1 + static_cast<std::uint64_t>(round));
        }
    }
}

TEST_CASE("a leader that has an offer decides when it announces the tensor") {
    Leaders leaders = two_hosts(1);
    leaders[0].announce(with_input(1, 3));
    send_next(leaders, 0);
    CHECK_FALSE(leaders[0].next_message(1).has_value());
    CHECK_FALSE(leaders[1].next_decision().has_value());
    leaders[1].announce(with_input(1, 4));
    const auto up = leaders[1].next_message(0);
    REQUIRE(up.has_value());
    const auto call = leaders[1].next_decision();
    REQUIRE(call.has_value());
    CHECK(call->result == carried_of({7}));
    // The leader may send its next message before the root has the previous one.
    leaders[1].announce(with_input(1, 1));
    const auto next = leaders[1].next_message(0);
    REQUIRE(next.has_value());
    REQUIRE(leaders.deliver(1, 0, *up).is_ok());
    CHECK(leaders[0].next_decision()->result == carried_of({7}));
    leaders[0].executed(2);
    REQUIRE(leaders.deliver(1, 0, *next).is_ok());
    leaders[0].announce(with_input(1, 2));
    leaders.run();
    CHECK(leaders.only_decision().result == carried_of({3}));
}

TEST_CASE("an offer that the next message does not accept has no effect") {
    const auto different = [](Leaders& leaders, int what) {
        TreeNode& child = leaders[1];
        switch (what) {
            case 0:
                child.announce({by_id(2), {}, {}});
                break;
            case 1:
                child.announce({by_id(1), {}, {}});  // without an input
                break;
            case 2:
                leaders.announce(1, by_id(1), sum_of(1));  // with a claim
                break;
            case 3:
                child.announce(with_input(1, 4));
                child.announce({by_id(2), {}, {}});
                break;
            case 4:
                child.release(2);
                child.announce(with_input(1, 4));
                break;
            default:
                child.join(1);
                break;
        }
    };
    for (const bool crosses : {false, true}) {
        for (int what = 0; what < 6; ++what) {
            INFO("case " << what << ", the messages cross: " << crosses);
            Leaders leaders = two_hosts(2);
            leaders[0].announce(with_input(1, 3));
            if (!crosses) {
                send_next(leaders, 0);
            }
            different(leaders, what);
            const auto up = leaders[1].next_message(0);
            REQUIRE(up.has_value());
            if (crosses) {
                send_next(leaders, 0);
            }
            CHECK_FALSE(leaders[1].next_decision().has_value());
            REQUIRE(leaders.deliver(1, 0, *up).is_ok());
            if (what == 0) {
                leaders[1].announce(with_input(1, 4));
            }
            leaders.run();
            if (what == 5) {
                CHECK(leaders[1].pending().empty());
                continue;
            }
            const Decision call = leaders.only_decision();
            CHECK(call.id == 1);
            CHECK(call.result == (what == 1 || what == 2 ? CarriedBytes() : carried_of({7})));
        }
    }
}

TEST_CASE("after an offer, events of the root's host wait for the child's next message") {
    Leaders leaders = two_hosts(2);
    leaders[0].announce(with_input(1, 3));
    send_next(leaders, 0);
    leaders[0].announce({by_id(2), {}, {}});
    CHECK_FALSE(leaders[0].next_message(1).has_value());
    CHECK_FALSE(leaders[0].next_decision().has_value());
    leaders[1].announce(with_input(1, 4));
    leaders[1].announce({by_id(2), {}, {}});
    leaders.run();
    CHECK(leaders.decisions().size() == 2);
}

TEST_CASE("a shutdown on the root's host withdraws the offer, and does not wait for announcements") {
    Leaders leaders = two_hosts(2);
    leaders[0].announce(with_input(1, 3));
    send_next(leaders, 0);
    SECTION("the child has sent nothing") {
        leaders[0].shut_down(0);
        leaders.run();
        CHECK(leaders.only_decision().kind == DecisionKind::closing);
    }
    SECTION("the child has accepted the offer, and has sent another message") {
        leaders[1].announce(with_input(1, 4));
        const auto first = leaders[1].next_message(0);
        leaders[1].announce({by_id(2), {}, {}});
        const auto second = leaders[1].next_message(0);
        REQUIRE((first && second));
        leaders[0].shut_down(0);
        send_next(leaders, 0);
        REQUIRE(leaders.deliver(1, 0, *first).is_ok());
        REQUIRE(leaders.deliver(1, 0, *second).is_ok());
        leaders.run();
        const std::vector<Decision> decisions = leaders.decisions();
        REQUIRE(decisions.size() == 2);
        CHECK(decisions[0].result == carried_of({7}));
        CHECK(decisions[1].kind == DecisionKind::closing);
    }
    SECTION("the child accepts the offer at the same time") {
        leaders[1].announce(with_input(1, 4));
        leaders[0].shut_down(0);
        const auto answer = leaders[1].next_message(0);
        send_next(leaders, 0);
        REQUIRE(answer.has_value());
        REQUIRE(leaders.deliver(1, 0, *answer).is_ok());
        leaders.run();
        const std::vector<Decision> decisions = leaders.decisions();
        REQUIRE(decisions.size() == 2);
        CHECK(decisions[0].result == carried_of({7}));
        CHECK(decisions[1].kind == DecisionKind::closing);
    }
    SECTION("a rank of the child shuts down, too") {
        leaders[0].shut_down(0);
        leaders[1].shut_down(1);
        leaders.run();
        CHECK(leaders.only_decision().kind == DecisionKind::closing);
    }
}

TEST_CASE("an error of the root's host in a postponed event is not attributed to the child") {
    Leaders leaders = two_hosts(2);
    leaders[0].announce(with_input(1, 3));
    send_next(leaders, 0);
    leaders[0].announce({by_id(9), {}, {}});
    leaders[1].announce({by_id(2), {}, {}});
    const auto answer = leaders[1].next_message(0);
    REQUIRE(answer.has_value());
    const Status status = leaders.deliver(1, 0, *answer);
    CHECK(status.message() == leaders[0].status().message());
    CHECK(status.message() == "the tensor of id 9 is announced, and no name has that id");
}

TEST_CASE("the root makes no offer if its next decision is not known") {
    const auto offers = [](Leaders& leaders) { return leaders[0].next_message(1).has_value(); };
    Leaders busy = two_hosts(2);
    busy.announce_everywhere(by_id(2));
    busy.run();
    busy[0].announce(with_input(1, 3));
    CHECK_FALSE(offers(busy));  // a batch runs
    busy[0].executed(2);
    CHECK(offers(busy));
    Leaders several = two_hosts(2);
    several[0].announce(with_input(1, 3));
    several[0].announce({by_id(2), {}, {}});
    CHECK_FALSE(offers(several));
    Leaders by_names = two_hosts(1);
    by_names.announce(0, by_name("new"), sum_of(1));
    CHECK_FALSE(offers(by_names));
    Leaders changed = two_hosts(1);
    changed.announce(0, by_id(1), sum_of(2));
    CHECK_FALSE(offers(changed));
    Leaders joined = two_hosts(1);
    joined[1].join(1);
    joined.run();
    joined[0].announce(with_input(1, 3));
    CHECK(offers(joined));  // the request to announce the tensor
    CHECK_FALSE(offers(joined));
    Leaders three({.hosts = 3});
    give_ids(three, {sum_of(1)});
    three[0].executed(1);
    three[0].announce(with_input(1, 3));
    CHECK_FALSE(offers(three));
}

TEST_CASE("an offer that no correct root makes is refused") {
    Decision offer;
    offer.kind = DecisionKind::offered;
    offer.id = 1;
    offer.metadata = sum_of(1);
    Leaders twice = two_hosts(1);
    CHECK(twice[1].receive(0, DownMessage{1, {offer, offer}}).message() ==
          "host 0 sent host 1: the id 1 is offered to host 1 of 2");
    Leaders three({.hosts = 3});
    give_ids(three, {sum_of(1)});
    CHECK(three[1].receive(0, DownMessage{1, {offer}}).message() ==
          "host 0 sent host 1: the id 1 is offered to host 1 of 3");
    CHECK(three[1].receive(0, WithdrawalMessage{}).code() == ErrorCode::internal);
    Leaders early = two_hosts(1);
    CHECK(early[1].receive(0, WithdrawalMessage{2}).message() ==
          "host 0 sent host 1: an offer after message 2 of 1 is withdrawn from host 1 of 2");
    Leaders unknown = two_hosts(1);
    offer.metadata->reduce_op = static_cast<std::uint8_t>(ReduceOp::adasum);
    offer.result = carried_of({1});
    REQUIRE(unknown[1].receive(0, DownMessage{1, {offer}}).is_ok());
    unknown[1].announce(with_input(1, 2));
    REQUIRE(unknown[1].next_message(0).has_value());
    CHECK(unknown[1].status().code() == ErrorCode::internal);
}

TEST_CASE("a carried input of the wrong size, or of several hosts, is refused") {
    Leaders leaders({.hosts = 2});
    give_ids(leaders, {sum_of(2)});
    leaders[1].announce({by_id(1), {}, {}, {}, {}, carried_of({1})});
    leaders.run();
    leaders[0].announce({by_id(1), {}, {}, {}, {}, carried_of({1, 2})});
    CHECK(leaders[0].status().code() == ErrorCode::internal);

    Leaders deep({.hosts = 4, .radix = 1});
    give_ids(deep, {sum_of(1)});
    UpMessage up;
    up.number = 1000;
    up.announcements.push_back({by_id(1), {}, {}, {}, {}, carried_of({1})});
    CHECK(deep[0].receive(1, up).code() == ErrorCode::internal);
}

TEST_CASE("announcements by id and by name of the same tensor meet, at every level") {
    // Host 1 has the children 3 and 4. In each run, one host has released the id: a leaf (3), an inner host (1) or the
    // root (0).
    for (const std::uint32_t forgetful : {3U, 1U, 0U}) {
        Leaders leaders({.hosts = 5, .radix = 2});
        give_ids(leaders, {allreduce_of({3})});
        leaders[forgetful].release(1);
        for (std::uint32_t host = 0; host < 5; ++host) {
            if (host == forgetful) {
                leaders.announce(host, by_name("a"), allreduce_of({3}));
            } else {
                leaders[host].announce({by_id(1), {}, {}});
            }
        }
        leaders.run();
        const Decision call = leaders.only_decision();
        CHECK(call.kind == DecisionKind::call);
        CHECK(call.id == 1);
        CHECK(call.name == "a");
    }
}

TEST_CASE("changed metadata are called, and are what an announcement by id means from then on") {
    Leaders leaders({.hosts = 3, .ranks_per_host = 2});
    give_ids(leaders, {allreduce_of({3})});
    leaders.announce_everywhere(by_id(1), allreduce_of({4}));
    leaders.run();
    CHECK(leaders.only_decision().bytes == 16);
    leaders.announce_everywhere(by_id(1));
    leaders.run();
    CHECK(leaders.only_decision().bytes == 16);
    // The hosts announce the same operation: host 0 by id only, hosts 1 and 2 by id and with metadata.
    leaders[0].announce({by_id(1), {}, {}});
    leaders[1].announce({by_id(1), {{std::nullopt, {{2, 2}}}, {allreduce_of({4}), {{3, 3}}}}, {}});
    leaders.announce(2, by_id(1), allreduce_of({4}));
    leaders.run();
    CHECK(leaders.only_decision().kind == DecisionKind::call);
}

TEST_CASE("all hosts that disagree learn the metadata of each rank, and the next announcement is called") {
    Leaders leaders({.hosts = 4, .ranks_per_host = 2, .radix = 2});
    for (std::uint32_t host = 0; host < 4; ++host) {
        leaders.announce(host, by_name("w"), host == 3 ? allreduce_of({3, 5}) : allreduce_of({3, 4}));
    }
    leaders.run();
    const Decision disagreed = leaders.only_decision();
    CHECK(disagreed.kind == DecisionKind::disagreed);
    CHECK(disagreed.id == 0);
    CHECK(disagreed.name == "w");
    CHECK(disagreed.text == "tensor 'w': the ranks disagree about the shape: ranks 0-5: [3, 4]; ranks 6, 7: [3, 5]");
    leaders.announce_everywhere(by_name("w"), allreduce_of({3, 5}));
    leaders.run();
    const Decision call = leaders.only_decision();
    CHECK(call.kind == DecisionKind::call);
    CHECK(call.id == 1);
}

TEST_CASE("hosts that agree on an impossible operation all learn the reason, by name, by id and without a name") {
    Metadata impossible = allreduce_of({3}, DType::boolean);
    impossible.reduce_op = static_cast<std::uint8_t>(ReduceOp::sum);
    std::vector<std::int32_t> ranks(6);
    std::iota(ranks.begin(), ranks.end(), 0);
    Leaders leaders({.hosts = 3, .ranks_per_host = 2});
    const auto refused = [&](const TensorKey& key, std::string_view name, std::uint64_t call) {
        leaders.announce_everywhere(key, impossible);
        leaders.run();
        const Decision decision = leaders.only_decision();
        CHECK(decision.kind == DecisionKind::impossible);
        CHECK(decision.code == ErrorCode::unsupported);
        CHECK(decision.text == refusal_of(name, call, impossible, ranks).message());
    };
    refused(by_name("a"), "a", 0);
    refused(by_call(0), "", 1);
    give_ids(leaders, {allreduce_of({8})});
    refused(by_id(1), "a", 0);
    leaders.announce_everywhere(by_id(1));  // the metadata are those of the id's previous call
    leaders.run();
    CHECK(leaders.only_decision().bytes == 32);
}

TEST_CASE("if some ranks announce a group under a name, all hosts learn its number of members") {
    Metadata group;
    group.operation = static_cast<std::uint8_t>(collectives::Operation::group);
    group.ndim = 1;
    group.shape[0] = Metadata::kAnyExtent;
    Metadata gathered = group;
    gathered.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
    Leaders leaders({.hosts = 3, .ranks_per_host = 2});
    leaders[0].announce({by_name("g"), {{group, {{0, 1}}}}, {{0, {3, 2}}}});
    // Here 7 is a number of rows. No leader may mistake it for a group's number of members.
    leaders[1].announce({by_name("g"), {{group, {{2, 2}}}, {gathered, {{3, 3}}}}, {{1, {3, 7}}}});
    leaders[2].announce({by_name("g"), {{allreduce_of({4}), {{4, 5}}}}, {}});
    leaders.run();
    const Decision disagreed = leaders.only_decision();
    CHECK(disagreed.kind == DecisionKind::disagreed);
    CHECK(disagreed.rows == std::vector<std::int64_t>{2, 3});
    CHECK(disagreed.text ==
          "tensor 'g': the ranks disagree about the operation: ranks 0-2: group; rank 3: allgather; ranks 4, 5: "
          "allreduce");
}

/// The ranks of each host announce more different metadata than fit into a message. So messages leave out some
/// metadata, but they must never leave out the metadata of groups.
TEST_CASE("the numbers of groups are sent, however many different metadata the ranks announce") {
    Metadata group;
    group.operation = static_cast<std::uint8_t>(collectives::Operation::group);
    group.ndim = 1;
    group.shape[0] = Metadata::kAnyExtent;
    constexpr std::uint32_t kRanks = 80;
    Leaders leaders({.hosts = 3, .ranks_per_host = kRanks});
    std::int64_t extent = 0;
    for (std::uint32_t host = 0; host < 3; ++host) {
        std::vector<Claim> claims;
        std::vector<std::int64_t> rows(kRanks, 0);
        for (std::uint32_t i = 0; i < kRanks; ++i) {
            const auto rank = static_cast<std::int32_t>(host * kRanks + i);
            // The last two ranks of host 1 and the last three of host 2 announce a group.
            const bool is_of_group = host > 0 && i + host + 1 >= kRanks;
            rows[i] = is_of_group ? host + 1 : 0;
            merge(claims, {is_of_group ? group : allreduce_of({++extent}), {{rank, rank}}});
        }
        CHECK(claims.size() == kMostClaims);
        leaders[host].announce({by_name("g"), std::move(claims), {{host, std::move(rows)}}});
    }
    leaders.run();
    const Decision disagreed = leaders.only_decision();
    CHECK(disagreed.kind == DecisionKind::disagreed);
    CHECK(disagreed.rows == std::vector<std::int64_t>{2, 3});
    CHECK(disagreed.text.find("ranks 158, 159, 237-239: group") != std::string::npos);
}

TEST_CASE("a disagreement of ranks of one host is noticed, also with the previous call") {
    Leaders leaders({.hosts = 3, .ranks_per_host = 3});
    give_ids(leaders, {allreduce_of({8})});
    leaders[0].announce({by_id(1), {}, {}});
    leaders[1].announce({by_id(1), {{std::nullopt, {{3, 3}, {5, 5}}}, {allreduce_of({9}), {{4, 4}}}}, {}});
    leaders[2].announce({by_id(1), {}, {}});
    leaders.run();
    const Decision disagreed = leaders.only_decision();
    CHECK(disagreed.id == 1);
    CHECK(disagreed.name.empty());
    CHECK(disagreed.text == "tensor 'a': the ranks disagree about the shape: ranks 0-3, 5-8: [8]; rank 4: [9]");
    // The hosts still hold the id, with the metadata of the last call.
    leaders.announce_everywhere(by_id(1));
    leaders.run();
    CHECK(leaders.only_decision().bytes == 32);
}

TEST_CASE("the text of a disagreement names ranks and values as it does on one host") {
    const std::vector<Metadata> by_rank = {allreduce_of({1}), allreduce_of({2}), allreduce_of({1}), allreduce_of({3})};
    Leaders leaders({.hosts = 4});
    for (std::uint32_t host = 0; host < 4; ++host) {
        leaders.announce(host, by_name("w"), by_rank[host]);
    }
    leaders.run();
    CHECK(leaders.only_decision().text == mismatch_of("w", by_rank).message());
    for (std::uint32_t host = 0; host < 4; ++host) {
        leaders.announce(host, by_call(0), by_rank[host]);
    }
    leaders.run();
    const Decision unnamed = leaders.only_decision();
    CHECK(unnamed.text ==
          mismatch_of_unnamed(1, {{by_rank[0], {0, 2}}, {by_rank[1], {1}}, {by_rank[3], {3}}}).message());
    CHECK(unnamed.call == 0U);
}

TEST_CASE("if very many ranks disagree, the first ones are named and no text grows without bound") {
    Leaders leaders({.hosts = 100, .radix = 3});
    for (std::uint32_t host = 0; host < 100; ++host) {
        leaders.announce(host, by_name("w"), allreduce_of({1 + static_cast<std::int64_t>(host)}));
    }
    leaders.run();
    const Decision disagreed = leaders.only_decision();
    CHECK(disagreed.kind == DecisionKind::disagreed);
    CHECK(disagreed.text.size() <= kMostTextBytes);
    CHECK(disagreed.text.find("rank 0: [1]") != std::string::npos);
    CHECK(disagreed.text.ends_with(": other values"));
}

TEST_CASE("an id that all hosts have released is forgotten, and the name gets another one") {
    Leaders leaders({.hosts = 5, .radix = 2});
    give_ids(leaders, {allreduce_of({3})});
    for (std::uint32_t host = 1; host < 5; ++host) {
        leaders[host].release(1);
    }
    leaders.run();
    CHECK(leaders.decisions().empty());
    leaders[0].release(1);
    leaders.run();
    const Decision forget = leaders.only_decision();
    CHECK(forget.kind == DecisionKind::forget);
    CHECK(forget.id == 1);
    leaders.announce_everywhere(by_name("a"), allreduce_of({4}));
    leaders.run();
    const Decision call = leaders.only_decision();
    CHECK(call.id == 2);
    CHECK(call.name == "a");
}

TEST_CASE("an id is kept while some host has announced the name again, and all hosts hold it after the call") {
    Leaders leaders({.hosts = 3});
    give_ids(leaders, {allreduce_of({3})});
    leaders[0].release(1);
    leaders.announce(0, by_name("a"), allreduce_of({4}));
    for (const std::uint32_t host : {1U, 2U}) {
        leaders[host].release(1);
        leaders.run();
    }
    CHECK(leaders.decisions().empty());
    for (const std::uint32_t host : {1U, 2U}) {
        leaders.announce(host, by_name("a"), allreduce_of({4}));
    }
    leaders.run();
    CHECK(leaders.only_decision().id == 1);
    leaders.announce_everywhere(by_id(1));
    for (std::uint32_t host = 0; host < 3; ++host) {
        leaders.run();
    }
    CHECK(leaders.only_decision().id == 1);
    // After each use of the id, the root counts how many hosts have released the id. Here only one host has released
    // it, so the root must decide nothing.
    leaders[2].release(1);
    leaders.run();
    CHECK(leaders.decisions().empty());
}

TEST_CASE("after a disagreement about a name whose id no host holds any more, the id ends") {
    Leaders leaders({.hosts = 2});
    give_ids(leaders, {allreduce_of({3})});
    leaders[0].release(1);
    leaders.announce(0, by_name("a"), allreduce_of({4}));
    leaders[1].release(1);
    leaders.announce(1, by_name("a"), allreduce_of({5}));
    leaders.run();
    const std::vector<Decision> decisions = leaders.decisions();
    REQUIRE(decisions.size() == 2);
    CHECK(decisions[0].kind == DecisionKind::disagreed);
    CHECK(decisions[0].id == 1);
    CHECK(decisions[0].name == "a");
    CHECK(decisions[1].kind == DecisionKind::forget);
}

TEST_CASE("operations without names are matched by their numbers") {
    Leaders leaders({.hosts = 3});
    for (std::uint32_t host = 0; host < 3; ++host) {
        // Each host announces the calls in a different order.
        for (const std::uint64_t call : {host % 3, (host + 1) % 3, (host + 2) % 3}) {
            leaders.announce(host, by_call(call), allreduce_of({static_cast<std::int64_t>(call) + 1}));
        }
    }
    leaders.run();
    std::set<std::uint64_t> calls;
    for (const Decision& decision : leaders.decisions()) {
        CHECK(decision.kind == DecisionKind::call);
        CHECK(decision.id == 0);
        CHECK(decision.name.empty());
        REQUIRE(decision.call.has_value());
        CHECK(decision.bytes == 4 * (*decision.call + 1));
        calls.insert(*decision.call);
    }
    CHECK(calls == std::set<std::uint64_t>{0, 1, 2});
}

TEST_CASE("first dimensions come to all hosts by rank") {
    // Ranks 0 and 2 are on host 0, ranks 1 and 3 on host 1.
    const std::vector<std::int32_t> host_of = {0, 1, 0, 1};
    TreeNode root({.host = 0, .shape = {2, 8}, .host_of = host_of, .job_ranks = {}});
    TreeNode leaf({.host = 1, .shape = {2, 8}, .host_of = host_of, .job_ranks = {}});
    root.announce({by_name("g"), {{gather_of(2), {{0, 0}, {2, 2}}}}, {{0, {10, 12}}}});
    leaf.announce({by_name("g"), {{gather_of(2), {{1, 1}, {3, 3}}}}, {{1, {11, 13}}}});
    const auto up = leaf.next_message(0);
    REQUIRE(up.has_value());
    REQUIRE(root.receive(1, *up).is_ok());
    const auto call = root.next_decision();
    REQUIRE(call.has_value());
    CHECK(call->rows == std::vector<std::int64_t>{10, 11, 12, 13});
    CHECK(call->bytes == 8);  // bytes of one row
    CHECK_FALSE(root.next_decision().has_value());
}

TEST_CASE("small allreduces that are ready together are called together, up to the threshold") {
    Leaders leaders({.hosts = 3, .fusion_threshold_bytes = 40, .batches_ahead = 100});
    // The expected batches (each "|" separates two batches), with the size of each tensor in bytes: 16 + 16 | 12 | 44 |
    // broadcast | 4 + 4
    Metadata broadcast = allreduce_of({1});
    broadcast.operation = static_cast<std::uint8_t>(collectives::Operation::broadcast);
    const std::vector<Metadata> metadata = {allreduce_of({4}),  allreduce_of({4}), allreduce_of({3}), broadcast,
                                            allreduce_of({11}), allreduce_of({1}), allreduce_of({1})};
    give_ids(leaders, metadata);
    for (const std::uint64_t id : {1U, 2U, 3U, 5U, 4U, 6U, 7U}) {
        leaders.announce_everywhere(by_id(id));
    }
    leaders.run();
    const std::vector<Decision> calls = leaders.decisions();
    CHECK(ids_of(calls) == std::vector<std::uint64_t>{1, 2, 3, 5, 4, 6, 7});
    CHECK(batches_of(calls) == std::vector<int>{2, 1, 1, 1, 2});
}

TEST_CASE("sums and adasums are not called together") {
    Leaders leaders({.hosts = 3, .fusion_threshold_bytes = 1024, .batches_ahead = 100});
    const Metadata sum = allreduce_of({4});
    Metadata adasum = sum;
    adasum.reduce_op = static_cast<std::uint8_t>(ReduceOp::adasum);
    give_ids(leaders, {sum, sum, adasum, adasum, adasum, sum});
    for (std::uint64_t id = 1; id <= 6; ++id) {
        leaders.announce_everywhere(by_id(id));
    }
    leaders.run();
    const std::vector<Decision> calls = leaders.decisions();
    CHECK(ids_of(calls) == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6});
    CHECK(batches_of(calls) == std::vector<int>{2, 3, 1});
}

TEST_CASE("a threshold of 0 calls every tensor by itself, and a batch has an end whatever the threshold") {
    Leaders alone({.hosts = 2, .fusion_threshold_bytes = 0});
    alone.announce_everywhere(by_name("a"), allreduce_of({0}));
    alone.announce_everywhere(by_name("b"), allreduce_of({0}));
    alone.run();
    CHECK(batches_of(alone.decisions()) == std::vector<int>{1, 1});

    Leaders many({.hosts = 1, .fusion_threshold_bytes = 1ULL << 40});
    for (std::uint64_t call = 0; call < kBatchEntries + 5; ++call) {
        many.announce_everywhere(by_call(call), allreduce_of({1}));
    }
    many.run();
    CHECK(batches_of(many.decisions()) == std::vector<int>{kBatchEntries, 5});
}

TEST_CASE("while two batches are not executed, ready tensors wait and are added, unless they fill a batch") {
    Leaders leaders({.hosts = 3, .fusion_threshold_bytes = 32});
    give_ids(leaders, std::vector<Metadata>(8, allreduce_of({2})));  // each tensor has 8 bytes
    const auto announce = [&leaders](std::uint64_t id) {
        leaders.announce_everywhere(by_id(id));
        leaders.run();
        return ids_of(leaders.decisions());
    };
    using Ids = std::vector<std::uint64_t>;
    CHECK(announce(1) == Ids{1});
    CHECK(announce(2) == Ids{2});
    CHECK(announce(3).empty());
    CHECK(announce(4).empty());
    CHECK(leaders[0].pending().size() == 2);
    leaders[0].executed(2 + 1);  // the root has executed three calls: two from give_ids(), and one after them
    leaders.run();
    const std::vector<Decision> joined = leaders.decisions();
    CHECK(ids_of(joined) == Ids{3, 4});
    CHECK(batches_of(joined) == std::vector<int>{2});
    CHECK(announce(5).empty());
    CHECK(announce(6).empty());
    CHECK(announce(7).empty());
    CHECK(announce(8) == Ids{5, 6, 7, 8});  // the four tensors together have 32 bytes, which is the batch's threshold
}

TEST_CASE("operations outside of batches keep their place in the order") {
    Leaders leaders({.hosts = 2, .fusion_threshold_bytes = 1000});
    give_ids(leaders, std::vector<Metadata>(4, allreduce_of({2})));
    for (const std::uint64_t id : {1U, 2U}) {
        leaders.announce_everywhere(by_id(id));
        leaders.run();
    }
    (void)leaders.decisions();
    leaders.announce_everywhere(by_id(3));  // this tensor waits
    leaders.run();
    CHECK(leaders.decisions().empty());
    leaders.announce(0, by_name("x"), allreduce_of({1}));
    leaders.announce(1, by_name("x"), allreduce_of({2}));
    leaders.run();
    const std::vector<Decision> decisions = leaders.decisions();
    REQUIRE(decisions.size() == 2);
    CHECK(decisions[0].id == 3);
    CHECK(decisions[0].ends_batch);
    CHECK(decisions[1].kind == DecisionKind::disagreed);
}

TEST_CASE("one message up is under way, and what comes meanwhile goes with the next") {
    Leaders leaders({.hosts = 2});
    leaders.announce(1, by_name("a"), allreduce_of({1}));
    auto first = leaders[1].next_message(0);
    REQUIRE(first.has_value());
    leaders.announce(1, by_name("b"), allreduce_of({1}));
    leaders.announce(1, by_name("c"), allreduce_of({1}));
    CHECK_FALSE(leaders[1].next_message(0).has_value());
    REQUIRE(leaders.deliver(1, 0, *first).is_ok());
    auto answer = leaders[0].next_message(1);  // the answer contains no decision
    REQUIRE(answer.has_value());
    CHECK(std::get<DownMessage>(*answer).decisions.empty());
    CHECK(std::get<DownMessage>(*answer).acknowledged == 1);
    CHECK_FALSE(leaders[0].next_message(1).has_value());
    CHECK_FALSE(leaders[1].next_message(0).has_value());
    REQUIRE(leaders.deliver(0, 1, *answer).is_ok());
    const auto second = leaders[1].next_message(0);
    REQUIRE(second.has_value());
    CHECK(std::get<UpMessage>(*second).number == 2);
    CHECK(std::get<UpMessage>(*second).announcements.size() == 2);
}

TEST_CASE("messages that would be too long go in parts, and nothing is lost or out of order") {
    // 600 names of 500 bytes travel up and down the tree. All names together are five times as long as the longest
    // message.
    Leaders leaders({.hosts = 4, .radix = 1});
    std::vector<std::string> names;
    for (int i = 0; i < 600; ++i) {
        names.push_back(std::to_string(1000 + i) + std::string(496, 'n'));
        leaders.announce_everywhere(by_name(names.back()), allreduce_of({1}));
    }
    leaders.run();  // run() requires that no message is too long
    const std::vector<Decision> calls = leaders.decisions();
    REQUIRE(calls.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        CHECK(calls[i].name == names[i]);
        CHECK(calls[i].id == i + 1);
    }
}

TEST_CASE("a batch in parts is handed out when all of it is there") {
    Leaders leaders({.hosts = 2});
    give_ids(leaders, std::vector<Metadata>(2, allreduce_of({1})));
    leaders.announce_everywhere(by_id(1));
    leaders.announce_everywhere(by_id(2));
    REQUIRE(leaders[1].next_message(0).has_value());
    Decision call;
    call.id = 1;
    REQUIRE(leaders[1].receive(0, DownMessage{1, {call}}).is_ok());
    CHECK_FALSE(leaders[1].next_decision().has_value());
    call.id = 2;
    call.ends_batch = true;
    REQUIRE(leaders[1].receive(0, DownMessage{2, {call}}).is_ok());
    CHECK(leaders[1].next_decision().value().id == 1);
    CHECK(leaders[1].next_decision().value().id == 2);
    CHECK_FALSE(leaders[1].next_decision().has_value());
}

TEST_CASE("the first shutdown closes: what is pending ends, and later announcements are nothing") {
    Leaders leaders({.hosts = 4, .ranks_per_host = 2, .radix = 2});
    give_ids(leaders, {allreduce_of({3})});
    leaders[0].announce({by_id(1), {}, {}});
    leaders.announce(3, by_name("x"), allreduce_of({3}));
    leaders[3].shut_down(7);
    leaders.run();
    const Decision closing = leaders.only_decision();
    CHECK(closing.kind == DecisionKind::closing);
    CHECK(closing.rank == 7);
    for (std::uint32_t host = 0; host < 4; ++host) {
        CHECK(leaders[host].pending().empty());
        leaders[host].announce({by_id(1), {}, {}});
        leaders[host].announce({by_id(1), {}, {}});
        leaders[host].release(1);
        leaders[host].shut_down(static_cast<std::int32_t>(2 * host));
    }
    CHECK(leaders.run() == 0);
    CHECK(leaders.decisions().empty());
    for (std::uint32_t host = 0; host < 4; ++host) {
        CHECK(leaders.decisions().empty());
        leaders[host].close();
        leaders.run();
    }
    CHECK(leaders.only_decision().kind == DecisionKind::closed);
}

TEST_CASE("an inner host and the root ignore an announcement that crosses the notification of the shutdown") {
    Leaders leaders({.hosts = 3, .radix = 1});
    leaders.announce(2, by_name("x"), allreduce_of({3}));
    const auto late = leaders[2].next_message(1);
    REQUIRE(late.has_value());
    leaders[0].shut_down(0);
    const auto news = leaders[0].next_message(1);
    REQUIRE(news.has_value());
    REQUIRE(leaders.deliver(0, 1, *news).is_ok());
    REQUIRE(leaders.deliver(2, 1, *late).is_ok());
    leaders.run();
    CHECK(leaders.only_decision().kind == DecisionKind::closing);
    for (const std::uint32_t host : {2U, 1U, 0U}) {
        leaders[host].close();
    }
    leaders.run();
    CHECK(leaders.only_decision().kind == DecisionKind::closed);
}

TEST_CASE("a host that learns of the shutdown no longer sends what it had not yet sent") {
    Leaders leaders({.hosts = 2, .ranks_per_host = 2});
    leaders.announce(1, by_name("x"), allreduce_of({3}));
    const auto first = leaders[1].next_message(0);
    REQUIRE(first.has_value());
    leaders.announce(1, by_name("y"), allreduce_of({3}));
    leaders[1].shut_down(2);
    leaders[0].shut_down(0);
    REQUIRE(leaders.deliver(1, 0, *first).is_ok());
    // one message contains the decision and its acknowledgement; no message goes up the tree
    CHECK(leaders.run() == 1);
    CHECK(leaders.only_decision().rank == 0);
}

TEST_CASE("announcements before a shutdown of the same host are counted before it") {
    Leaders leaders({.hosts = 2});
    leaders.announce(0, by_name("x"), allreduce_of({3}));
    leaders.announce(1, by_name("x"), allreduce_of({3}));
    leaders[1].shut_down(1);
    leaders.run();
    const std::vector<Decision> decisions = leaders.decisions();
    REQUIRE(decisions.size() == 2);
    CHECK(decisions[0].kind == DecisionKind::call);
    CHECK(decisions[1].kind == DecisionKind::closing);
}

TEST_CASE("the stall report learns which hosts have not announced") {
    Leaders leaders({.hosts = 7, .radix = 2});  // the tree: 0 has the children 1 and 2; 1 has 3 and 4; 2 has 5 and 6
    for (const std::uint32_t host : {0U, 1U, 2U, 3U, 5U, 6U}) {
        leaders.announce(host, by_name("w"), allreduce_of({3}));
    }
    leaders.announce(1, by_call(4), allreduce_of({3}));
    leaders.run();
    auto pending = leaders[0].pending();
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].name == "w");
    CHECK(pending[0].missing_hosts == std::vector<std::uint32_t>{1, 3, 4});
    pending = leaders[1].pending();
    REQUIRE(pending.size() == 2);
    CHECK(pending[0].missing_hosts == std::vector<std::uint32_t>{4});
    CHECK(pending[1].name.empty());
    CHECK(pending[1].missing_hosts == std::vector<std::uint32_t>{3, 4});
    CHECK(leaders[2].pending().at(0).missing_hosts.empty());
    CHECK(leaders[4].pending().empty());
}

TEST_CASE("heartbeats change nothing, and an abort ends with its reason") {
    Leaders leaders({.hosts = 2});
    CHECK(leaders[0].receive(1, HeartbeatMessage{}).is_ok());
    const Status status = leaders[0].receive(1, AbortMessage{5, "rank 1 was killed"});
    CHECK(status.code() == ErrorCode::aborted);
    CHECK(status.message() == "rank 1 was killed");
}

UpMessage numbered(std::uint64_t number) {
    UpMessage message;
    message.number = number;
    return message;
}

/// Delivers a message to node `to`, and returns the result. The tree has radix 2 and 7 hosts of two ranks. The
/// operation "a" was called once before.
Status answer_of(std::uint32_t from, std::uint32_t to, const TreeMessage& message) {
    Leaders leaders({.hosts = 7, .ranks_per_host = 2, .radix = 2});
    leaders.announce_everywhere(by_name("a"), allreduce_of({3}));
    leaders.run();
    const Status status = leaders[to].receive(from, message);
    if (!status.is_ok()) {
        CHECK(status.code() == ErrorCode::internal);
        CHECK(leaders[to].status().message() == status.message());
        CHECK(leaders[to].receive(from, HeartbeatMessage{}).message() == status.message());
        CHECK_FALSE(leaders[to].next_message(from).has_value());
        CHECK_FALSE(leaders[to].next_decision().has_value());
    }
    return status;
}

TEST_CASE("a message that no working leader sends is refused, with the reason") {
    const auto up = [](Announcement announcement) {
        UpMessage message = numbered(2);
        message.announcements.push_back(std::move(announcement));
        return message;
    };
    const auto text = [](std::uint32_t from, std::uint32_t to, const TreeMessage& message) {
        return answer_of(from, to, message).message();
    };
    const Metadata same = allreduce_of({3});
    CHECK(answer_of(1, 0, up({by_id(1), {}, {}})).is_ok());
    CHECK(text(3, 0, up({by_id(1), {}, {}})) == "host 3 sent host 0: a message that goes to other hosts");
    CHECK(text(9, 0, numbered(1)) == "host 9 sent host 0: a message that goes to other hosts");
    CHECK(text(0, 1, numbered(1)) == "host 0 sent host 1: a message that goes to other hosts");
    CHECK(text(1, 0, DownMessage{}) == "host 1 sent host 0: a message that goes to other hosts");
    CHECK(text(1, 0, numbered(3)) == "host 1 sent host 0: message 3, when it was told that 1 of 1 were taken in");
    CHECK(text(1, 0, up({by_id(2), {}, {}})) ==
          "host 1 sent host 0: the tensor of id 2 is announced, and no name has that id");
    UpMessage twice = up({by_id(1), {}, {}});
    twice.announcements.push_back({by_name("a"), {{same, {{2, 3}, {6, 9}}}}, {}});
    CHECK(text(1, 0, twice) == "host 1 sent host 0: tensor 'a' is announced again before it was decided on");
    CHECK(text(1, 0, up({by_name("b"), {{same, {{2, 3}}}}, {}})) ==
          "host 1 sent host 0: claims of ranks 2, 3, and ranks 2, 3, 6-9 are meant");
    CHECK(text(1, 0, up({by_name("b"), {{same, {{2, 3}, {6, 9}}}, {allreduce_of({4}), {{9, 9}}}}, {}})) ==
          "host 1 sent host 0: claims of ranks 2, 3, 6-9, some of them twice, and ranks 2, 3, 6-9 are meant");
    CHECK(text(1, 0, up({by_name("b"), {{same, {{2, 3}, {6, 9}}}}, {{5, {1, 1}}}})) ==
          "host 1 sent host 0: tensor 'b' has 2 first dimensions of host 5");
    CHECK(text(1, 0, up({by_name("b"), {{same, {{2, 3}, {6, 9}}}}, {{3, {1}}}})) ==
          "host 1 sent host 0: tensor 'b' has 1 first dimensions of host 3");
    UpMessage message = numbered(2);
    message.releases = {{7, 1}};
    CHECK(text(1, 0, message) ==
          "host 1 sent host 0: 1 hosts release the id 7, and it speaks for 3; no name has that id");
    message.releases = {{1, 4}};
    CHECK(text(1, 0, message) == "host 1 sent host 0: 4 hosts release the id 1, and it speaks for 3; the name is 'a'");
    message.releases = {{1, 3}, {1, 3}, {1, 3}};
    CHECK(text(1, 0, message) == "host 1 sent host 0: 3 hosts more released tensor 'a', after 6 of 7");
    message.releases.clear();
    message.shutting_down = {4};
    CHECK(text(1, 0, message) == "host 1 sent host 0: rank 4 shuts down, and it speaks for ranks 2, 3, 6-9");
    message.shutting_down = {2};
    message.closed_hosts = 4;
    CHECK(text(1, 0, message) == "host 1 sent host 0: 4 hosts have closed, and it speaks for 3");
    message.shutting_down = {};
    message.closed_hosts = 1;
    CHECK(text(1, 0, message) ==
          "host 1 sent host 0: 1 of 7 hosts say that all their ranks have shut down, and no rank has");

    CHECK(text(0, 1, DownMessage{2, {}}) == "host 0 sent host 1: message 2 was taken in, after 1 of 1");
    CHECK(text(0, 1, DownMessage{0, {}}) == "host 0 sent host 1: message 0 was taken in, after 1 of 1");
    Decision call;
    call.id = 1;
    call.ends_batch = true;
    CHECK(text(0, 1, DownMessage{1, {call}}) ==
          "host 0 sent host 1: tensor 'a' is decided on, and host 1 has not announced it");
    call.id = 2;
    CHECK(text(0, 1, DownMessage{1, {call}}) ==
          "host 0 sent host 1: the tensor of id 2 is announced, and no name has that id");
    call.id = 1;
    call.name = "b";
    CHECK(text(0, 1, DownMessage{1, {call}}) == "host 0 sent host 1: tensor 'a' is called 'b'");
    Decision closing;
    closing.kind = DecisionKind::closing;
    CHECK(text(0, 1, DownMessage{1, {closing, closing}}) == "host 0 sent host 1: a decision of kind 3 after the end");
    Decision closed;
    closed.kind = DecisionKind::closed;
    CHECK(text(0, 1, DownMessage{1, {closed}}) == "host 0 sent host 1: the end without a shutdown");
}

TEST_CASE("a claim that refers to a call that never was ends the job") {
    Leaders leaders({.hosts = 2});
    leaders[0].announce({by_name("x"), {}, {}});
    leaders[1].announce({by_name("x"), {}, {}});
    const auto up = leaders[1].next_message(0);
    REQUIRE(up.has_value());
    CHECK(leaders[0].receive(1, *up).message() ==
          "host 1 sent host 0: ranks 0, 1 announced tensor 'x' as it was called before, and it never was");
    Leaders one({.hosts = 1});
    one[0].announce({by_call(3), {}, {}});
    CHECK(one[0].status().code() == ErrorCode::internal);
}

TEST_CASE("an operation of variable size needs the first dimension of every rank") {
    Leaders leaders({.hosts = 1, .ranks_per_host = 2});
    leaders[0].announce({by_name("g"), {{gather_of(1), {{0, 1}}}}, {}});
    CHECK(leaders[0].status().message() ==
          "an operation of variable size was announced without the first dimension of rank 0");
}

}  // namespace
}  // namespace rueda::core::test
