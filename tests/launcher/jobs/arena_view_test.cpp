// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/arena_view.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <string>

#include "tests/launcher/jobs/made_arena.hpp"

namespace rueda::launcher {
namespace {

TEST_CASE("the memory of a job is shown as it changes") {
    const MadeArena made(3);
    const Result<ArenaView> view = ArenaView::open(made.path());
    REQUIRE(view.is_ok());
    CHECK(view.value().members() == 3);
    made.control().ranks[2].step.store(118);
    made.control().ranks[2].busy.write("saving");
    made.recorder(2).counters.steps.store(7);
    CHECK(view.value().control().ranks[2].step.load() == 118);
    CHECK(view.value().control().ranks[2].busy.read() == "saving");
    CHECK(view.value().recorder(2)->counters.steps.load() == 7);
    CHECK_FALSE(view.value().control().abort.raised());
}

TEST_CASE("a view that asks writes into the blocks of the stacks, also without recorders") {
    const MadeArena made(2);
    made.control().recorder_bytes = GENERATE(std::uint64_t{0}, std::uint64_t{sizeof(base::RankRecorder)});
    const Result<ArenaView> view = ArenaView::open(made.path(), ArenaUse::ask);
    REQUIRE(view.is_ok());
    const base::HostBlocks blocks = view.value().blocks_to_ask();
    for (const std::uint32_t member : {0U, 1U}) {
        blocks.stack_of(member).asked.fetch_add(1);
        CHECK(made.control().stack_of(member).asked.load() == 1);
        CHECK(&blocks.of(member) == &view.value().control().ranks[member]);
    }
}

TEST_CASE("memory without recorders is shown without them") {
    const MadeArena made(2);
    made.control().recorder_bytes = 0;
    made.control().recorder_offset = 1;
    const Result<ArenaView> view = ArenaView::open(made.path());
    REQUIRE(view.is_ok());
    CHECK(view.value().recorder(0) == nullptr);
}

TEST_CASE("a view keeps the number of ranks that it has checked") {
    const MadeArena made(2);
    const Result<ArenaView> view = ArenaView::open(made.path());
    REQUIRE(view.is_ok());
    made.control().members = 1'000'000;
    made.control().recorder_offset = MadeArena::kBytes;
    CHECK(view.value().members() == 2);
    CHECK(view.value().recorder(1)->ready.load() == 0);
}

TEST_CASE("damaged memory is refused") {
    struct Damage {
        const char* what;
        std::function<void(base::ControlBlock&)> harm;
        ErrorCode code;
        const char* message;
    };
    constexpr std::uint64_t kHuge = ~std::uint64_t{0} - 4095;
    const Damage damages[] = {
        {"nothing is written", [](auto& block) { block.magic = 0; }, ErrorCode::not_initialized, "has not begun"},
        {"wrong magic", [](auto& block) { block.magic ^= 1; }, ErrorCode::invalid_argument, "does not begin like"},
        {"older layout", [](auto& block) { block.layout_version = 3; }, ErrorCode::unsupported, "layout version 3"},
        {"no ranks", [](auto& block) { block.members = 0; }, ErrorCode::invalid_argument, "0 ranks"},
        {"too many ranks", [](auto& block) { block.members = 65; }, ErrorCode::invalid_argument, "65 ranks"},
        {"larger than the file", [](auto& block) { ++block.total_bytes; }, ErrorCode::invalid_argument, "damaged"},
        {"recorders at the end", [](auto& block) { block.recorder_offset = MadeArena::kBytes; },
         ErrorCode::invalid_argument, "damaged"},
        {"recorders beyond the end", [](auto& block) { block.recorder_offset = kHuge; }, ErrorCode::invalid_argument,
         "damaged"},
        {"recorders for one rank more", [](auto& block) { block.recorder_offset += 4096; }, ErrorCode::invalid_argument,
         "damaged"},
        {"recorders between pages", [](auto& block) { block.recorder_offset += 64; }, ErrorCode::invalid_argument,
         "damaged"},
        {"recorders in the control block", [](auto& block) { block.recorder_offset = 4096; },
         ErrorCode::invalid_argument, "damaged"},
        {"recorders of another size", [](auto& block) { block.recorder_bytes = kHuge; }, ErrorCode::invalid_argument,
         "damaged"},
    };
    for (const Damage& damage : damages) {
        INFO(damage.what);
        const MadeArena made(4);
        REQUIRE(ArenaView::open(made.path()).is_ok());
        damage.harm(made.control());
        const Result<ArenaView> view = ArenaView::open(made.path());
        REQUIRE_FALSE(view.is_ok());
        CHECK(view.status().code() == damage.code);
        CHECK_THAT(view.status().message(), Catch::Contains(damage.message));
    }
}

TEST_CASE("files that are not the memory of a job are refused") {
    SECTION("it could be shortened while it is read") {
        const MadeArena made(1, /*is_sealed=*/false);
        const Status status = ArenaView::open(made.path()).status();
        CHECK(status.code() == ErrorCode::invalid_argument);
        CHECK_THAT(status.message(), Catch::Contains("not sealed"));
    }
    SECTION("it is too short") {
        const base::UniqueFd file(memfd_create("rueda-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        REQUIRE(ftruncate(file.value(), 20) == 0);
        REQUIRE(fcntl(file.value(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
        const Status status = ArenaView::open(fmt::format("/proc/self/fd/{}", file.value())).status();
        CHECK(status.code() == ErrorCode::invalid_argument);
        CHECK_THAT(status.message(), Catch::Contains("only 20 bytes"));
    }
    SECTION("a device") { CHECK(ArenaView::open("/dev/null").status().code() == ErrorCode::invalid_argument); }
    SECTION("nothing") { CHECK(ArenaView::open("/nonexistent").status().code() == ErrorCode::not_initialized); }
}

}  // namespace
}  // namespace rueda::launcher
