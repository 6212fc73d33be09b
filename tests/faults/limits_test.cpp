// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that calls fail with an error if memory is too small. No process may be killed when it first uses a page.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "base/system/control_groups.hpp"
#include "tests/faults/faults.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::tests {
namespace {

std::uint64_t mapped_bytes() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0;
    file >> pages;
    return pages * 4096;
}

void limit_address_space(std::uint64_t more_bytes) {
    const rlim_t limit = mapped_bytes() + more_bytes;
    const rlimit limits{limit, limit};
    if (::setrlimit(RLIMIT_AS, &limits) != 0) {
        throw std::runtime_error("setrlimit failed");
    }
}

/// Starts a job and runs an operation. If the start or the operation fails, reports the error.
void try_to_work(RankContext& context, const base::Config& config) {
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    auto created = RuntimeClient::create(config, std::move(plane).value());
    context.report("code", rueda::name_of(created.status().code()));
    context.report("text", created.status().message());
    if (!created.is_ok()) {
        return;
    }
    std::vector<float> values(1000);
    const Tensor tensor{values.data(), DType::float32, {1000}};
    fill_input(tensor, ReduceOp::sum, context.rank(), 1);
    expect_ok(created.value()->allreduce("tensor", tensor, tensor, {ReduceOp::sum}), "an allreduce");
    check_allreduce(tensor, {ReduceOp::sum}, context.size(), 1, "an allreduce");
    // No machine has 2^50 bytes of memory, so allocate() must fail. The job must continue to work.
    expect_failure(created.value()->allocate(std::size_t{1} << 50).status(), ErrorCode::resource_exhausted, "2^50");
    expect_ok(created.value()->shutdown(), "shutdown");
}

/// Requires that the job works on all ranks, or that all ranks get the same one-line error.
std::string check_same_end(const RanksResult& result) {
    INFO(result.text());
    CHECK(result.passed());
    std::set<std::string> codes;
    for (const RankOutcome& rank : result.ranks) {
        REQUIRE(rank.values.count("code") == 1);
        codes.insert(rank.value("code"));
        CHECK(rank.value("text").find('\n') == std::string::npos);
    }
    CHECK(codes.size() == 1);
    CHECK((*codes.begin() == "Ok" || *codes.begin() == "ResourceExhausted"));
    return *codes.begin();
}

TEST_CASE("a limit of address space", "[faults]") {
    if (kSanitized) {
        std::cout << "skipped: sanitizers reserve address space themselves\n";
        return;
    }
    const bool on_one_rank = GENERATE(false, true);
    int worked = 0;
    int refused = 0;
    // When a thread first calls malloc(), malloc() may reserve memory for this thread before Rueda reserves its own
    // memory. The largest limit leaves enough memory for both.
    for (const std::uint64_t mebibytes : {4U, 10U, 16U, 24U, 40U, 80U, 700U}) {
        base::Config config = test_config();
        // With 0, the default, Rueda computes the limit from the memory that limit_address_space() leaves.
        config.resident_limit_bytes = 0;
        const RanksResult result = run_ranks(2,
                                             [&](RankContext& context) {
                                                 if (!on_one_rank || context.rank() == 1) {
                                                     limit_address_space(mebibytes * base::kMiB);
                                                 }
                                                 try_to_work(context, config);
                                             },
                                             {.as = RanksAs::processes});
        INFO(mebibytes << " MiB more" << (on_one_rank ? " for rank 1" : ""));
        (check_same_end(result) == "Ok" ? worked : refused) += 1;
    }
    CHECK(worked > 0);
    CHECK(refused > 0);
}

