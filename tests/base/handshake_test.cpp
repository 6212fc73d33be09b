// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the handshake by which two processes prove that they know the same secret, and the hash function that the
// handshake uses.
#include "base/security/handshake.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/security/sha256.hpp"
#include "base/security/sha256_block.hpp"

namespace rueda::base {
namespace {

std::string hex(const Digest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

std::string sha256_of(std::string_view text) {
    Sha256 hash;
    hash.add(text);
    return hex(hash.finish());
}

std::string hmac_of(std::string_view key, std::string_view text) {
    HmacSha256 hmac(key);
    hmac.add(text);
    return hex(hmac.finish());
}

Nonce nonce_of(std::uint8_t value) {
    Nonce nonce;
    nonce.fill(value);
    return nonce;
}

Handshake connecting(std::string_view secret = "0ff", std::uint8_t nonce = 1, std::string_view purpose = "test") {
    return {HandshakeSide::connecting, secret, purpose, nonce_of(nonce)};
}
Handshake accepting(std::string_view secret = "0ff", std::uint8_t nonce = 2, std::string_view purpose = "test") {
    return {HandshakeSide::accepting, secret, purpose, nonce_of(nonce)};
}

/// The three messages of a handshake.
struct Messages {
    std::string opening;
    std::string answer;
    std::string proof;
};

/// Runs a handshake in which both sides know the secret.
Messages run(Handshake& one, Handshake& other) {
    Messages messages;
    messages.opening = one.take_output();
    REQUIRE(other.receive(messages.opening).is_ok());
    messages.answer = other.take_output();
    REQUIRE(one.receive(messages.answer).is_ok());
    messages.proof = one.take_output();
    REQUIRE(other.receive(messages.proof).is_ok());
    return messages;
}

/// Checks that the handshake refuses the bytes and gives this reason. After that, the handshake must read no more bytes
/// and send no answer.
void check_refused(Handshake& handshake, const std::string& bytes, const std::string& reason) {
    CAPTURE(reason);
    REQUIRE(handshake.wanted() == bytes.size());
    const Status status = handshake.receive(bytes);
    REQUIRE_FALSE(status.is_ok());
    CHECK_THAT(status.message(), Catch::Contains(reason));
    CHECK_FALSE(handshake.is_proven());
    CHECK(handshake.wanted() == 0);
    CHECK(handshake.take_output().empty());
}

constexpr const char* kWrongSecret = "it does not know the secret of this job";

TEST_CASE("SHA-256 gives the digests of FIPS 180-4's examples and NIST's vectors", "[unit]") {
    CHECK(sha256_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(sha256_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                    "mnopqrstnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    CHECK(sha256_of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    // A test vector of NIST's CAVP: the message of 8 bits in SHA256ShortMsg.rsp.
    CHECK(sha256_of("\xd3") == "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
}

TEST_CASE("a digest does not depend on the pieces in which the text comes", "[unit]") {
    std::string text;
    for (int i = 0; i < 300; ++i) {
        text += static_cast<char>(i);
    }
    for (std::size_t length = 0; length <= text.size(); ++length) {
        const std::string_view whole = std::string_view(text).substr(0, length);
        Sha256 pieces;
        for (std::size_t begin = 0; begin < length; begin += 7) {
            pieces.add(whole.substr(begin, 7));
        }
        REQUIRE(hex(pieces.finish()) == sha256_of(whole));
    }
}

TEST_CASE("the processor's instructions and the portable code give the same bits", "[unit]") {
    std::mt19937 random(7);
    std::array<std::uint8_t, kSha256BlockBytes> block{};
    Sha256State portable{1, 2, 3, 4, 5, 6, 7, 8};
    Sha256State by_instructions = portable;
    for (int i = 0; i < 200; ++i) {
        std::generate(block.begin(), block.end(), [&] { return static_cast<std::uint8_t>(random()); });
        add_block_portably(portable, block.data());
        if (has_sha256_instructions()) {
            add_block_by_instructions(by_instructions, block.data());
            REQUIRE(by_instructions == portable);
        }
    }
    // The digest of the empty text, from a block that contains only the padding.
    Sha256State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    block.fill(0);
    block[0] = 0x80;
    add_block_portably(state, block.data());
    CHECK(state[0] == 0xe3b0c442);
    CHECK(state[7] == 0x7852b855);
}

TEST_CASE("HMAC-SHA-256 gives the codes of RFC 4231", "[unit]") {
    CHECK(hmac_of(std::string(20, '\x0b'), "Hi There") ==
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK(hmac_of("Jefe", "what do ya want for nothing?") ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK(hmac_of(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
          "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    CHECK(hmac_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("texts are compared as a whole", "[unit]") {
    CHECK(equal_in_constant_time("abc", "abc"));
    CHECK(equal_in_constant_time("", ""));
    CHECK_FALSE(equal_in_constant_time("abc", "abd"));
    CHECK_FALSE(equal_in_constant_time("abc", "bbc"));
    CHECK_FALSE(equal_in_constant_time("abc", "ab"));
    CHECK_FALSE(equal_in_constant_time("", "a"));
}

TEST_CASE("two sides with the same secret prove it, and do not send it", "[unit]") {
    const std::string secret = "d2a84f4b8b650937ec8f73cd8be2c74a";
    Handshake one = connecting(secret);
    Handshake other = accepting(secret);
    const Messages messages = run(one, other);
    CHECK(one.is_proven());
    CHECK(other.is_proven());
    CHECK(one.wanted() == 0);
    CHECK(other.wanted() == 0);
    CHECK(messages.opening.size() == Handshake::kOpeningBytes);
    CHECK(messages.answer.size() == Handshake::kAnswerBytes);
    CHECK(messages.proof.size() == Handshake::kProofBytes);
    CHECK((messages.opening + messages.answer + messages.proof).find(secret.substr(0, 8)) == std::string::npos);
    CHECK(one.keys().sending == other.keys().receiving);
    CHECK(one.keys().receiving == other.keys().sending);
    CHECK(one.keys().sending != one.keys().receiving);
    CHECK(hex(one.keys().sending) != hmac_of(secret, ""));
}

TEST_CASE("the messages may come in single bytes", "[unit]") {
    Handshake one = connecting();
    Handshake other = accepting();
    const auto pass = [](const std::string& message, Handshake& to) {
        for (std::size_t i = 0; i < message.size(); ++i) {
            REQUIRE(to.wanted() == message.size() - i);
            REQUIRE(to.receive(message.substr(i, 1)).is_ok());
        }
    };
    pass(one.take_output(), other);
    pass(other.take_output(), one);
    CHECK_FALSE(other.is_proven());
    pass(one.take_output(), other);
    CHECK(one.is_proven());
    CHECK(other.is_proven());
}

TEST_CASE("a handshake that is cut proves nothing and answers nothing", "[unit]") {
    Handshake one = connecting();
    Handshake other = accepting();
    const std::string opening = one.take_output();
    REQUIRE(other.receive(opening.substr(0, opening.size() - 1)).is_ok());
    CHECK(other.take_output().empty());
    CHECK(other.wanted() == 1);
    REQUIRE(other.receive(opening.substr(opening.size() - 1)).is_ok());
    const std::string answer = other.take_output();
    REQUIRE(one.receive(answer.substr(0, answer.size() - 1)).is_ok());
    CHECK_FALSE(one.is_proven());
    CHECK(one.take_output().empty());
    REQUIRE(one.receive(answer.substr(answer.size() - 1)).is_ok());
    const std::string proof = one.take_output();
    REQUIRE(other.receive(proof.substr(0, proof.size() - 1)).is_ok());
    CHECK_FALSE(other.is_proven());
}

TEST_CASE("a side with another secret, purpose or nonce proves nothing", "[unit]") {
    for (const auto& [secret, purpose] : {std::pair("0fe", "test"), std::pair("", "test"), std::pair("0ff", "tess"),
                                          std::pair("0ff", ""), std::pair("0ff", "test\n")}) {
        CAPTURE(secret, purpose);
        Handshake one = connecting();
        Handshake wrong_listener = accepting(secret, 2, purpose);
        REQUIRE(wrong_listener.receive(one.take_output()).is_ok());
        check_refused(one, wrong_listener.take_output(), kWrongSecret);

        Handshake other = accepting();
        REQUIRE(other.receive(connecting(secret, 1, purpose).take_output()).is_ok());
        REQUIRE(other.take_output().size() == Handshake::kAnswerBytes);
        check_refused(other, std::string(Handshake::kProofBytes, 'x'), kWrongSecret);
    }
}

TEST_CASE("any changed bit of a message is noticed", "[unit]") {
    Handshake first = connecting();
    Handshake second = accepting();
    const Messages messages = run(first, second);
    const auto changed = [](std::string text, std::size_t at) {
        text[at] = static_cast<char>(text[at] ^ 0x10);
        return text;
    };
    // a changed nonce is noticed only later, because the answer to the changed nonce is wrong
    for (std::size_t i = 0; i < messages.opening.size(); ++i) {
        Handshake one = connecting();
        Handshake other = accepting();
        if (other.receive(changed(one.take_output(), i)).is_ok()) {
            CHECK_FALSE(one.receive(other.take_output()).is_ok());
        }
        CHECK_FALSE(one.is_proven());
        CHECK_FALSE(other.is_proven());
    }
    for (std::size_t i = 0; i < messages.answer.size(); ++i) {
        Handshake one = connecting();
        CHECK_FALSE(one.receive(changed(messages.answer, i)).is_ok());
        CHECK_FALSE(one.is_proven());
    }
    for (std::size_t i = 0; i < messages.proof.size(); ++i) {
        Handshake other = accepting();
        REQUIRE(other.receive(messages.opening).is_ok());
        CHECK_FALSE(other.receive(changed(messages.proof, i)).is_ok());
        CHECK_FALSE(other.is_proven());
    }
}

TEST_CASE("messages of an earlier handshake prove nothing", "[unit]") {
    Handshake first = connecting();
    Handshake second = accepting();
    const Messages recorded = run(first, second);

    Handshake one = connecting("0ff", 3);
    check_refused(one, recorded.answer, kWrongSecret);

    Handshake other = accepting("0ff", 4);
    REQUIRE(other.receive(recorded.opening).is_ok());
    REQUIRE(other.take_output().size() == Handshake::kAnswerBytes);
    check_refused(other, recorded.proof, kWrongSecret);
}

TEST_CASE("a side does not accept its own messages", "[unit]") {
    Handshake one = connecting();
    const std::string opening = one.take_output();
    check_refused(one, opening + std::string(Handshake::kProofBytes, '\0'), "of the wrong side");

    // The attacker sends the accepting side's proof back to the accepting side, with the same nonce.
    Handshake other = accepting();
    REQUIRE(other.receive(opening).is_ok());
    const std::string answer = other.take_output();
    check_refused(other, answer.substr(Handshake::kOpeningBytes), kWrongSecret);

    // The attacker takes an answer that ruedarun has sent on one connection, and sends it to ruedarun as the opening of
    // another connection.
    Handshake third = accepting("0ff", 5);
    check_refused(third, answer.substr(0, Handshake::kOpeningBytes), "of the wrong side");
}

TEST_CASE("another version, another program and a huge length are refused", "[unit]") {
    std::string newer = connecting().take_output();
    newer[12] = 2;
    Handshake other = accepting();
    check_refused(other, newer, "version 2 of the handshake, expected 1");

    Handshake third = accepting();
    check_refused(third, std::string("GET / HTTP/1.1\r\nHost: 10.0.0.1:4711\r\nAccept: */*\r\n").substr(0, 48),
                  "it is no process of Rueda");

    Handshake impatient = accepting();
    CHECK(impatient.receive("rueda-p").is_ok());
    const Status early = impatient.receive("/");
    CHECK_THAT(early.message(), Catch::Contains("it is no process of Rueda"));
    CHECK(impatient.wanted() == 0);

    // The messages carry no length. A side that has received all bytes that it expects has either finished or failed.
    Handshake fourth = accepting();
    check_refused(fourth, std::string(fourth.wanted(), '\xff'), "it is no process of Rueda");
    std::string noise = connecting().take_output();
    noise[15] = '\xff';
    Handshake fifth = accepting();
    check_refused(fifth, noise, "of the wrong side");
}

TEST_CASE("a derived secret depends on the secret, the purpose and the random number", "[unit]") {
    // The expected value was computed with Python's modules hmac and hashlib.
    const std::string derived = derive_secret("0ff", "test", "abc");
    CHECK(fmt::format("{:02x}", fmt::join(std::vector<std::uint8_t>(derived.begin(), derived.end()), "")) ==
          "bae1336077cf215f2b094a0a7ea9f8b67263b4df38a0bc51c6c278f906f6f7ff");
    CHECK(derive_secret("0fe", "test", "abc") != derived);
    CHECK(derive_secret("0ff", "test", "abd") != derived);
    CHECK(derive_secret("0ff", "tes", "tabc") != derived);
    CHECK(derive_secret("0ff", "test", "abc") == derived);
}

TEST_CASE("nonces differ", "[unit]") {
    const Result<Nonce> one = random_nonce();
    const Result<Nonce> other = random_nonce();
    REQUIRE(one.is_ok());
    REQUIRE(other.is_ok());
    CHECK(one.value() != other.value());
    CHECK(one.value() != Nonce{});
}

}  // namespace
}  // namespace rueda::base
