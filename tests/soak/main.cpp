// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// Runs random operations on all ranks of a job. Usage: soak_rank [seconds [threads [seed]]]
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_client.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/soak/draws.hpp"
#include "tests/soak/footprint.hpp"

namespace rueda::tests {
namespace {

constexpr int kOperations = 60;     ///< the number of operations of each thread in each round
constexpr std::size_t kWindow = 8;  ///< the number of operations that each thread has in progress at the same time
constexpr std::size_t kSets = 3;    ///< number of process sets besides the set of all ranks (the world)
/// The number of process sets after which this test adds no more. A job can add at most 7999 sets. Four ranks would
/// reach this limit after half an hour.
constexpr std::size_t kMostSets = 7500;
constexpr std::uint32_t kJoinsEach = 4;  ///< the ranks join in one of this many rounds
constexpr int kNames = 40;  ///< number of names of each thread; all are used repeatedly, with changing metadata

struct Plan {
    double seconds = 3;
    int threads = 3;
    std::uint32_t seed = 1;
};

/// Ends the process without destructors, because operations in progress still use their tensors.
[[noreturn]] void fail(const char* what) {
    fmt::print(stderr, "soak_rank: rank {}: {}\n", rank(), what);
    std::fflush(stderr);
    std::_Exit(1);
}

/// A process set, as this rank uses it.
struct Members {
    ProcessSet set;
    std::unique_ptr<PublicClient> client;  ///< null if this rank is no member
    Place place;
};

/// Returns one letter for each rank. Ranks of the same host get the same letter, which stands for the lowest rank of
/// the host.
std::string hosts_of_ranks() {
    const std::vector<std::int32_t> lowest = {rank() - local_rank()};
    const Handle all = allgather("soak.hosts", lowest);
    std::string hosts;
    for (int other = 0; other < size(); ++other) {
        hosts += static_cast<char>('a' + static_cast<const std::int32_t*>(all.output().data())[other]);
    }
    return hosts;
}

Members members_of(ProcessSet set, const std::string& hosts) {
    Members members{.set = set, .client = set.included() ? std::make_unique<PublicClient>(set) : nullptr, .place = {}};
    for (const std::int32_t member : set.ranks()) {
        members.place.hosts += hosts[static_cast<std::size_t>(member)];
    }
    return members;
}

/// An operation in progress.
class UnderWay {
public:
    UnderWay(std::string name, const Draw& draw, const Members& members, std::int32_t tag, bool resident)
        : name_(std::move(name)), draw_(draw), members_(members) {
        PublicClient& client = *members.client;
        if (!draw.is_mismatch) {
            running_ = std::make_unique<RunningWork>(
                client, draw_.work,
                RunningWork::Circumstances{
                    .name = name_, .tag = tag, .resident = resident, .in_place = true, .blocks = draw.blocks});
            return;
        }
        const std::int64_t differs = client.rank() == client.size() - 1 ? 1 : 0;
        odd_ = std::make_unique<Buffer>(client, DType::int32, std::vector<std::int64_t>{draw.work.rows + differs},
                                        resident);
        refused_ = expect_value(client.start_allreduce(name_, odd_->tensor(), odd_->tensor(), {ReduceOp::max}), name_);
    }

    [[nodiscard]] bool is(const std::string& name, int set) const { return name_ == name && draw_.work.set == set; }
    /// Throws if the result is wrong.
    void finish() {
        if (running_ != nullptr) {
            check_values(draw_.work, members_.place, members_.client->rank(), running_->finish());
        } else if (members_.client->size() > 1) {
            expect_failure(refused_->wait(), ErrorCode::mismatch, name_);
        } else {
            expect_ok(refused_->wait(), name_);
        }
    }

private:
    std::string name_;
    Draw draw_;
    const Members& members_;
    std::unique_ptr<RunningWork> running_;
    std::unique_ptr<Buffer> odd_;
    PendingPointer refused_;
};

/// Runs one thread of a rank in one round. All ranks draw the same operations, but each rank pauses for different
/// times.
class Worker {
public:
    Worker(std::uint32_t seed, int thread, const std::vector<Members>& sets)
        : common_(seed * 64 + static_cast<std::uint32_t>(thread)),
          own_(seed * 4096 + static_cast<std::uint32_t>(thread * 64 + rank())),
          thread_(thread),
          sets_(sets) {}

