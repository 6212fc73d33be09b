// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests which workers an elastic job has, and which of them form its generations: single cases, and a simulation of
// jobs in which random sets of workers are killed.
#include "launcher/elastic/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/elastic/discovery.hpp"

namespace rueda::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ending = Membership::Ending;
using TimePoint = Membership::TimePoint;

constexpr TimePoint kBegin = TimePoint() + std::chrono::hours(1);

ElasticPlan plan_of(int first, int least, int most) {
    ElasticPlan plan;
    plan.first = first;
    plan.least = least;
    plan.most = most;
    plan.timeout = seconds(100);
    plan.cooldown_least = seconds(10);
    plan.cooldown_most = seconds(40);
    return plan;
}

/// Writes an action as a short text.
std::string text_of_action(const Membership::Action& action) {
    if (const auto* const start = std::get_if<Membership::Start>(&action)) {
        return fmt::format("start {} on {}", start->worker, start->host);
    }
    if (const auto* const form = std::get_if<Membership::Form>(&action)) {
        std::string text = fmt::format("form {}:", form->generation);
        for (const Membership::Member& member : form->members) {
            text += fmt::format(" {}={}", member.rank, member.worker);
        }
        return text;
    }
    if (const auto* const tell = std::get_if<Membership::Tell>(&action)) {
        return fmt::format("tell {} {}", tell->worker, tell->changes);
    }
    if (const auto* const dismiss = std::get_if<Membership::Dismiss>(&action)) {
        return fmt::format("dismiss {}", dismiss->worker);
    }
    if (const auto* const kill = std::get_if<Membership::Kill>(&action)) {
        return fmt::format("kill {}", kill->worker);
    }
    const auto& end = std::get<Membership::End>(action);
    return end.success ? "end well" : "end: " + end.reason;
}

std::vector<std::string> actions_of(Membership& membership) {
    std::vector<std::string> texts;
    for (const Membership::Action& action : membership.take_actions()) {
        texts.push_back(text_of_action(action));
    }
    return texts;
}

using Texts = std::vector<std::string>;

/// A job of `count` workers on the host h, in its first generation.
Membership running_job(const ElasticPlan& plan, int slots) {
    Membership membership(plan, kBegin);
    membership.set_slots({{"h", slots, 0}}, kBegin);
    for (int worker = 0; worker < plan.first; ++worker) {
        membership.waits(worker, kBegin);
    }
    static_cast<void>(membership.take_actions());
    return membership;
}

TEST_CASE("the first generation waits for all workers that have slots", "[unit]") {
    Membership membership(plan_of(3, 2, 4), kBegin);
    CHECK(actions_of(membership).empty());
    membership.set_slots({{"h", 2, 0}}, kBegin);
    CHECK(actions_of(membership) == Texts{"start 0 on h", "start 1 on h"});
    membership.waits(1, kBegin);
    CHECK(actions_of(membership).empty());
    membership.set_slots({{"h", 2, 0}, {"i", 5, 0}}, kBegin);
    CHECK(actions_of(membership) == Texts{"start 2 on i"});
    membership.waits(0, kBegin);
    membership.waits(2, kBegin);
    // After its first generation, the job gets more workers, up to its maximum size.
    CHECK(actions_of(membership) == Texts{"form 0: 0=0 1=1 2=2", "start 3 on i"});
    CHECK(membership.rank_of(2) == 2);
    CHECK(membership.rank_of(3) == -1);
}

TEST_CASE("survivors go on at once, and a replacement joins them later", "[unit]") {
    Membership membership = running_job(plan_of(4, 2, 4), 4);
    membership.ended(1, Ending::failed, kBegin);
    // the failed worker's host gets no new worker for 10 s, and the survivors still run
    CHECK(actions_of(membership).empty());
    membership.waits(0, kBegin);
    membership.waits(3, kBegin);
    CHECK(actions_of(membership).empty());
    membership.waits(2, kBegin);
    CHECK(actions_of(membership) == Texts{"form 1: 0=0 1=2 2=3"});
    CHECK(membership.deadline() == kBegin + seconds(10));
    membership.advance(kBegin + seconds(10));
    CHECK(actions_of(membership) == Texts{"start 4 on h"});
    membership.waits(4, kBegin + seconds(12));
    CHECK(actions_of(membership) == Texts{"tell 0 1", "tell 2 1", "tell 3 1"});
    membership.waits(0, kBegin + seconds(13));
    membership.waits(2, kBegin + seconds(13));
    membership.waits(3, kBegin + seconds(13));
    CHECK(actions_of(membership) == Texts{"form 2: 0=0 1=2 2=3 3=4"});
    for (const int worker : {0, 2, 3, 4}) {
        membership.ended(worker, Ending::well, kBegin + seconds(14));
    }
    CHECK(actions_of(membership) == Texts{"end well"});
    CHECK(membership.is_over());
}

