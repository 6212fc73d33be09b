// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "rueda/rueda.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

bool is_zero(const void* memory, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(memory);
    return std::all_of(first, first + bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::size_t promised_alignment(std::size_t bytes) { return bytes >= 64 * 1024 ? 4096 : 64; }

void check_block(const void* memory, std::size_t bytes) {
    RUEDA_RANK_EQUAL(reinterpret_cast<std::uintptr_t>(memory) % promised_alignment(bytes), std::uintptr_t{0});
    RUEDA_RANK_CHECK(is_zero(memory, bytes));
}

void on_one_rank(const base::Config& config, const std::function<void(RuntimeClient&)>& body) {
    check_passed(run_clients(1, config, [&](RankContext&, RuntimeClient& client) { body(client); }));
}

TEST_CASE("resident memory: sizes, alignment, zeros", "[threads]") {
    on_one_rank(test_config(), [](RuntimeClient& client) {
        for (int round = 0; round < 2; ++round) {  // round 1 gets new memory, round 2 reuses it
            std::vector<std::pair<void*, std::size_t>> blocks;
            for (std::size_t bytes = 1; bytes <= std::size_t{8} << 20; bytes = bytes * 3 + 1) {
                void* const memory = expect_value(client.allocate(bytes), "allocate");
                check_block(memory, bytes);
                std::memset(memory, 0xFF, bytes);
                blocks.emplace_back(memory, bytes);
            }
            for (const std::size_t bytes : {0U, 64U, 4096U, 65535U, 65536U, 2U << 20, 8U << 20}) {
                void* const memory = expect_value(client.allocate(bytes), "allocate");
                check_block(memory, bytes);
                blocks.emplace_back(memory, bytes);
            }
            for (const auto& [memory, bytes] : blocks) {
                expect_ok(client.deallocate(memory), "deallocate");
            }
        }
    });
}

/// Blocks must not overlap, and a block must keep its content while other blocks come and go.
TEST_CASE("resident memory: many blocks in any order", "[threads]") {
    on_one_rank(test_config(), [](RuntimeClient& client) {
        struct Block {
            void* memory;
            std::size_t bytes;
            unsigned char pattern;
        };
        std::mt19937 random(11);
        std::vector<Block> blocks;
        const auto release = [&](std::size_t index) {
            const Block block = blocks[index];
            const auto* first = static_cast<const unsigned char*>(block.memory);
            RUEDA_RANK_CHECK(
                std::all_of(first, first + block.bytes, [&](unsigned char b) { return b == block.pattern; }));
            expect_ok(client.deallocate(block.memory), "deallocate");
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
        };
        for (int i = 0; i < 600; ++i) {
            if (blocks.size() < 20 || (blocks.size() < 60 && random() % 2 == 0)) {
                const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 700'000U : 9'000U);
                void* const memory = expect_value(client.allocate(bytes), "allocate");
                check_block(memory, bytes);
                blocks.push_back({memory, bytes, static_cast<unsigned char>(1 + i % 255)});
                std::memset(memory, blocks.back().pattern, bytes);
            } else {
                release(random() % blocks.size());
            }
        }
        while (!blocks.empty()) {
            release(blocks.size() - 1);
        }
        // When all blocks are released, the memory is one free range again, so a block of 48 MiB fits.
        expect_ok(client.deallocate(expect_value(client.allocate(48 << 20), "48 MiB")), "deallocate");
    });
}

TEST_CASE("resident memory: the limit", "[threads]") {
    base::Config config = test_config();
    config.resident_limit_bytes = 16 * base::kMiB;
    on_one_rank(config, [](RuntimeClient& client) {
        void* const half = expect_value(client.allocate(8 << 20), "half");
        expect_failure(client.allocate((8 << 20) + 1).status(), ErrorCode::resource_exhausted, "a byte too many");
        const std::string text =
            expect_failure(client.allocate(9 << 20).status(), ErrorCode::resource_exhausted, "more than the limit");
        for (const char* part : {"resident memory: 9", "8", "16", "RUEDA_RESIDENT_LIMIT"}) {
            RUEDA_RANK_CHECK(text.find(part) != std::string::npos);
        }
        expect_failure(client.allocate(~std::size_t{0}).status(), ErrorCode::resource_exhausted, "everything");
        expect_failure(client.allocate(~std::size_t{0} - 100).status(), ErrorCode::resource_exhausted, "everything");
        void* const rest = expect_value(client.allocate(8 << 20), "the other half");
        expect_ok(client.deallocate(half), "deallocate");
        expect_ok(client.deallocate(rest), "deallocate");
        expect_ok(client.deallocate(expect_value(client.allocate(16 << 20), "all of it again")), "deallocate");
    });
}

TEST_CASE("resident memory: what is not a block", "[threads]") {
    on_one_rank(test_config(), [](RuntimeClient& client) {
        int local = 0;
        expect_failure(client.deallocate(&local), ErrorCode::invalid_argument, "memory of the stack");
        auto* const block = static_cast<std::byte*>(expect_value(client.allocate(1000), "allocate"));
        expect_failure(client.deallocate(block + 64), ErrorCode::invalid_argument, "the middle of a block");
        expect_ok(client.deallocate(block), "the block");
        expect_failure(client.deallocate(block), ErrorCode::invalid_argument, "the block again");
    });
}

TEST_CASE("resident memory through the public interface", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext&) {
        try {
            static_cast<void>(rueda::allocate(10));
            RUEDA_RANK_CHECK(false);
        } catch (const NotInitialized&) {
        }
        rueda::init();
        rueda::deallocate(nullptr);
        int local = 0;
        try {
            rueda::deallocate(&local);
            RUEDA_RANK_CHECK(false);
        } catch (const InvalidArgument&) {
        }
        {
            std::vector<double, rueda::Allocator<double>> values(1000, 1.0);
            rueda::allreduce("values", values, {.op = ReduceOp::sum});
            RUEDA_RANK_EQUAL(values[999], 2.0);
        }
        auto* const kept = static_cast<double*>(rueda::allocate(80));
        rueda::shutdown();
        kept[9] = 1;  // the memory must stay usable after the job
        rueda::deallocate(kept);
    }));
}

}  // namespace
}  // namespace rueda::tests
