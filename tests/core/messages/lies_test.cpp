// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Before Rueda uses data that another rank has written, it checks all of these data. A frame that no correct rank would
// send ends the job with a reason.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "collectives/host/arena/message_ring.hpp"
#include "core/messages/host_link.hpp"
#include "tests/core/messages/messages.hpp"
#include "tests/faults/captured_errors.hpp"

namespace rueda::tests {
namespace {

using core::Frame;
using core::FrameKind;

Frame frame(FrameKind kind, std::uint64_t id, std::uint64_t bytes = 0, std::uint8_t dtype = 0) {
    Frame made;
    made.kind = static_cast<std::uint8_t>(kind);
    made.id = id;
    made.bytes = bytes;
    made.dtype = dtype;
    return made;
}

TEST_CASE("frames that a working rank may send, and others", "[unit]") {
    CHECK(is_plausible(frame(FrameKind::whole, 1, 8), 8));
    CHECK(is_plausible(frame(FrameKind::whole, 1, 0), 0));
    CHECK_FALSE(is_plausible(frame(FrameKind::whole, 1, 8), 7));
    CHECK_FALSE(is_plausible(frame(FrameKind::whole, 0, 8), 8));
    CHECK_FALSE(is_plausible(frame(FrameKind::whole, 1, 8, 99), 8));
    CHECK(is_plausible(frame(FrameKind::offer, 1, std::uint64_t{1} << 40U), 0));
    CHECK_FALSE(is_plausible(frame(FrameKind::offer, 1, 0), 0));
    CHECK_FALSE(is_plausible(frame(FrameKind::offer, 1, 9), 1));
    CHECK_FALSE(is_plausible(frame(FrameKind::part, 1), 0));
    CHECK(is_plausible(frame(FrameKind::part, 1), 1));
    CHECK_FALSE(is_plausible(frame(FrameKind::taken, 1), 1));
    CHECK_FALSE(is_plausible(frame(FrameKind::refused, 1, 0, 99), 0));
    CHECK_FALSE(is_plausible(frame(static_cast<FrameKind>(0), 1), 0));
    CHECK_FALSE(is_plausible(frame(static_cast<FrameKind>(12), 1), 0));
    Frame flagged = frame(FrameKind::offer, 1, 9);
    flagged.flags = Frame::kAwaited;
    CHECK_FALSE(is_plausible(flagged, 0));
    flagged = frame(FrameKind::whole, 1, 9);
    flagged.flags = Frame::kAwaited;
    CHECK(is_plausible(flagged, 9));
    flagged.flags = Frame::kResident;
    CHECK_FALSE(is_plausible(flagged, 9));
}

/// Rank 1 writes the frames into its ring for rank 0, each followed by `payload` bytes. Rank 1's Runtime does not know
/// about these frames.
void lie(const std::vector<Frame>& lies, std::size_t payload, const std::string& reason) {
    const RanksResult result = run_clients(2, test_config(), [&](RankContext& context, RuntimeClient& client) {
        std::array<int, 1> value{};
        if (client.rank() == 1) {
            core::HostLink link(client.runtime().arena(), 0);
            const std::vector<std::byte> bytes(payload);
            for (const Frame& lie : lies) {
                RUEDA_RANK_CHECK(expect_value(link.send(lie, bytes), "the lie"));
            }
            link.tell();
            context.phase("has lied");
        } else {
            context.wait_for_phase(1, "has lied");
        }
        const Status status = receive(client, std::span(value), {1 - client.rank(), 0, DType::int32});
        RUEDA_RANK_CHECK(!status.is_ok());
        expect_part(status.message(), reason);
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a frame that cannot come ends the job with the reason", "[threads]") {
    lie({frame(static_cast<FrameKind>(77), 1)}, 0, "a frame of kind 77 with 0 bytes behind it");
    lie({frame(FrameKind::whole, 1, 8)}, 4, "which no working rank does");
    lie({frame(FrameKind::taken, 5)}, 0, "answers to message 5; it was sent 0");
    lie({frame(FrameKind::asked, 1)}, 0, "answers to message 1");
    lie({frame(FrameKind::dropped, 1)}, 0, "answers to message 1");
    lie({frame(FrameKind::withdrawn, 3)}, 0, "withdraws message 3; it has sent 0");
}

TEST_CASE("a frame whose unused bytes are not 0 is refused", "[unit]") {
    for (std::size_t i = 0; i < sizeof(Frame::reserved); ++i) {
        Frame made = frame(FrameKind::whole, 1, 8);
        made.reserved[i] = 1;
        CHECK_FALSE(is_plausible(made, 8));
    }
}

TEST_CASE("only a message in resident memory can be withdrawn", "[threads]") {
    const std::string reason = "rank 1 withdraws message 1, which does not lie in its resident memory";
    const Frame withdrawn = frame(FrameKind::withdrawn, 1);
    constexpr auto kInt = static_cast<std::uint32_t>(DType::int32);
    Frame kept = frame(FrameKind::offer, 1, 4, kInt);
    kept.tag = 5;                       // no receive matches this tag
    lie({kept, withdrawn}, 0, reason);  // rank 0 keeps the offer, because no receive matches it
    // Rank 0 has already posted the receive, so it requests the offered message.
    lie({frame(FrameKind::offer, 1, 4, kInt), withdrawn}, 0, reason);
    Frame whole = frame(FrameKind::whole, 1, 0, kInt);
    whole.tag = 5;
    lie({whole, withdrawn}, 0, reason);
    whole.flags = Frame::kResident;
    lie({whole}, 0, "which no working rank does");
}

using Ring = collectives::MessageRingState<base::StdAtomics>;

TEST_CASE("invalid counts of a ring's writer or reader are detected", "[unit]") {
    std::mt19937_64 random(5);
    std::uint32_t refused = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::array<std::byte, 1024> memory{};
        for (std::byte& byte : memory) {
            byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
        }
        Ring state;
        state.written.store(random() % 2 == 0 ? random() : random() % 20 * 64);
        collectives::MessageRingReader<base::StdAtomics> reader(state, memory.data(), memory.size());
        for (int record = 0; record < 20; ++record) {
            const auto front = reader.front();
            if (!front.is_ok()) {
                CHECK(front.status().code() == ErrorCode::internal);
                ++refused;
                break;
            }
            if (!front.value()) {
                break;
            }
            // The whole record must be inside the ring's memory.
            REQUIRE(front.value()->data() >= memory.data());
            REQUIRE(front.value()->data() + front.value()->size() <= memory.data() + memory.size());
            static_cast<void>(reader.pop());
        }
        Ring other;
        other.read.store(random() % 2 == 0 ? random() | 64U : 128);
        collectives::MessageRingWriter<base::StdAtomics> writer(other, memory.data(), memory.size());
        bool is_found_out = false;
        for (int record = 0; record < 8 && !is_found_out; ++record) {
            const auto room = writer.reserve(writer.largest());
            is_found_out = !room.is_ok();
            if (room.is_ok() && room.value() != nullptr) {
                writer.publish();
            }
        }
        CHECK((is_found_out || other.read.load() <= 1024));
    }
    CHECK(refused > 1000);
}

}  // namespace
}  // namespace rueda::tests