TEST_CASE("too few survivors wait for replacements, until the time is over", "[unit]") {
    const bool comes_in_time = GENERATE(false, true);
    Membership membership = running_job(plan_of(2, 2, 2), 2);
    membership.ended(0, Ending::failed, kBegin);
    membership.waits(1, kBegin + seconds(1));
    CHECK(actions_of(membership).empty());
    membership.advance(kBegin + seconds(10));
    CHECK(actions_of(membership) == Texts{"start 2 on h"});
    CHECK(membership.deadline() == kBegin + seconds(101));
    if (comes_in_time) {
        membership.waits(2, kBegin + seconds(100));
        CHECK(actions_of(membership) == Texts{"form 1: 0=1 1=2"});  // the survivor becomes rank 0
    } else {
        membership.advance(kBegin + seconds(101));
        CHECK(actions_of(membership) == Texts{"end: after 100 s (--elastic-timeout) there are 1 of at least 2 ranks"});
    }
}

TEST_CASE("a rank that waits and one that runs end at the same time", "[unit]") {
    Membership membership = running_job(plan_of(4, 1, 4), 4);
    membership.ended(3, Ending::failed, kBegin);
    membership.waits(1, kBegin);
    membership.waits(2, kBegin);
    CHECK(actions_of(membership).empty());
    // When rank 0 ends, no training rank is left. Rank 1 ends at the same time, so it gets no place in the next
    // generation either.
    const std::vector<Membership::Ended> together = {{0, Ending::failed}, {1, Ending::failed}};
    membership.ended(together, kBegin);
    CHECK(actions_of(membership) == Texts{"form 1: 0=2"});
}

TEST_CASE("workers that wait and workers that start end together before the first generation", "[unit]") {
    Membership membership(plan_of(3, 1, 3), kBegin);
    membership.set_slots({{"h", 3, 0}}, kBegin);
    static_cast<void>(membership.take_actions());
    membership.waits(1, kBegin);
    membership.waits(2, kBegin);
    const std::vector<Membership::Ended> together = {{0, Ending::failed}, {1, Ending::failed}};
    membership.ended(together, kBegin);
    CHECK(actions_of(membership) == Texts{"form 0: 0=2"});
}

TEST_CASE("a rank that does not come to the next generation is given up", "[unit]") {
    Membership membership = running_job(plan_of(3, 2, 3), 3);
    membership.waits(0, kBegin);
    membership.waits(2, kBegin);
    CHECK(actions_of(membership).empty());
    membership.advance(kBegin + seconds(100));
    // The next generation waits until this rank is dead, because the rank may still use the memory of the other ranks.
    CHECK(actions_of(membership) == Texts{"kill 1"});
    membership.advance(kBegin + seconds(101));
    CHECK(actions_of(membership).empty());
    SECTION("and the others go on when it is dead") {
        membership.ended(1, Ending::failed, kBegin + seconds(102));
        CHECK(actions_of(membership) == Texts{"form 1: 0=0 1=2"});
    }
    SECTION("and the job ends if not even that helps") {
        membership.advance(kBegin + seconds(200));
        CHECK(actions_of(membership) == Texts{"end: after 100 s (--elastic-timeout) there are 2 of at least 2 ranks"});
    }
}

TEST_CASE("a survivor is kept when all slots move to another host", "[unit]") {
    Membership full = running_job(plan_of(1, 1, 1), 1);
    full.set_slots({{"i", 1, 0}}, kBegin);
    CHECK(actions_of(full).empty());  // the job has as many ranks as it may have
    Membership membership = running_job(plan_of(1, 1, 2), 1);
    membership.set_slots({{"i", 1, 0}}, kBegin);
    CHECK(actions_of(membership) == Texts{"start 1 on i"});
    membership.waits(1, kBegin);
    CHECK(actions_of(membership) == Texts{"tell 0 1"});
    membership.waits(0, kBegin);
    CHECK(actions_of(membership) == Texts{"form 1: 0=0 1=1", "tell 0 2", "tell 1 2"});
    // Rank 0 has no slot any more. It can go now, because rank 1 has the state of the training.
    membership.waits(0, kBegin);
    membership.waits(1, kBegin);
    CHECK(actions_of(membership) == Texts{"dismiss 0", "form 2: 0=1"});
}