    void run() noexcept {
        try {
            for (int i = 0; i < kOperations; ++i) {
                next(i);
            }
            finish_down_to(0);
        } catch (const std::exception& error) {
            fail(error.what());
        }
    }

private:
    void next(int number) {
        const Draw draw = draw_operation(common_, sets_.size());
        const int which = (number + (draw.work.number % 2 == 0 ? 0 : 17)) % kNames;
        const std::string name = fmt::format("t{}.{}", thread_, which);
        const Members& members = sets_[static_cast<std::size_t>(draw.work.set)];
        const bool waits = draw.work.number % 4 == 0 || number % kNames == 0;  // the same on all ranks
        finish_down_to(waits ? 0 : kWindow);
        if (members.client == nullptr) {
            return;
        }
        finish_named(name, draw.work.set);
        dawdle();
        under_way_.push_back(
            std::make_unique<UnderWay>(name, draw, members, thread_ * kNames + which, own_() % 2 == 0));
    }
    /// Waits until this set has no pending operation with this name, because a set can have only one pending operation
    /// of each name.
    void finish_named(const std::string& name, int set) {
        while (std::any_of(under_way_.begin(), under_way_.end(), [&](const auto& one) { return one->is(name, set); })) {
            finish_first();
        }
    }
    void finish_down_to(std::size_t most) {
        while (under_way_.size() > most) {
            finish_first();
        }
    }
    void finish_first() {
        under_way_.front()->finish();
        under_way_.pop_front();
    }
    void dawdle() {
        if (own_() % 16 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(own_() % 500));
        }
    }

