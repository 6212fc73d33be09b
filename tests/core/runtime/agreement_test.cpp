// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the ranks agree that all of them continue, and how a rank reacts to bytes that no correct rank would send.
#include "core/setup/agreement.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rueda::core {
namespace {

using collectives::Bytes;

/// A control plane of rank 0 in a job of two ranks. The test chooses the bytes that rank 1 sends.
class SaidPlane final : public collectives::ControlPlane {
public:
    explicit SaidPlane(std::string_view other) {
        const auto bytes = std::as_bytes(std::span(other));
        other_.assign(bytes.begin(), bytes.end());
    }
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 2; }
    [[nodiscard]] std::string description() const override { return "a test"; }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        return std::vector{Bytes(mine.begin(), mine.end()), other_};
    }
    Result<Bytes> broadcast(std::span<const std::byte> /*mine*/, int /*root*/) override { return Bytes(); }
    Status barrier() override { return {}; }
    void close(bool /*after_failure*/) override {}

private:
    Bytes other_;
};

std::pair<ErrorCode, std::string> heard(std::string_view said) {
    SaidPlane plane(said);
    const Status status = agree_on(plane, {});
    return {status.code(), status.message()};
}

TEST_CASE("a failure is sent as a code and a text; anything else is an error", "[threads]") {
    using Heard = std::pair<ErrorCode, std::string>;
    CHECK(heard("") == Heard{ErrorCode::ok, ""});
    CHECK(heard("7:no memory: none") == Heard{static_cast<ErrorCode>(7), "rank 1: no memory: none"});
    CHECK(heard("7:a\x1b[2J\nb") == Heard{static_cast<ErrorCode>(7), "rank 1: a?[2J?b"});
    for (const std::string_view code : {"", "0", "-1", "10", "4294967303", "7 ", "x"}) {
        CHECK(heard(std::string(code) + ":late") == Heard{ErrorCode::internal, "rank 1: late"});
    }
    CHECK(heard("no memory") ==
          Heard{ErrorCode::internal,
                "rank 1 sent 9 bytes that are no reason to fail; expected a code, a colon and a text: do all ranks run "
                "the same build of Rueda?"});
    SaidPlane plane("7:theirs");
    CHECK(agree_on(plane, Status(ErrorCode::unsupported, "mine")).message() == "mine");
}

}  // namespace
}  // namespace rueda::core