TEST_CASE("the cooldown of a host doubles with each failure, up to its limit", "[unit]") {
    Membership membership = running_job(plan_of(2, 1, 2), 2);
    TimePoint now = kBegin;
    int next = 2;
    for (const int cooldown : {10, 20, 40, 40}) {
        const int failing = next - 1;
        membership.ended(failing, Ending::failed, now);
        if (membership.rank_of(0) >= 0) {
            membership.waits(0, now);
        }
        static_cast<void>(membership.take_actions());
        membership.advance(now + seconds(cooldown) - milliseconds(1));
        CHECK(actions_of(membership).empty());
        now += seconds(cooldown);
        membership.advance(now);
        CHECK(actions_of(membership) == Texts{fmt::format("start {} on h", next)});
        ++next;
    }
}

TEST_CASE("the loss of a host with several workers is one failure of the host", "[unit]") {
    Membership membership = running_job(plan_of(4, 1, 4), 4);
    for (const int lost : {1, 2, 3}) {
        membership.ended(lost, Ending::failed, kBegin + milliseconds(lost));
    }
    membership.waits(0, kBegin + seconds(1));
    static_cast<void>(membership.take_actions());
    membership.advance(kBegin + seconds(10));
    CHECK(actions_of(membership).empty());
    membership.advance(kBegin + milliseconds(10003));
    CHECK(actions_of(membership).size() == 3);  // all three are replaced
}

TEST_CASE("a program that cannot be started is not tried all the time, even without a cooldown", "[unit]") {
    ElasticPlan plan = plan_of(2, 1, 2);
    plan.cooldown_least = plan.cooldown_most = seconds(0);
    Membership membership = running_job(plan, 2);
    membership.ended(1, Ending::failed, kBegin);
    CHECK(actions_of(membership).empty());
    CHECK(membership.deadline() == kBegin + milliseconds(100));
    membership.advance(kBegin + milliseconds(100));
    CHECK(actions_of(membership) == Texts{"start 2 on h"});
}

TEST_CASE("a failure that is only a consequence does not block its host", "[unit]") {
    Membership membership = running_job(plan_of(3, 1, 3), 3);
    membership.ended(2, Ending::echo, kBegin);
    CHECK(actions_of(membership) == Texts{"start 3 on h"});
}

TEST_CASE("slots that are removed end workers at the next generation, but never below the smallest number", "[unit]") {
    Membership membership = running_job(plan_of(4, 2, 4), 4);
    membership.set_slots({{"h", 1, 0}}, kBegin);
    CHECK(actions_of(membership) == Texts{"tell 0 2", "tell 1 2", "tell 2 2", "tell 3 2"});
    for (int worker = 0; worker < 4; ++worker) {
        membership.waits(worker, kBegin);
    }
    CHECK(actions_of(membership) == Texts{"dismiss 2", "dismiss 3", "form 1: 0=0 1=1"});
    membership.advance(kBegin);
    // the job must not become smaller, so its ranks are not asked again to leave the generation
    CHECK(actions_of(membership).empty());
}

TEST_CASE("newcomers whose slot is removed, or that come too late, are ended", "[unit]") {
    Membership membership = running_job(plan_of(1, 1, 3), 3);
    membership.advance(kBegin);
    membership.set_slots({{"h", 2, 0}}, kBegin);
    CHECK(actions_of(membership) == Texts{"dismiss 2"});
    membership.ended(0, Ending::well, kBegin);
    CHECK(actions_of(membership) == Texts{"dismiss 1", "end well"});
}