    std::mt19937 common_;
    std::mt19937 own_;
    int thread_;
    const std::vector<Members>& sets_;
    std::deque<std::unique_ptr<UnderWay>> under_way_;
};

/// Returns the world and some new sets.
std::vector<Members> add_sets(std::uint32_t seed, std::size_t count, const std::string& hosts) {
    std::mt19937 random(seed);
    std::vector<Members> sets;
    sets.push_back(members_of(world(), hosts));
    for (const std::vector<std::int32_t>& ranks : draw_sets(random, size(), count)) {
        sets.push_back(members_of(add_process_set(ranks), hosts));
    }
    return sets;
}
void remove_sets(const std::vector<Members>& sets) {
    for (std::size_t i = 1; i < sets.size(); ++i) {
        remove_process_set(sets[i].set);
    }
}

/// Runs the threads of one round. Every thread works in every set.
void run_round(std::uint32_t seed, int threads, const std::vector<Members>& sets) {
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<std::jthread> running;  // if a thread cannot be started, the destructors join the started ones
    for (int thread = 0; thread < threads; ++thread) {
        workers.push_back(std::make_unique<Worker>(seed, thread, sets));
        running.emplace_back([worker = workers.back().get()] { worker->run(); });
    }
}

/// The ranks make different numbers of allreduces and then join.
void run_joins(std::uint32_t seed) {
    std::mt19937 common(seed);
    std::vector<int> counts;
    for (int rank = 0; rank < size(); ++rank) {
        counts.push_back(static_cast<int>(common() % 6));
    }
    const auto elements = static_cast<std::size_t>(common() % 8 == 0 ? 20'000 : common() % 50);
    const auto mine = static_cast<std::size_t>(rank());
    for (int i = 0; i < counts[mine]; ++i) {
        std::vector<double> values(elements, rank() + 1);
        allreduce(fmt::format("soak.joins.{}", i), values, {.op = i % 2 == 0 ? ReduceOp::sum : ReduceOp::max});
        double right = 0;
        for (int other = 0; other < size(); ++other) {
            const bool is_here = counts[static_cast<std::size_t>(other)] > i;
            right = !is_here ? right : i % 2 == 0 ? right + other + 1 : std::max<double>(right, other + 1);
        }
        if (std::any_of(values.begin(), values.end(), [right](double value) { return value != right; })) {
            throw std::runtime_error(fmt::format("allreduce {} beside ranks that have joined: not {}", i, right));
        }
    }
    const int last = join();
    std::vector<std::int32_t> agreed = {last, -last};
    allreduce("soak.joins.last", agreed, {.op = ReduceOp::min});
    if (agreed[0] != last || agreed[1] != -last || last < 0 || last >= size()) {
        throw std::runtime_error(fmt::format("rank {} was the last to join; others say another", last));
    }
}

/// Decides when sets change and when the run ends. Rank 0's clock decides for all ranks.
class Schedule {
public:
    explicit Schedule(double seconds)
        : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

    /// Makes the choices for the next round. All ranks call this function after each round.
    void next() {
        const Clock::time_point now = Clock::now();
        const bool change = rounds_ < kEachRound || now - changed_ >= std::chrono::seconds(1);
        std::vector<std::uint8_t> said = {static_cast<std::uint8_t>(now < end_), static_cast<std::uint8_t>(change)};
        broadcast("soak.schedule", said, 0);
        ++rounds_;
        goes_on_ = said[0] != 0;
        new_sets_ = said[1] != 0;
        changed_ = new_sets_ ? now : changed_;
    }
    [[nodiscard]] std::uint32_t rounds() const { return rounds_; }
    [[nodiscard]] bool goes_on() const { return goes_on_; }
    [[nodiscard]] bool new_sets() const { return new_sets_; }

private:
    using Clock = std::chrono::steady_clock;
    /// The number of rounds at the beginning that all have new sets. Afterwards, each set stays for a second, because a
    /// job can add only a limited number of sets.
    static constexpr std::uint32_t kEachRound = 500;

    Clock::time_point end_;
    Clock::time_point changed_;
    std::uint32_t rounds_ = 0;
    bool goes_on_ = true;
    bool new_sets_ = true;
};

/// Checks that nothing grows from the second to the last third of the rounds. It compares the lowest of several
/// measurements, because threads allocate at any time. It measures while only the world exists, because each set has
/// its own memory, and the number of sets of a rank is random.
class Growth {
public:
    void add(std::uint32_t round, const Footprint& footprint) { all_.push_back({round, footprint}); }
    [[nodiscard]] bool can_judge() const { return !all_.empty() && all_.back().round >= kFewest; }
    [[nodiscard]] std::string verdict() const {
        if (!can_judge()) {
            return {};
        }
        const std::uint32_t rounds = all_.back().round + 1;
        const Footprint early = least(rounds / 3, rounds - rounds / 3);
        const Footprint late = least(rounds - rounds / 3, rounds);
        const bool grown = late.private_bytes > early.private_bytes + kSlack ||
                           late.shared_bytes > early.shared_bytes + kSharedSlack || late.threads > early.threads ||
                           late.files > early.files;
        return grown ? fmt::format("it has grown from {} to {}", early.text(), late.text()) : std::string();
    }

private:
    /// The smallest number of rounds for this check. With fewer rounds, memory that is used for the first time (for new
    /// names, larger tensors, parts of the arena) would look like a leak.
    static constexpr std::uint32_t kFewest = 2000;
    static constexpr std::uint64_t kSlack = 2 << 20;
    /// Even without a leak, later rounds touch pages of the arena that no earlier round has touched: four ranks had 13,
    /// 16 and 18 MiB after 1,000, 2,000 and 14,000 rounds. This slack allows for these pages. A leak of a cache line
    /// per operation would be larger than this slack.
    static constexpr std::uint64_t kSharedSlack = 4 << 20;

    struct Measured {
        std::uint32_t round = 0;
        Footprint footprint;
    };
    /// Returns the lowest footprint that was measured in the rounds [begin, end). The footprint is measured before each
    /// round that begins with new sets, and after the last round.
    [[nodiscard]] Footprint least(std::uint32_t begin, std::uint32_t end) const {
        Footprint least = all_.back().footprint;
        for (const Measured& one : all_) {
            if (one.round >= begin && one.round < end) {
                least.private_bytes = std::min(least.private_bytes, one.footprint.private_bytes);
                least.shared_bytes = std::min(least.shared_bytes, one.footprint.shared_bytes);
                least.threads = std::min(least.threads, one.footprint.threads);
                least.files = std::min(least.files, one.footprint.files);
            }
        }
        return least;
    }
    std::vector<Measured> all_;
};

void soak(const Plan& plan) {
    const std::string hosts = hosts_of_ranks();
    Growth growth;
    Schedule schedule(plan.seconds);
    std::vector<Members> sets;
    std::size_t added = 0;  // the same on all ranks
    while (schedule.goes_on()) {
        const std::uint32_t seed = plan.seed + schedule.rounds();
        if (schedule.new_sets()) {
            remove_sets(sets);
            growth.add(schedule.rounds(), Footprint::now());
            sets = add_sets(seed, added + kSets <= kMostSets ? kSets : 0, hosts);
            added += sets.size() - 1;
        }
        run_round(seed, plan.threads, sets);
        if (schedule.rounds() % kJoinsEach == 0) {
            run_joins(seed);
        }
        schedule.next();
    }
    remove_sets(sets);
    growth.add(schedule.rounds(), Footprint::now());
    fmt::print("rank {}: {} rounds from seed {} with {} threads; {}{}\n", rank(), schedule.rounds(), plan.seed,
               plan.threads, Footprint::now().text(), growth.can_judge() ? "" : "; too few rounds to see what grows");
    if (const std::string verdict = growth.verdict(); !verdict.empty()) {
        throw std::runtime_error(verdict);
    }
}

double number(const char* text, double least, double most, const char* what) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most)) {
        throw std::invalid_argument(fmt::format("{} is '{}'; expected {} to {}", what, text, least, most));
    }
    return value;
}

Plan plan_from(int argc, char** argv) {
    Plan plan;
    plan.seconds = argc > 1 ? number(argv[1], 0, 1e6, "seconds") : plan.seconds;
    plan.threads = argc > 2 ? static_cast<int>(number(argv[2], 1, 32, "threads")) : plan.threads;
    plan.seed = argc > 3 ? static_cast<std::uint32_t>(number(argv[3], 0, 4e9, "seed")) : plan.seed;
    return plan;
}

}  // namespace
}  // namespace rueda::tests

int main(int argc, char** argv) {
    try {
        // The threads share malloc's arenas at random (mallopt(3)). Each arena keeps free fragments, whose total size
        // grows for a long time without being a leak. A single arena avoids this.
        ::mallopt(M_ARENA_MAX, 1);
        const rueda::tests::Plan plan = rueda::tests::plan_from(argc, argv);
        rueda::init();
        rueda::tests::soak(plan);
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "soak_rank: {}\n", error.what());
        return 1;
    }
}
