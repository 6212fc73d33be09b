// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/socket_messages.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

Bytes with_byte(Bytes bytes, std::size_t at, int value) {
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
}

TEST_CASE("a parsed hello is equal to the encoded one", "[unit]") {
    const Bytes bytes = encode_hello({3, 8});
    REQUIRE(bytes.size() == kHelloBytes);
    const auto hello = parse_hello(bytes, 8);
    REQUIRE(hello.is_ok());
    CHECK(hello.value().rank == 3);
    CHECK(hello.value().size == 8);
}

TEST_CASE("a hello that does not fit is refused with the reason", "[unit]") {
    const Bytes good = encode_hello({3, 8});
    const auto reason = [](const Bytes& bytes) { return parse_hello(bytes, 8).status().message(); };
    CHECK_THAT(reason(with_byte(good, 0, 'x')), Catch::Contains("no rank of Rueda"));
    CHECK_THAT(reason(with_byte(good, 8, 9)), Catch::Contains("version 9 of the protocol, expected 1"));
    CHECK_THAT(reason(encode_hello({3, 4})), Catch::Contains("size 4, expected 8"));
    for (const int rank : {0, -1, 8, 1 << 30}) {
        CHECK_THAT(reason(encode_hello({rank, 8})), Catch::Contains(fmt::format("rank {} ", rank)));
    }
    for (std::size_t length = 0; length < good.size(); ++length) {
        CHECK_FALSE(parse_hello(std::span(good).first(length), 8).is_ok());
    }
}

TEST_CASE("a header with an impossible field or length is refused", "[unit]") {
    const FrameHeader header{FrameKind::broadcast, 5, 77, kMaxControlMessage};
    const Bytes good = encode_header(header);
    REQUIRE(good.size() == kFrameHeaderBytes);
    const auto parsed = parse_header(good);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().kind == FrameKind::broadcast);
    CHECK(parsed.value().root == 5);
    CHECK(parsed.value().sequence == 77);
    CHECK(parsed.value().length == kMaxControlMessage);

    CHECK_FALSE(parse_header(with_byte(good, 0, 0)).is_ok());
    CHECK_FALSE(parse_header(with_byte(good, 4, 0)).is_ok());
    CHECK_FALSE(parse_header(with_byte(good, 4, 6)).is_ok());
    CHECK_THAT(parse_header(encode_header({FrameKind::barrier, 0, 1, kMaxControlMessage + 1})).status().message(),
               Catch::Contains("67108865 bytes, expected at most 67108864"));
}

TEST_CASE("parts of an allgather survive, and damaged ones are refused", "[unit]") {
    const std::vector<Bytes> parts{tests::pattern(3, 1), {}, tests::pattern(100, 2)};
    const Bytes bytes = encode_parts(parts);
    CHECK(parse_parts(bytes, 3).value() == parts);
    CHECK_FALSE(parse_parts(bytes, 2).is_ok());
    CHECK_FALSE(parse_parts(bytes, 4).is_ok());
    CHECK_FALSE(parse_parts(std::span(bytes).first(bytes.size() - 1), 3).is_ok());
    // the changed byte makes the size of the first part huge
    CHECK_FALSE(parse_parts(with_byte(bytes, 7, 0xff), 3).is_ok());
    CHECK_FALSE(parse_parts({}, 3).is_ok());
}

TEST_CASE("a failure keeps its code and its text on the way", "[unit]") {
    const Status status(ErrorCode::timeout, "rank 3 did not come");
    CHECK(tests::outcome(parse_failure(encode_failure(status))) == "Timeout: rank 3 did not come");
    CHECK(parse_failure({}).code() == ErrorCode::internal);
    CHECK(parse_failure(with_byte(encode_failure(status), 0, 0)).code() == ErrorCode::internal);
    CHECK(parse_failure(with_byte(encode_failure(status), 0, 77)).code() == ErrorCode::internal);
    CHECK(parse_failure(encode_failure(Status(ErrorCode::timeout, "a\nb"))).message() == "a?b");
}

}  // namespace
}  // namespace rueda::collectives
