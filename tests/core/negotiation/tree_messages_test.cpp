// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/tree_messages.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <variant>

#include "base/text.hpp"
#include "collectives/transport.hpp"
#include "core/diagnostics/stall_inquiry.hpp"
#include "core/negotiation/carried.hpp"
#include "tests/core/negotiation/leaders.hpp"

namespace rueda::core::test {
namespace {

constexpr std::uint32_t kRanks = 6;
constexpr std::uint32_t kHosts = 3;

/// Returns metadata in which every field is set, except compression, because an alltoall has none.
Metadata everything_set() {
    Metadata metadata = allreduce_of({Metadata::kAnyExtent, 7}, DType::int64);
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::alltoall);
    metadata.reduce_op = 1;
    metadata.root = 5;
    metadata.process_set = 3;
    metadata.prescale = std::numeric_limits<double>::quiet_NaN();
    metadata.postscale = -0.0;
    return metadata;
}

Metadata compressed() {
    Metadata metadata = allreduce_of({3});
    metadata.compression = 2;
    return metadata;
}

UpMessage full_up() {
    UpMessage up;
    up.number = 77;
    up.releases = {{5, 2}, {9, 1}};
    up.announcements.push_back({by_id(4), {}, {}});
    up.announcements.push_back(
        {by_name("layer1"), {{everything_set(), {{0, 1}, {3, 3}}}, {std::nullopt, {{2, 2}}}}, {}});
    up.announcements.push_back({by_call(0), {{compressed(), {{4, 5}}}}, {{0, {1, 0}}, {2, {1LL << 40, 3}}}});
    up.announcements.push_back({by_id(8), {}, {}, {{0, 1}, {4, 4}}, {{3, 3}}});
    up.announcements.push_back({by_id(9), {{std::nullopt, {{5, 5}}}}, {}, {}, {{0, 4}}});
    up.announcements.push_back({by_id(10), {}, {}, {}, {}, CarriedBytes(5, std::byte{7})});
    up.joined = {1, 5};
    up.shutting_down = {3, 0};
    up.settled_hosts = 1;
    up.closed_hosts = 2;
    return up;
}

DownMessage full_down() {
    DownMessage down;
    down.acknowledged = 1ULL << 50;
    Decision call;
    call.id = 3;
    call.name = "layer1";
    call.bytes = 1ULL << 33;
    down.decisions.push_back(call);
    Decision unnamed;
    unnamed.call = 0;
    unnamed.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
    unnamed.rows = {0, 1, 2, 3, 4, 5};
    unnamed.ends_batch = true;
    down.decisions.push_back(unnamed);
    Decision disagreed;
    disagreed.kind = DecisionKind::disagreed;
    disagreed.name = "layer2";
    disagreed.text = "tensor 'layer2': the ranks disagree";
    disagreed.rows = {2, 1LL << 40};
    down.decisions.push_back(disagreed);
    Decision forget;
    forget.kind = DecisionKind::forget;
    forget.id = 3;
    down.decisions.push_back(forget);
    Decision closing;
    closing.kind = DecisionKind::closing;
    closing.rank = 5;
    down.decisions.push_back(closing);
    Decision closed;
    closed.kind = DecisionKind::closed;
    down.decisions.push_back(closed);
    Decision without = call;
    without.id = 11;
    without.metadata = allreduce_of({2, 3}, DType::float64);
    without.uncounted = 4;
    down.decisions.push_back(without);
    Decision group;
    group.call = 7;
    group.operation = static_cast<std::uint8_t>(collectives::Operation::group);
    group.rows = {2, kJoinedRows, 2, 2, kJoinedRows, 3};
    down.decisions.push_back(group);
    Decision lacks = disagreed;
    lacks.rows.clear();
    lacks.kind = DecisionKind::lacks_joined;
    down.decisions.push_back(lacks);
    Decision wanted;
    wanted.kind = DecisionKind::wanted;
    wanted.name = "layer3";
    down.decisions.push_back(wanted);
    wanted.name.clear();
    wanted.call = 1ULL << 40;
    down.decisions.push_back(wanted);
    Decision impossible = lacks;
    impossible.kind = DecisionKind::impossible;
    impossible.code = ErrorCode::unsupported;
    down.decisions.push_back(impossible);
    Decision back;
    back.kind = DecisionKind::all_joined;
    back.rank = 3;
    down.decisions.push_back(back);
    Decision carried;
    carried.id = 12;
    carried.ends_batch = true;
    carried.bytes = 8;
    carried.result = CarriedBytes(8, std::byte{9});
    down.decisions.push_back(carried);
    Decision offered;
    offered.kind = DecisionKind::offered;
    offered.id = 13;
    offered.metadata = allreduce_of({2, 3}, DType::float64);
    down.decisions.push_back(offered);
    offered.result = CarriedBytes(48, std::byte{7});
    down.decisions.push_back(offered);
    return down;
}

template <class Message>
Message back(const Message& message) {
    const auto parsed = parse_tree_message(encode(message), kRanks, kHosts);
    INFO(parsed.status().message());
    REQUIRE(parsed.is_ok());
    REQUIRE(std::holds_alternative<Message>(parsed.value()));
    return std::get<Message>(parsed.value());
}

std::string error_of(const TreeMessage& message) {
    const auto parsed = parse_tree_message(encode(message), kRanks, kHosts);
    REQUIRE_FALSE(parsed.is_ok());
    CHECK(parsed.status().code() == ErrorCode::internal);
    return parsed.status().message();
}

const std::string kDamaged = "a message between hosts is damaged: ";

TEST_CASE("a decoded message to the parent is equal to the encoded one") {
    const UpMessage up = back(full_up());
    CHECK(up.number == 77);
    REQUIRE(up.releases.size() == 2);
    CHECK(up.releases[0].id == 5);
    CHECK(up.releases[0].hosts == 2);
    CHECK(up.releases[1].id == 9);
    REQUIRE(up.announcements.size() == 6);
    CHECK(up.announcements[0].key == by_id(4));
    CHECK(up.announcements[0].claims.empty());
    const Announcement& named = up.announcements[1];
    CHECK(named.key == by_name("layer1"));
    REQUIRE(named.claims.size() == 2);
    REQUIRE(named.claims[0].metadata.has_value());
    const Metadata expected = everything_set();
    CHECK(std::memcmp(&*named.claims[0].metadata, &expected, sizeof(Metadata)) == 0);
    CHECK(named.claims[0].ranks == std::vector<RankRange>{{0, 1}, {3, 3}});
    CHECK_FALSE(named.claims[1].metadata.has_value());
    CHECK(named.claims[1].ranks == std::vector<RankRange>{{2, 2}});
    CHECK(named.rows.empty());
    const Announcement& unnamed = up.announcements[2];
    CHECK(unnamed.key == by_call(0));
    REQUIRE(unnamed.claims.size() == 1);
    const Metadata allreduce = compressed();
    CHECK(std::memcmp(&*unnamed.claims[0].metadata, &allreduce, sizeof(Metadata)) == 0);
    REQUIRE(unnamed.rows.size() == 2);
    CHECK(unnamed.rows[0].rows == std::vector<std::int64_t>{1, 0});
    CHECK(unnamed.rows[1].host == 2);
    CHECK(unnamed.rows[1].rows == std::vector<std::int64_t>{1LL << 40, 3});
    CHECK(unnamed.joined.empty());
    CHECK(unnamed.uncounted.empty());
    CHECK(up.announcements[3].joined == std::vector<RankRange>{{0, 1}, {4, 4}});
    CHECK(up.announcements[3].uncounted == std::vector<RankRange>{{3, 3}});
    CHECK(up.announcements[4].joined.empty());
    CHECK(up.announcements[4].uncounted == std::vector<RankRange>{{0, 4}});
    CHECK(up.announcements[4].input.empty());
    CHECK(up.announcements[5].input == CarriedBytes(5, std::byte{7}));
    CHECK(up.joined == std::vector<std::int32_t>{1, 5});
    CHECK(up.shutting_down == std::vector<std::int32_t>{3, 0});
    CHECK(up.settled_hosts == 1);
    CHECK(up.closed_hosts == 2);
}

TEST_CASE("a decoded message to a child is equal to the encoded one") {
    const DownMessage down = back(full_down());
    CHECK(down.acknowledged == 1ULL << 50);
    REQUIRE(down.decisions.size() == 16);
    const Decision& call = down.decisions[0];
    CHECK(call.kind == DecisionKind::call);
    CHECK(call.id == 3);
    CHECK(call.name == "layer1");
    CHECK(call.bytes == 1ULL << 33);
    CHECK_FALSE(call.ends_batch);
    CHECK_FALSE(call.call.has_value());
    const Decision& unnamed = down.decisions[1];
    CHECK(unnamed.call == 0U);
    CHECK(unnamed.id == 0);
    CHECK(unnamed.ends_batch);
    CHECK(unnamed.operation == 2);
    CHECK(unnamed.rows == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
    CHECK(down.decisions[2].kind == DecisionKind::disagreed);
    CHECK(down.decisions[2].name == "layer2");
    CHECK(down.decisions[2].text == "tensor 'layer2': the ranks disagree");
    CHECK(down.decisions[2].rows == std::vector<std::int64_t>{2, 1LL << 40});
    CHECK(down.decisions[3].kind == DecisionKind::forget);
    CHECK(down.decisions[3].id == 3);
    CHECK(down.decisions[4].kind == DecisionKind::closing);
    CHECK(down.decisions[4].rank == 5);
    CHECK(down.decisions[5].kind == DecisionKind::closed);
    const Decision& without = down.decisions[6];
    CHECK(without.id == 11);
    CHECK(without.uncounted == 4);
    REQUIRE(without.metadata.has_value());
    CHECK(agree(*without.metadata, allreduce_of({2, 3}, DType::float64)));
    CHECK(down.decisions[7].rows == std::vector<std::int64_t>{2, -1, 2, 2, -1, 3});
    CHECK_FALSE(down.decisions[7].metadata.has_value());
    CHECK(down.decisions[7].uncounted == 0);
    CHECK(down.decisions[8].kind == DecisionKind::lacks_joined);
    CHECK(down.decisions[8].text == "tensor 'layer2': the ranks disagree");
    CHECK(down.decisions[9].kind == DecisionKind::wanted);
    CHECK(down.decisions[9].name == "layer3");
    CHECK(down.decisions[10].call == 1ULL << 40);
    CHECK(down.decisions[11].kind == DecisionKind::impossible);
    CHECK(down.decisions[11].name == "layer2");
    CHECK(down.decisions[11].text == "tensor 'layer2': the ranks disagree");
    CHECK(down.decisions[11].code == ErrorCode::unsupported);
    CHECK(down.decisions[12].kind == DecisionKind::all_joined);
    CHECK(down.decisions[12].rank == 3);
    CHECK(down.decisions[12].result.empty());
    CHECK(down.decisions[13].result == CarriedBytes(8, std::byte{9}));
    for (const std::size_t offered : {14U, 15U}) {
        CHECK(down.decisions[offered].kind == DecisionKind::offered);
        CHECK(down.decisions[offered].id == 13);
        REQUIRE(down.decisions[offered].metadata.has_value());
        CHECK(agree(*down.decisions[offered].metadata, allreduce_of({2, 3}, DType::float64)));
    }
    CHECK(down.decisions[14].result.empty());
    CHECK(down.decisions[15].result == CarriedBytes(48, std::byte{7}));
}

TEST_CASE("other messages are equal after decoding, and the text of an abort becomes one short line") {
    (void)back(HeartbeatMessage{});
    CHECK(back(WithdrawalMessage{1ULL << 40}).taken == 1ULL << 40);
    const AbortMessage abort = back(AbortMessage{5, "rank 3 was\nkilled"});
    CHECK(abort.code == 5);
    CHECK(abort.text == "rank 3 was?killed");
    CHECK(back(AbortMessage{5, std::string(10000, 'x')}).text ==
          base::shortened(std::string(10000, 'x'), kMostTextBytes));
}

TEST_CASE("only a heartbeat is so short that it need not wake a leader that sleeps") {
    constexpr std::size_t kQuiet = collectives::Transport::kQuietBytes;
    CHECK(encode(HeartbeatMessage{}).size() <= kQuiet);
    CHECK(encode(AbortMessage{}).size() > kQuiet);
    CHECK(encode(UpMessage{}).size() > kQuiet);
    CHECK(encode(DownMessage{}).size() > kQuiet);
    CHECK(encode(StallMessage{}).size() > kQuiet);
    CHECK(encode(WithdrawalMessage{}).size() > kQuiet);
}

TEST_CASE("a plain announcement is 12 bytes, and every length is known before") {
    UpMessage up;
    up.number = 1;
    CHECK(encode(up).size() == empty_message_bytes());
    CHECK(encode(DownMessage{}).size() <= empty_message_bytes());
    std::size_t expected = empty_message_bytes();
    const UpMessage full = full_up();
    CHECK(encoded_bytes(full.announcements[0]) == 12);
    for (const Announcement& announcement : full.announcements) {
        up.announcements.push_back(announcement);
        expected += encoded_bytes(announcement);
        CHECK(encode(up).size() == expected);
    }
    up.releases.push_back({1, 1});
    up.shutting_down.push_back(0);
    up.joined.push_back(0);
    CHECK(encode(up).size() == expected + kReleaseBytes + kShuttingDownBytes + kJoinedBytes);

    DownMessage down;
    expected = encode(down).size();
    for (const Decision& decision : full_down().decisions) {
        down.decisions.push_back(decision);
        expected += encoded_bytes(decision);
        CHECK(encode(down).size() == expected);
    }
}

TEST_CASE("the longest that cannot be split fits into a message") {
    for (const std::uint32_t ranks : {1U, 2U, 1000U, 16384U}) {
        Announcement longest = {by_name(std::string(RUEDA_MAX_NAME, 'n')), {}, {}};
        Metadata metadata = allreduce_of({});
        metadata.ndim = RUEDA_MAX_DIMENSIONS;
        for (std::size_t i = 0; i < kMostClaims; ++i) {
            longest.claims.push_back({metadata, {}});
        }
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const auto r = static_cast<std::int32_t>(rank);
            longest.claims[rank % kMostClaims].ranks.push_back({r, r});
            longest.rows.push_back({rank, {1}});
        }
        CHECK(empty_message_bytes() + encoded_bytes(longest) <= most_message_bytes(ranks));
        // A rank may appear only once, either in a claim or in `joined` or in `uncounted`. To fill `joined` and
        // `uncounted`, the test moves the ranks of two claims there.
        longest.joined.swap(longest.claims[0].ranks);
        longest.uncounted.swap(longest.claims[1].ranks);
        CHECK(empty_message_bytes() + encoded_bytes(longest) <= most_message_bytes(ranks));

        Decision call;
        call.id = 1;
        call.name = longest.key.name;
        call.rows.resize(ranks);
        call.metadata = metadata;
        call.uncounted = 1;
        CHECK(empty_message_bytes() + encoded_bytes(call) <= most_message_bytes(ranks));
        call.result.resize(kMostCarriedBytes);
        CHECK(empty_message_bytes() + encoded_bytes(call) <= most_message_bytes(ranks));
        Decision disagreed;
        disagreed.kind = DecisionKind::disagreed;
        disagreed.name = call.name;
        disagreed.text = std::string(kMostTextBytes, 't');
        CHECK(empty_message_bytes() + encoded_bytes(disagreed) <= most_message_bytes(ranks));
    }
}

TEST_CASE("a message that is shorter or longer than its length field is refused") {
    for (const TreeMessage& message : std::vector<TreeMessage>{full_up(), full_down(), AbortMessage{5, "reason"}}) {
        std::vector<std::byte> bytes = encode(message);
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            CHECK_FALSE(parse_tree_message(std::span(bytes).first(length), kRanks, kHosts).is_ok());
        }
        bytes.push_back(std::byte{0});
        const auto parsed = parse_tree_message(bytes, kRanks, kHosts);
        REQUIRE_FALSE(parsed.is_ok());
        CHECK(parsed.status().message() == kDamaged + "there are bytes behind its end");
    }
}

