// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/liveness.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <memory>

#include "base/system/process_status.hpp"
#include "tests/support/child.hpp"

namespace rueda::core::test {
namespace {

using base::RankState;

/// The control block of a job of three ranks. This process is rank 0; the test starts child processes as the other
/// ranks.
class Job {
public:
    Job() {
        set(0, getpid(), base::process_start_time(getpid()));
        for (std::uint32_t member = 1; member < 3; ++member) {
            set(member, children_[member - 1].pid(), base::process_start_time(children_[member - 1].pid()));
        }
    }
    void set(std::uint32_t member, pid_t pid, std::uint64_t start) {
        base::RankBlock& block = control_->ranks[member];
        block.pid.store(pid);
        block.process_start.store(start);
        block.global_rank.store(static_cast<std::int32_t>(member) + 10);
        set_state(member, RankState::running);
    }
    void set_state(std::uint32_t member, RankState state) {
        control_->ranks[member].state.store(static_cast<std::uint32_t>(state));
    }
    [[nodiscard]] tests::Child& child(std::uint32_t member) { return children_[member - 1]; }
    [[nodiscard]] base::ControlBlock& control() { return *control_; }
    [[nodiscard]] std::string name(std::uint32_t member) const {
        return fmt::format("rank {} (pid {})", member + 10, control_->ranks[member].pid.load());
    }

private:
    std::unique_ptr<base::ControlBlock> control_ = std::make_unique<base::ControlBlock>();
    tests::Child children_[2];
};

/// Leaves the process one free file descriptor. Reading /proc needs a descriptor only for a short time, but a pidfd
/// would occupy the descriptor for the whole job.
class OneDescriptor {
public:
    OneDescriptor() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest_free = dup(STDIN_FILENO);
        REQUIRE(lowest_free >= 0);
        const rlimit tight{.rlim_cur = static_cast<rlim_t>(lowest_free) + 1, .rlim_max = before_.rlim_max};
        REQUIRE(setrlimit(RLIMIT_NOFILE, &tight) == 0);
        close(lowest_free);
    }
    ~OneDescriptor() { setrlimit(RLIMIT_NOFILE, &before_); }
    OneDescriptor(const OneDescriptor&) = delete;
    OneDescriptor& operator=(const OneDescriptor&) = delete;

private:
    rlimit before_{};
};

TEST_CASE("the end of a rank that did not leave in order is known before any rank looks") {
    Job job;
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    CHECK(liveness.ended().empty());
    job.child(1).stop();
    CHECK(liveness.ended().empty());
    job.child(2).kill_without_reaping();
    CHECK(liveness.ended() == std::vector<std::string>{job.name(2)});
    CHECK(liveness.check());
    job.set_state(2, RankState::dead);  // the engine also sets this state when a rank has died
    CHECK(liveness.ended() == std::vector<std::string>{job.name(2)});
    job.set_state(2, RankState::left);
    CHECK(liveness.ended().empty());
}

TEST_CASE("no rank counts as dead while all live, including stopped ones") {
    Job job;
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    CHECK(liveness.notes().empty());
    CHECK_FALSE(liveness.check());
    job.child(1).stop();
    CHECK_FALSE(liveness.check());
    CHECK_FALSE(liveness.is_dead(1));
    job.child(1).resume();
    CHECK_FALSE(liveness.check());
}

TEST_CASE("a killed rank is found once, before and after its parent has asked for its status") {
    Job job;
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    const std::string first = job.name(1);
    job.child(1).kill_without_reaping();
    const auto death = liveness.check();
    REQUIRE(death);
    CHECK(death->member == 1);
    CHECK(death->text ==
          first +
              " died: its process ended and had not finished rueda::shutdown(); how it ended is known to the program "
              "that started it: read that program's output, or start the job with ruedarun, which tells all ranks");
    CHECK(death->rank == 11);
    CHECK(death->end_reason.empty());
    CHECK(liveness.is_dead(1));
    CHECK_FALSE(liveness.is_dead(2));
    CHECK_FALSE(liveness.check());

    job.set_state(2, RankState::shutting_down);
    job.control().ranks[2].end_reason.write("caught signal 15\nand left");
    const std::string second = job.name(2);
    job.child(2).kill_and_reap();
    const auto other = liveness.check();
    REQUIRE(other);
    CHECK(other->member == 2);
    CHECK(other->text == second + " died: caught signal 15?and left");
    CHECK(other->end_reason == "caught signal 15?and left");
    CHECK(liveness.is_dead(2));
}

TEST_CASE("in a job of several hosts, the host of a dead rank is named") {
    Job job;
    Liveness liveness(job.control(), 3, 0, "b");
    REQUIRE(liveness.watch().is_ok());
    const pid_t pid = job.child(1).pid();
    job.child(1).kill_without_reaping();
    CHECK(liveness.check()->text.starts_with(fmt::format("rank 11 on b (pid {}) died: ", pid)));
}

TEST_CASE("two ranks that die together are found one after the other") {
    Job job;
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    job.child(2).kill_without_reaping();
    job.child(1).kill_without_reaping();
    REQUIRE(liveness.check()->member == 1);
    CHECK(liveness.is_dead(2));
    REQUIRE(liveness.check()->member == 2);
    CHECK_FALSE(liveness.check());
}

TEST_CASE("a rank that has left may end") {
    Job job;
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    job.set_state(1, RankState::left);
    job.child(1).kill_and_reap();
    CHECK_FALSE(liveness.check());
    CHECK_FALSE(liveness.is_dead(1));
    job.child(2).kill_and_reap();
    CHECK(liveness.check()->member == 2);
}

TEST_CASE("a rank that has died before the watch began is found") {
    Job job;
    job.child(1).kill_and_reap();
    job.child(2).kill_without_reaping();
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    CHECK(liveness.check()->member == 1);
    CHECK(liveness.check()->member == 2);
}

TEST_CASE("a process that got the number of a dead rank is not taken for it") {
    Job job;
    job.set(1, job.child(1).pid(), base::process_start_time(job.child(1).pid()) - 1);
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    CHECK(liveness.check()->member == 1);
    CHECK_FALSE(liveness.check());
}

TEST_CASE("without pidfds, /proc tells") {
    Job job;
    Liveness liveness(job.control(), 3, 0);
    {
        const OneDescriptor limit;
        REQUIRE(liveness.watch().is_ok());
    }
    CHECK_FALSE(liveness.check());
    job.child(1).stop();
    CHECK_FALSE(liveness.check());
    job.child(1).kill_without_reaping();
    CHECK(liveness.check()->member == 1);
    job.child(2).kill_and_reap();
    CHECK(liveness.check()->member == 2);
}

TEST_CASE("ranks that are threads of this process are not watched") {
    Job job;
    job.set(1, getpid(), base::process_start_time(getpid()));
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    CHECK_FALSE(liveness.check());
    CHECK(liveness.notes().empty());
    job.child(2).kill_and_reap();
    CHECK(liveness.check()->member == 2);
}

TEST_CASE("a rank that cannot say when it started is not watched, with a note") {
    Job job;
    job.set(2, job.child(2).pid(), 0);
    Liveness liveness(job.control(), 3, 0);
    REQUIRE(liveness.watch().is_ok());
    REQUIRE(liveness.notes().size() == 1);
    CHECK(liveness.notes()[0] ==
          job.name(2) + " is not watched, because there is no usable /proc: if it dies, this rank will wait for it");
    job.child(2).kill_and_reap();
    CHECK_FALSE(liveness.check());
}

TEST_CASE("a rank without a process id is an error") {
    Job job;
    job.set(1, 0, 0);
    Liveness liveness(job.control(), 3, 0);
    const Status status = liveness.watch();
    CHECK(status.code() == ErrorCode::internal);
    CHECK(status.message() == "rank 11 (pid 0) has not written its process id before it was to be watched");
}

}  // namespace
}  // namespace rueda::core::test