TEST_CASE("the slots disappear before the first generation, and come back", "[unit]") {
    Membership membership(plan_of(4, 4, 4), kBegin);
    membership.set_slots({{"h", 4, 0}}, kBegin);
    static_cast<void>(membership.take_actions());
    SECTION("all of them") {
        membership.set_slots({}, kBegin);
        CHECK(actions_of(membership) == Texts{"dismiss 3", "dismiss 2", "dismiss 1", "dismiss 0"});
        membership.advance(kBegin + seconds(1));
        CHECK(actions_of(membership).empty());  // no worker has trained, so the job does not count as successful
        membership.set_slots({{"h", 4, 0}}, kBegin + seconds(2));
        CHECK(actions_of(membership) == Texts{"start 4 on h", "start 5 on h", "start 6 on h", "start 7 on h"});
    }
    SECTION("some of them") {
        membership.waits(0, kBegin);
        membership.set_slots({{"h", 2, 0}}, kBegin);
        CHECK(actions_of(membership) == Texts{"dismiss 3", "dismiss 2"});
        membership.set_slots({{"h", 4, 0}}, kBegin);
        CHECK(actions_of(membership) == Texts{"start 4 on h", "start 5 on h"});
        for (const int worker : {1, 4, 5}) {
            membership.waits(worker, kBegin);
        }
        CHECK(actions_of(membership) == Texts{"form 0: 0=0 1=1 2=4 3=5"});
    }
}

TEST_CASE("the job has failed if a member of its last generation has failed", "[unit]") {
    Membership membership = running_job(plan_of(2, 1, 2), 2);
    membership.ended(0, Ending::well, kBegin);
    CHECK(actions_of(membership).empty());
    membership.ended(1, Ending::failed, kBegin);
    CHECK(actions_of(membership) == Texts{"end: no rank is left"});
}

TEST_CASE("a program that cannot start is not started again and again", "[unit]") {
    Membership membership(plan_of(3, 2, 3), kBegin);
    membership.set_slots({{"h", 3, 0}}, kBegin);
    static_cast<void>(membership.take_actions());
    membership.ended(0, Ending::failed, kBegin);
    CHECK(actions_of(membership).empty());
    membership.ended(1, Ending::failed, kBegin);
    CHECK(actions_of(membership) == Texts{"end: 1 of at least 2 ranks could start"});
}

TEST_CASE("a program that does not use Rueda ends well", "[unit]") {
    Membership membership(plan_of(2, 2, 2), kBegin);
    membership.set_slots({{"h", 2, 0}}, kBegin);
    static_cast<void>(membership.take_actions());
    membership.ended(0, Ending::well, kBegin);
    membership.ended(1, Ending::well, kBegin);
    CHECK(actions_of(membership) == Texts{"end well"});
}

TEST_CASE("a program that does not use Rueda runs once in each slot", "[unit]") {
    Membership membership(plan_of(8, 1, 8), kBegin);
    membership.set_slots({{"h", 2, 0}}, kBegin);
    CHECK(actions_of(membership) == Texts{"start 0 on h", "start 1 on h"});
    membership.ended(0, Ending::well, kBegin);
    CHECK(actions_of(membership).empty());
    membership.ended(1, Ending::well, kBegin);
    CHECK(actions_of(membership) == Texts{"end well"});
}

TEST_CASE("without slots the job ends when the time is over", "[unit]") {
    Membership membership(plan_of(2, 2, 2), kBegin);
    membership.set_slots({}, kBegin);
    CHECK(membership.deadline() == kBegin + seconds(100));
    membership.advance(kBegin + seconds(100));
    CHECK(actions_of(membership) == Texts{"end: after 100 s (--elastic-timeout) there are 0 of at least 2 ranks"});
}

TEST_CASE("the limit of resets ends the job after a failure, and stops its growth", "[unit]") {
    ElasticPlan plan = plan_of(2, 1, 3);
    plan.resets = 1;
    Membership membership = running_job(plan, 2);
    membership.waits(0, kBegin);
    membership.waits(1, kBegin);
    CHECK(actions_of(membership) == Texts{"form 1: 0=0 1=1"});
    membership.set_slots({{"h", 3, 0}}, kBegin);
    CHECK(actions_of(membership).empty());
    membership.ended(1, Ending::failed, kBegin);
    membership.waits(0, kBegin);
    CHECK(actions_of(membership) == Texts{"end: it has had 1 new generations, and --reset-limit allows no more"});
}

