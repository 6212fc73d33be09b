// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Runs all operations at the same time, in the job and in process sets. The bits of the results must equal those of an
// undisturbed run with the same inputs, ranks and hosts. Everything else varies, for example the order of submission,
// the pauses, the thresholds, and the thread that drives progress. The test also computes the expected values itself,
// in wider arithmetic. The results must agree with them, apart from rounding. Sums of float32 and float64 must have the
// bits of their definition.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/work.hpp"

namespace rueda::tests {
namespace {

constexpr std::uint32_t kUndisturbed = 0;

/// Returns the number of disturbed runs for each placement. The long tests (scripts/long.d/bits) set a higher number.
std::uint32_t shakes() {
    const char* const given = std::getenv("RUEDA_TEST_SHAKES");
    return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : 2;
}
std::uint32_t first_shake() {
    const char* const given = std::getenv("RUEDA_TEST_FIRST_SHAKE");
    return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : 1;
}

/// Returns settings that must not change any result. All ranks get the same values, because these settings must not
/// differ between ranks.
base::Config shaken_config(std::uint32_t seed) {
    base::Config config = test_config();
    if (seed == kUndisturbed) {
        return config;
    }
    std::mt19937 random(seed);
    const auto one_of = [&](std::initializer_list<std::uint64_t> values) {
        return *(values.begin() + random() % values.size());
    };
    config.fusion_threshold_bytes = one_of({0, 1000, 30'000, base::kMiB, 64 * base::kMiB});
    config.hold_seconds = static_cast<double>(one_of({0, 50, 1000})) * 1e-6;
    config.chunk_bytes = one_of({128, 512, 2048, 8192, 0});
    config.network_chunk_bytes = one_of({0, 4096, 16'384, 100'000});
    config.cells_per_rank = static_cast<std::uint32_t>(one_of({2, 3, 4, 8}));
    config.spin_seconds = static_cast<double>(one_of({0, 5, 200})) * 1e-6;
    config.slots = static_cast<std::uint32_t>(one_of({80, 300, 1024}));
    config.arena_limit_bytes = one_of({64, 256}) * base::kMiB;
    return config;
}

/// The random choices of one rank: the order of its calls, its pauses, and the variants of each call.
class Shaker {
public:
    Shaker(std::uint32_t seed, int rank) : seed_(seed), random_(seed * 64 + static_cast<std::uint32_t>(rank)) {}

    [[nodiscard]] bool is_shaken() const { return seed_ != kUndisturbed; }
    [[nodiscard]] bool yes(unsigned one_of) { return is_shaken() && random_() % one_of == 0; }
    template <class T>
    void shuffle(std::vector<T>& items) {
        if (is_shaken()) {
            std::shuffle(items.begin(), items.end(), random_);
        }
    }
    void pause() {
        if (yes(12)) {
            std::this_thread::sleep_for(std::chrono::microseconds(random_() % 400));
        }
    }
    /// Whether this rank makes a blocking call for the work. All ranks make blocking calls in the same order, so all
    /// ranks must make the same choice.
    [[nodiscard]] bool blocks(const Work& work) const {
        return is_shaken() && (static_cast<std::uint32_t>(work.number) * 2654435761U + seed_ * 40503U) >> 8U & 1U;
    }
    [[nodiscard]] RunningWork::Circumstances circumstances(const Work& work, bool blocks) {
        return {.name = {}, .tag = work.number, .resident = yes(2), .in_place = !yes(2), .blocks = blocks};
    }

private:
    const std::uint32_t seed_;
    std::mt19937 random_;
};

struct Member {
    std::unique_ptr<RuntimeClient> owned;
    RuntimeClient* client = nullptr;  ///< null if this rank is not a member
    Place place;
};

/// The job and two process sets.
std::vector<Member> members_of(RuntimeClient& world, const std::string& hosts) {
    std::vector<Member> members;
    members.push_back({nullptr, &world, {hosts}});
    if (world.size() < 2) {
        return members;
    }
    std::vector<int> evens;
    std::vector<int> others;
    for (int rank = 0; rank < world.size(); ++rank) {
        if (rank % 2 == 0) {
            evens.push_back(rank);
        }
        if (rank > 0) {
            others.push_back(rank);
        }
    }
    for (const std::vector<int>& ranks : {evens, others}) {
        Member member;
        member.owned = expect_value(world.add_set(ranks), "a set");
        member.client = member.owned.get();
        for (const int rank : ranks) {
            member.place.hosts += hosts[static_cast<std::size_t>(rank)];
        }
        members.push_back(std::move(member));
    }
    return members;
}

using Results = std::map<int, Bytes>;  // the key is the number of the work

/// Starts the asynchronous operations in a random order, and waits for them in another random order.
Results do_in_background(const std::vector<Member>& members, std::vector<const Work*> works, Shaker shaker) {
    shaker.shuffle(works);
    std::vector<std::pair<const Work*, std::unique_ptr<RunningWork>>> running;
    for (const Work* work : works) {
        RuntimeClient& client = *members[static_cast<std::size_t>(work->set)].client;
        running.emplace_back(work, std::make_unique<RunningWork>(client, *work, shaker.circumstances(*work, false)));
        shaker.pause();
    }
    shaker.shuffle(running);
    Results results;
    for (auto& [work, one] : running) {
        while (shaker.yes(3) && !one->poll()) {
        }
        results[work->number] = one->finish();
    }
    return results;
}

void do_in_foreground(const std::vector<Member>& members, const std::vector<const Work*>& works, Shaker shaker,
                      Results& results) {
    for (const Work* work : works) {
        RuntimeClient& client = *members[static_cast<std::size_t>(work->set)].client;
        shaker.pause();
        results[work->number] = RunningWork(client, *work, shaker.circumstances(*work, true)).finish();
    }
}

/// Two threads start operations and wait for them. A third thread makes blocking calls.
Results do_all(RuntimeClient& world, const std::vector<Member>& members, const std::vector<Work>& works,
               std::uint32_t seed) {
    const Shaker shaker(seed, world.rank());
    std::vector<const Work*> in_background[2];
    std::vector<const Work*> in_foreground;
    for (const Work& work : works) {
        if (members[static_cast<std::size_t>(work.set)].client != nullptr) {
            (shaker.blocks(work) ? in_foreground : in_background[work.number % 2]).push_back(&work);
        }
    }
    Results results;
    Results others;
    std::exception_ptr failed;
    std::thread other([&] {
        try {
            others = do_in_background(members, in_background[1], Shaker(seed + 1000 * (seed != 0), world.rank()));
        } catch (...) {
            failed = std::current_exception();
        }
    });
    std::thread third;
    std::exception_ptr third_failed;
    Results of_third;
    third = std::thread([&] {
        try {
            of_third = do_in_background(members, in_background[0], Shaker(seed + 2000 * (seed != 0), world.rank()));
        } catch (...) {
            third_failed = std::current_exception();
        }
    });
    try {
        do_in_foreground(members, in_foreground, shaker, results);
    } catch (...) {
        failed = std::current_exception();
    }
    other.join();
    third.join();
    for (const std::exception_ptr& one : {failed, third_failed}) {
        if (one) {
            std::rethrow_exception(one);
        }
    }
    results.merge(others);
    results.merge(of_third);
    return results;
}

std::uint64_t digest(const Bytes& bytes) {
    std::uint64_t all = 0xCBF29CE484222325;
    for (const std::byte byte : bytes) {  // the hash function FNV-1a
        all = (all ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3;
    }
    return all;
}

/// Each letter of `hosts` is the host of one rank; with "aaa" all ranks are on one host.
RanksResult run(const std::string& hosts, RanksAs as, std::uint32_t seed) {
    const int size = static_cast<int>(hosts.size());
    const bool one_host = hosts.find_first_not_of('a') == std::string::npos;
    return run_clients(
        size, shaken_config(seed),
        [&](RankContext& context, RuntimeClient& world) {
            const std::vector<Member> members = members_of(world, hosts);
            const std::vector<Work> works = all_works(static_cast<int>(members.size()));
            const Results results = do_all(world, members, works, seed);
            context.phase("checks");
            for (const Work& work : works) {
                const Member& member = members[static_cast<std::size_t>(work.set)];
                if (member.client == nullptr) {
                    continue;
                }
                const Bytes& result = results.at(work.number);
                // If all members get the same result, only one member checks its values, to save time.
                // check_members_alike() compares the members.
                const int me = member.client->rank();
                const bool is_mine = !work.is_the_same_for_all() || work.number % member.place.size() == me;
                if (seed == kUndisturbed && is_mine) {
                    check_values(work, member.place, me, result);
                }
                context.report(work.name(), digest(result));
            }
        },
        {.as = as, .deadline = std::chrono::seconds(300)}, one_host ? Layout() : hosts);
}

/// Checks that all members have the same bits, if the operation gives all members the same result.
void check_members_alike(const RanksResult& result) {
    for (const Work& work : all_works(result.ranks.size() < 2 ? 1 : 3)) {
        std::set<std::string> bits;
        for (const RankOutcome& rank : result.ranks) {
            if (const auto found = rank.values.find(work.name()); found != rank.values.end()) {
                bits.insert(found->second);
            }
        }
        INFO(work.name());
        REQUIRE((!work.is_the_same_for_all() || bits.size() == 1));
    }
}

void check_bits(const std::string& hosts, RanksAs as) {
    const RanksResult undisturbed = run(hosts, as, kUndisturbed);
    INFO(hosts);
    {
        INFO(undisturbed.text());
        REQUIRE(undisturbed.passed());
    }
    check_members_alike(undisturbed);
    for (std::uint32_t shake = 0; shake < shakes(); ++shake) {
        const std::uint32_t seed = first_shake() + shake;
        INFO("seed " << seed);
        const RanksResult shaken = run(hosts, as, seed);
        {
            INFO(shaken.text());
            REQUIRE(shaken.passed());
        }
        for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
            const auto& right = undisturbed.ranks[rank].values;
            REQUIRE(shaken.ranks[rank].values.size() == right.size());
            for (const auto& [work, bits] : shaken.ranks[rank].values) {
                INFO("rank " << rank << ": " << work);
                REQUIRE(bits == right.at(work));
            }
        }
    }
}

TEST_CASE("every operation has the same bits however it is shaken, as threads", "[threads]") {
    const std::string hosts = GENERATE("aa", "aaa");
    check_bits(hosts, RanksAs::threads);
}

TEST_CASE("every operation has the same bits however it is shaken, as processes", "[processes]") {
    check_bits("aaa", RanksAs::processes);
}

TEST_CASE("every operation has the same bits however it is shaken, on several hosts", "[threads]") {
    const std::string hosts = GENERATE("ab", "aabb", "abcc");
    check_bits(hosts, RanksAs::threads);
}

}  // namespace
}  // namespace rueda::tests
