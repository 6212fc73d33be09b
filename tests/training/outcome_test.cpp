// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The function that run_on_root() calls ends with success or with an exception. Tests how a rank encodes this outcome
// for the other ranks, and that a rank rejects bytes that no correct rank sends.
#include "training/outcome.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

namespace rueda::training {
namespace {

Status told(const Status& status) { return decode_outcome(encode_outcome(status), 2); }

template <class Change>
std::string refused(Change&& change) {
    OutcomeBytes bytes = encode_outcome(Status(ErrorCode::timeout, "late"));
    change(bytes);
    const Status status = decode_outcome(bytes, 2);
    CHECK(status.code() == ErrorCode::internal);
    return status.message();
}

void put(OutcomeBytes& bytes, std::size_t at, std::int32_t number) {
    std::memcpy(bytes.data() + at, &number, sizeof number);
}

TEST_CASE("a decoded outcome is equal to the encoded one") {
    CHECK(told({}).is_ok());
    const Status failed = told(Status(ErrorCode::resource_exhausted, "the disk\n\tis full: ä"));
    CHECK(failed.code() == ErrorCode::resource_exhausted);
    CHECK(failed.message() == "the disk\n\tis full: ä");
    CHECK(told(Status(ErrorCode::internal, "")).code() == ErrorCode::internal);
    CHECK(told(Status(ErrorCode::internal, std::string(5000, 'x'))).message() == std::string(3997, 'x') + "…");
}

TEST_CASE("control characters in the text of an outcome are replaced") {
    CHECK(told(Status(ErrorCode::aborted, "a\x1b[2Jb\x7f\r")).message() == "a?[2Jb??");
}

TEST_CASE("bytes that are no outcome are refused") {
    CHECK(decode_outcome({}, 2).message() == "rank 2 sent 0 bytes about how it ended; 4008 were expected");
    const std::string limits = "; expected a code from 0 to 9 and up to 4000 bytes, none with 0";
    CHECK(refused([](OutcomeBytes& b) { put(b, 0, 10); }) == "rank 2 sent error code 10 with 4 bytes of text" + limits);
    CHECK(refused([](OutcomeBytes& b) { put(b, 0, -1); }) == "rank 2 sent error code -1 with 4 bytes of text" + limits);
    CHECK(refused([](OutcomeBytes& b) { put(b, 0, 0); }) == "rank 2 sent error code 0 with 4 bytes of text" + limits);
    CHECK(refused([](OutcomeBytes& b) { put(b, 4, -4); }) == "rank 2 sent error code 6 with -4 bytes of text" + limits);
    CHECK(refused([](OutcomeBytes& b) { put(b, 4, 4001); }) ==
          "rank 2 sent error code 6 with 4001 bytes of text" + limits);
    CHECK(refused([](OutcomeBytes& b) { put(b, 4, 3); }) ==
          "rank 2 sent bytes behind the 3 of its error's text; expected zeros");
    CHECK(refused([](OutcomeBytes& b) { b.back() = 1; }) ==
          "rank 2 sent bytes behind the 4 of its error's text; expected zeros");
}

}  // namespace
}  // namespace rueda::training