TEST_CASE("the output of the discovery script is read", "[unit]") {
    ElasticPlan plan = plan_of(1, 1, 8);
    plan.own_names = {"localhost", "me"};
    Discovered discovered = read_discovered_hosts("localhost:3\nme slots=2\n", plan);
    REQUIRE(discovered.hosts);
    CHECK(*discovered.hosts == std::vector<Host>{{"localhost", 3, 0}, {"me", 2, 0}});
    CHECK(discovered.notes.empty());
    discovered = read_discovered_hosts("localhost\nother:4\n", plan);
    REQUIRE(discovered.hosts);
    CHECK(*discovered.hosts == std::vector<Host>{{"other", 4, 0}});
    REQUIRE(discovered.notes.size() == 1);
    CHECK(discovered.notes[0].find("no number of slots") != std::string::npos);
    plan.slots_per_host = 2;
    CHECK(*read_discovered_hosts("localhost\n", plan).hosts == std::vector<Host>{{"localhost", 2, 0}});
    discovered = read_discovered_hosts("localhost:many\n", plan);
    CHECK_FALSE(discovered.hosts);
    CHECK(discovered.notes.size() == 1);
}

/// A job whose workers behave like programs that use elastic.run(). At random times, a random set of workers is killed,
/// and ruedarun notices the ends of all of them together. The class checks the rules that every job must keep.
class SimulatedJob {
public:
    explicit SimulatedJob(unsigned seed) : random_(seed) {
        plan_ = plan_of(pick(1, 4), 1, 1);
        plan_.least = pick(1, plan_.first);
        plan_.most = pick(plan_.first, 6);
        plan_.resets = chance(0.2) ? std::optional(pick(0, 5)) : std::nullopt;
        kills_ = pick(0, 8);
        membership_.emplace(plan_, now_);
        set_slots();
    }

    void run() {
        constexpr int kMostSteps = 20000;
        int steps = 0;
        while (!membership_->is_over()) {
            REQUIRE(++steps < kMostSteps);  // no job hangs
            step();
        }
        carry_out();
        REQUIRE(has_ended_);
    }

private:
    enum class State { starting, waiting, training };
    struct Worker {
        State state = State::starting;
        int generation = -1;
        int left = 0;  ///< steps of the training that this worker still has to do
        bool told = false;
        std::string host;
    };

    int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
    bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

    void set_slots() {
        hosts_ = {{"h", pick(0, 4), 0}, {"i", pick(0, 3), 0}};
        membership_->set_slots(hosts_, now_);
    }

    /// Lets one event happen. When no kills are left and the slots do not change any more, every job must end by
    /// itself.
    void step() {
        carry_out();
        if (!dying_.empty()) {
            kill(with_others(std::exchange(dying_, {})));
            carry_out();
        }
        if (membership_->is_over()) {
            return;
        }
        if (changes_ > 0 && chance(0.05)) {
            --changes_;
            set_slots();
            return;
        }
        if (workers_.empty() || chance(0.1)) {
            pass_time();
            return;
        }
        auto entry = workers_.begin();
        std::advance(entry, pick(0, static_cast<int>(workers_.size()) - 1));
        if (kills_ > 0 && chance(0.1)) {
            --kills_;
            kill(with_others({entry->first}));
        } else {
            act(entry->first, entry->second);
        }
    }

    /// Adds a random set of workers to `victims`. While kills are left, this set is empty in half of the calls. Later,
    /// it is always empty.
    std::set<int> with_others(std::set<int> victims) {
        const double probability = kills_ > 0 && chance(0.5) ? 0.5 : 0.0;
        for (const auto& [number, worker] : workers_) {
            if (chance(probability)) {
                victims.insert(number);
            }
        }
        return victims;
    }

    void pass_time() {
        const auto deadline = membership_->deadline();
        now_ = deadline && chance(0.5) ? std::max(now_, *deadline) : now_ + milliseconds(pick(1, 3000));
        membership_->advance(now_);
    }

    void kill(const std::set<int>& victims) {
        std::vector<Membership::Ended> together;
        for (const int number : victims) {
            if (workers_.at(number).generation == current_) {
                is_broken_ = true;
                has_lost_member_ = true;
            }
            workers_.erase(number);
            together.push_back({number, Ending::failed});
        }
        std::shuffle(together.begin(), together.end(), random_);
        membership_->ended(together, now_);
    }