TEST_CASE("a message with any byte changed is refused or is another proper message") {
    for (const TreeMessage& message : std::vector<TreeMessage>{full_up(), full_down(), AbortMessage{5, "reason"}}) {
        const std::vector<std::byte> good = encode(message);
        int refused = 0;
        for (std::size_t at = 0; at < good.size(); ++at) {
            for (const int flip : {0x01, 0x80, 0xff}) {
                std::vector<std::byte> bytes = good;
                bytes[at] ^= static_cast<std::byte>(flip);
                const auto parsed = parse_tree_message(bytes, kRanks, kHosts);
                if (parsed.is_ok()) {
                    CHECK(encode(parsed.value()) == bytes);
                } else {
                    ++refused;
                    CHECK(parsed.status().message().starts_with(kDamaged));
                }
            }
        }
        CHECK(refused > 0);
    }
}

TEST_CASE("a length that is larger than the message allocates no memory") {
    // The message claims to contain 2^32 - 1 decisions, but contains none.
    std::vector<std::byte> bytes(13, std::byte{0});
    bytes[0] = std::byte{2};
    std::memset(bytes.data() + 9, 0xff, 4);
    const auto parsed = parse_tree_message(bytes, kRanks, kHosts);
    REQUIRE_FALSE(parsed.is_ok());
    CHECK(parsed.status().message() == kDamaged + "it ends too early, or a text in it is too long");
}