TEST_CASE("an arena larger than its limit", "[faults]") {
    base::Config config = test_config();
    config.arena_limit_bytes = base::kMiB;
    config.chunk_bytes = base::kMiB;
    for (const RanksAs as : {RanksAs::threads, RanksAs::processes}) {
        const RanksResult result =
            run_ranks(3, [&](RankContext& context) { try_to_work(context, config); }, {.as = as});
        CHECK(check_same_end(result) == "ResourceExhausted");
        for (const RankOutcome& rank : result.ranks) {
            const std::string& text = rank.value("text");
            CHECK(text.find("the arena of 3 ranks needs ") != std::string::npos);
            CHECK(text.find("RUEDA_ARENA_LIMIT is 1 MiB: raise it, or lower RUEDA_SLOTS") != std::string::npos);
        }
    }
}

/// If no setting fixes the chunk size, cells (buffers for chunks) shrink until they fit into the remaining memory.
TEST_CASE("cells shrink to the arena's limit", "[faults]") {
    base::Config config = test_config();
    config.slots = 16;
    config.arena_limit_bytes = 2 * base::kMiB;
    const RanksResult result =
        run_ranks(4, [&](RankContext& context) { try_to_work(context, config); }, {.as = RanksAs::processes});
    CHECK(check_same_end(result) == "Ok");
}

/// A control group with a memory limit. Many processes have no permission to create one.
class SmallControlGroup {
public:
    explicit SmallControlGroup(std::uint64_t bytes) {
        const auto read = [](const std::string& path) -> std::optional<std::string> {
            std::ifstream file(path);
            if (!file) {
                return std::nullopt;
            }
            std::ostringstream all;
            all << file.rdbuf();
            return all.str();
        };
        const base::ControlGroupFolders folders = base::control_group_folders(read, "memory");
        for (const auto& [parents, limit] :
             {std::pair(&folders.version1, "memory.limit_in_bytes"), std::pair(&folders.version2, "memory.max")}) {
            if (folder_.empty() && !parents->empty()) {
                const std::string folder = fmt::format("{}/rueda-test-{}", parents->front(), ::getpid());
                if (::mkdir(folder.c_str(), 0700) == 0) {
                    folder_ = folder;
                    usable_ = write(limit, std::to_string(bytes));
                }
            }
        }
    }
    ~SmallControlGroup() {
        if (!folder_.empty()) {
            ::rmdir(folder_.c_str());
        }
    }
    SmallControlGroup(const SmallControlGroup&) = delete;
    SmallControlGroup& operator=(const SmallControlGroup&) = delete;

    [[nodiscard]] bool usable() const { return usable_; }
    [[nodiscard]] bool join() const { return write("cgroup.procs", std::to_string(::getpid())); }

private:
    [[nodiscard]] bool write(const char* file, const std::string& text) const {
        std::ofstream stream(folder_ + "/" + file);
        stream << text << std::flush;
        return stream.good();
    }
    std::string folder_;
    bool usable_ = false;
};

TEST_CASE("a small control group", "[faults]") {
    const SmallControlGroup group(64 * base::kMiB);
    if (!group.usable() || kSanitized) {
        std::cout << "skipped: no control group of the memory controller can be made here\n";
        return;
    }
    base::Config config = test_config();
    config.resident_limit_bytes = 0;
    check_passed(run_ranks(2,
                           [&](RankContext& context) {
                               RUEDA_RANK_CHECK(group.join());
                               auto plane = context.open_control_plane();
                               plane.status().throw_if_failed();
                               auto created = RuntimeClient::create(config, std::move(plane).value());
                               created.status().throw_if_failed();
                               const std::string text =
                                   expect_failure(created.value()->allocate(256 * base::kMiB).status(),
                                                  ErrorCode::resource_exhausted, "256 MiB");
                               RUEDA_RANK_CHECK(text.find("resident memory") != std::string::npos);
                               RUEDA_RANK_CHECK(text.find("256 MiB") != std::string::npos);
                               void* const small = expect_value(created.value()->allocate(4 * base::kMiB), "4 MiB");
                               std::memset(small, 1, 4 * base::kMiB);
                               expect_ok(created.value()->shutdown(), "shutdown");
                           },
                           {.as = RanksAs::processes}));
}

}  // namespace
}  // namespace rueda::tests