    void act(int number, Worker& worker) {
        if (worker.state == State::starting) {
            worker.state = State::waiting;
            membership_->waits(number, now_);
        } else if (worker.state == State::training) {
            // If a rank is missing in a generation, the other ranks make no progress, and leave the generation. The
            // same happens if a rank leaves because ruedarun told it that there are new slots.
            if (is_broken_ || worker.told) {
                is_broken_ = true;
                worker.state = State::waiting;
                membership_->waits(number, now_);
            } else if (--worker.left <= 0) {
                workers_.erase(number);
                has_ended_well_ = true;
                membership_->ended(number, Ending::well, now_);
            }
        }
    }

    void carry_out() {
        for (const Membership::Action& action : membership_->take_actions()) {
            REQUIRE_FALSE(has_ended_);
            std::visit([this](const auto& one) { take(one); }, action);
        }
    }

    void take(const Membership::Start& start) {
        REQUIRE(started_.insert(start.worker).second);  // no worker is started twice
        workers_[start.worker].host = start.host;
        const auto on_host = std::count_if(workers_.begin(), workers_.end(),
                                           [&](const auto& entry) { return entry.second.host == start.host; });
        const auto host =
            std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& entry) { return entry.name == start.host; });
        REQUIRE(host != hosts_.end());
        REQUIRE(on_host <= host->slots);
        REQUIRE(static_cast<int>(workers_.size()) <= plan_.most);
    }

    void take(const Membership::Form& form) {
        REQUIRE(form.generation == current_ + 1);
        REQUIRE((!plan_.resets || form.generation <= *plan_.resets));
        const int size = static_cast<int>(form.members.size());
        REQUIRE(size >= plan_.least);
        REQUIRE(size <= plan_.most);
        for (const auto& [number, worker] : workers_) {
            REQUIRE_FALSE((worker.generation == current_ && current_ >= 0 && worker.state != State::waiting));
        }
        bool had_newcomer = false;
        std::set<int> members;
        for (int rank = 0; rank < size; ++rank) {
            const Membership::Member& member = form.members[static_cast<std::size_t>(rank)];
            REQUIRE(member.rank == rank);
            REQUIRE(members.insert(member.worker).second);
            REQUIRE(workers_.contains(member.worker));  // no worker that has ended gets a place
            Worker& worker = workers_.at(member.worker);
            REQUIRE(worker.state == State::waiting);
            REQUIRE(worker.host == member.host);
            // Survivors come first, so that rank 0 has the state of the training.
            had_newcomer = had_newcomer || worker.generation < 0;
            REQUIRE_FALSE((had_newcomer && worker.generation >= 0));
            REQUIRE_FALSE((rank == 0 && current_ >= 0 && had_newcomer));
            worker = {State::training, form.generation, pick(1, 30), false, worker.host};
        }
        current_ = form.generation;
        is_broken_ = false;
        has_lost_member_ = false;
    }

    void take(const Membership::Tell& tell) {
        REQUIRE(workers_.at(tell.worker).generation == current_);
        workers_.at(tell.worker).told = true;
    }

    void take(const Membership::Dismiss& dismiss) {
        if (workers_.at(dismiss.worker).generation == current_ && current_ >= 0) {
            is_broken_ = true;
        }
        workers_.erase(dismiss.worker);
    }

    void take(const Membership::Kill& kill) {
        REQUIRE(workers_.at(kill.worker).generation == current_);
        dying_.insert(kill.worker);
    }

    void take(const Membership::End& end) {
        has_ended_ = true;
        if (end.success) {
            REQUIRE(has_ended_well_);  // a job in which nothing was done is no success
            REQUIRE_FALSE(has_lost_member_);
            REQUIRE(workers_.empty());
        } else {
            REQUIRE_FALSE(end.reason.empty());
        }
    }

    std::mt19937 random_;
    TimePoint now_ = kBegin;
    ElasticPlan plan_;
    std::optional<Membership> membership_;
    std::vector<Host> hosts_;
    std::map<int, Worker> workers_;
    std::set<int> started_;
    std::set<int> dying_;
    int kills_ = 0;
    int changes_ = 5;
    int current_ = -1;
    bool is_broken_ = false;
    bool has_lost_member_ = false;
    bool has_ended_well_ = false;
    bool has_ended_ = false;
};

TEST_CASE("simulated elastic jobs keep the rules and end", "[unit]") {
    for (unsigned seed = 0; seed < 3000; ++seed) {
        INFO("seed " << seed);
        SimulatedJob(seed).run();
    }
}

}  // namespace
}  // namespace rueda::launcher