TEST_CASE("bytes that no leader writes are refused, with the value found") {
    const auto up = [](const std::function<void(UpMessage&)>& spoil) {
        UpMessage message = full_up();
        spoil(message);
        return error_of(message);
    };
    CHECK(up([](UpMessage& m) { m.number = 0; }) == kDamaged + "its number is 0");
    CHECK(up([](UpMessage& m) { m.closed_hosts = 4; }) == kDamaged + "4 of 3 hosts have closed");
    CHECK(up([](UpMessage& m) { m.shutting_down = {6}; }) == kDamaged + "rank 6 is not one of 6");
    CHECK(up([](UpMessage& m) { m.shutting_down = {-1}; }) == kDamaged + "rank -1 is not one of 6");
    CHECK(up([](UpMessage& m) { m.releases[0].hosts = 4; }) == kDamaged + "id 5 is released by 4 of 3 hosts");
    CHECK(up([](UpMessage& m) { m.announcements[1].key.name = std::string(RUEDA_MAX_NAME + 1, 'x'); }) ==
          kDamaged + "it ends too early, or a text in it is too long");
    CHECK(up([](UpMessage& m) {
              m.announcements[1].claims[0].ranks = {{3, 3}, {3, 4}};
          }) == kDamaged + "a claim has the ranks 3 to 4 behind 3, of 6");
    CHECK(up([](UpMessage& m) {
              m.announcements[1].claims[0].ranks = {{2, 1}};
          }) == kDamaged + "a claim has the ranks 2 to 1 behind -1, of 6");
    CHECK(up([](UpMessage& m) {
              m.announcements[1].claims[0].ranks = {{0, 6}};
          }) == kDamaged + "a claim has the ranks 0 to 6 behind -1, of 6");
    CHECK(up([](UpMessage& m) { m.announcements[1].claims[0].ranks.clear(); }) == kDamaged + "a claim is nobody's");
    CHECK(up([](UpMessage& m) { m.announcements[1].claims[0].metadata->dtype = 99; }) ==
          kDamaged + "metadata that no rank means");
    CHECK(up([](UpMessage& m) { m.announcements[1].claims[0].metadata->root = 6; }) ==
          kDamaged + "metadata that no rank means");
    CHECK(up([](UpMessage& m) { m.announcements[2].rows[1].host = 0; }) ==
          kDamaged + "first dimensions of host 0 behind 0, of 3");
    CHECK(up([](UpMessage& m) { m.announcements[2].rows[1].host = 3; }) ==
          kDamaged + "first dimensions of host 3 behind 0, of 3");
    CHECK(up([](UpMessage& m) { m.announcements[2].rows[0].rows = {-1}; }) == kDamaged + "a first dimension is -1");
    CHECK(up([](UpMessage& m) { m.announcements[2].rows[0].rows.resize(7); }) ==
          kDamaged + "7 first dimensions for 6 ranks");
    CHECK(up([](UpMessage& m) {
              m.announcements[0].claims.assign(65, {std::nullopt, {{0, 0}}});
          }) == kDamaged + "an announcement has 65 claims, and 64 are the most");

    CHECK(up([](UpMessage& m) { m.announcements[5].input.resize(kMostCarriedBytes + 1); }) ==
          fmt::format("{}a message carries {} bytes of a tensor, and {} are the most", kDamaged, kMostCarriedBytes + 1,
                      kMostCarriedBytes));
    CHECK(up([](UpMessage& m) { m.announcements[4].input.resize(1); }) ==
          kDamaged + "an announcement with claims carries an input");
    CHECK(up([](UpMessage& m) { m.announcements[3].input.resize(1); }) ==
          kDamaged + "an announcement with claims carries an input");

    const auto down = [](std::size_t decision, const std::function<void(Decision&)>& spoil) {
        DownMessage message = full_down();
        spoil(message.decisions[decision]);
        return error_of(message);
    };
    CHECK(down(0, [](Decision& d) { d.kind = static_cast<DecisionKind>(11); }) ==
          kDamaged + "a decision is of the kind 11");
    CHECK(down(0, [](Decision& d) { d.id = 0; }) == kDamaged + "a decision of the kind 1 has the flags 4");
    CHECK(down(0, [](Decision& d) { d.call = 3; }) == kDamaged + "a decision of the kind 1 has the flags 14");
    CHECK(down(0, [](Decision& d) { d.operation = 255; }) == kDamaged + "the operation 255 is called");
    CHECK(down(1, [](Decision& d) { d.rows.pop_back(); }) ==
          kDamaged + "the operation 2 is called with 5 first dimensions");
    CHECK(down(2, [](Decision& d) { d.text.clear(); }) == kDamaged + "a disagreement says nothing");
    CHECK(down(3, [](Decision& d) { d.id = 0; }) == kDamaged + "a decision of the kind 5 has the flags 0");
    CHECK(down(4, [](Decision& d) { d.rank = 6; }) == kDamaged + "rank 6 is not one of 6");
    CHECK(down(5, [](Decision& d) { d.name = "x"; }) == kDamaged + "a decision of the kind 4 has the flags 4");
    CHECK(down(6, [](Decision& d) { d.uncounted = 6; }) == kDamaged + "an average counts all of 6 ranks but 6");
    CHECK(down(6, [](Decision& d) { d.metadata->operation = 3; }) ==
          kDamaged + "the operation 0 is called with the metadata of 3");
    CHECK(down(6, [](Decision& d) { d.metadata->dtype = 99; }) == kDamaged + "metadata that no rank means");
    CHECK(down(7, [](Decision& d) { d.rows[0] = -2; }) == kDamaged + "a first dimension is -2");
    CHECK(down(1, [](Decision& d) { d.rows[0] = kJoinedRows; }) ==
          kDamaged + "the operation 2 is called without some ranks");
    CHECK(down(9, [](Decision& d) { d.id = 5; }) == kDamaged + "a decision of the kind 8 has the flags 6");
    CHECK(down(9, [](Decision& d) { d.uncounted = 5; }) == kDamaged + "a decision of the kind 8 has the flags 68");
    CHECK(down(11, [](Decision& d) { d.code = ErrorCode::mismatch; }) == kDamaged + "a refusal has the code 4");
    CHECK(down(11, [](Decision& d) { d.code = static_cast<ErrorCode>(-1); }) == kDamaged + "a refusal has the code -1");
    CHECK(down(11, [](Decision& d) { d.text.clear(); }) == kDamaged + "a disagreement says nothing");
    CHECK(down(13, [](Decision& d) { d.bytes = 4; }) == kDamaged + "a tensor of 4 bytes has a result of 8");
    CHECK(down(13, [](Decision& d) { d.ends_batch = false; }) ==
          kDamaged + "a call of the operation 0 with the flags 130 has a result");
    CHECK(down(13, [](Decision& d) { d.operation = 1; }) ==
          kDamaged + "a call of the operation 1 with the flags 131 has a result");
    CHECK(down(13, [](Decision& d) { d.uncounted = 1; }) ==
          kDamaged + "a call of the operation 0 with the flags 195 has a result");
    CHECK(down(14, [](Decision& d) { d.metadata.reset(); }) == kDamaged + "a decision of the kind 10 has the flags 2");
    CHECK(down(14, [](Decision& d) { d.ends_batch = true; }) ==
          kDamaged + "a decision of the kind 10 has the flags 35");
    const auto allgather = static_cast<std::uint8_t>(collectives::Operation::allgather);
    CHECK(down(14, [&](Decision& d) { d.metadata->operation = allgather; }) ==
          kDamaged + "the operation 2 is offered without its first dimensions");
    CHECK(down(15, [](Decision& d) { d.result.pop_back(); }) ==
          kDamaged + "a tensor of 48 bytes is offered with an input of 47");
    CHECK(down(12, [](Decision& d) { d.rank = 6; }) == kDamaged + "rank 6 is not one of 6");
    CHECK(up([](UpMessage& m) { m.settled_hosts = 4; }) == kDamaged + "4 of 3 hosts have settled");
    CHECK(up([](UpMessage& m) { m.joined = {6}; }) == kDamaged + "rank 6 is not one of 6");
    CHECK(up([](UpMessage& m) {
              m.announcements[3].joined = {{4, 4}, {0, 1}};
          }) == kDamaged + "who has joined has the ranks 0 to 1 behind 4, of 6");
    CHECK(error_of(AbortMessage{0, "x"}) == kDamaged + "its error code is 0");
    CHECK(error_of(AbortMessage{10, "x"}) == kDamaged + "its error code is 10");
}

}  // namespace
}  // namespace rueda::core::test
