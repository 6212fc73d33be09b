// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <thread>

namespace rueda::tests {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using namespace std::chrono_literals;

/// Captures the standard error of this process and its children.
class CapturedErrors {
public:
    CapturedErrors() : old_(::dup(2)), file_(std::tmpfile()) { ::dup2(::fileno(file_), 2); }
    CapturedErrors(const CapturedErrors&) = delete;
    CapturedErrors& operator=(const CapturedErrors&) = delete;
    ~CapturedErrors() {
        ::dup2(old_, 2);
        ::close(old_);
        std::fclose(file_);
    }
    [[nodiscard]] std::string text() const {
        std::string text(65536, '\0');
        const ssize_t count = ::pread(::fileno(file_), text.data(), text.size(), 0);
        text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return text;
    }

private:
    int old_;
    std::FILE* file_;
};

/// An object in memory that forked processes share.
template <class T>
class Shared {
public:
    Shared()
        : value_(new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T{}) {}
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { ::munmap(value_, sizeof(T)); }
    T& operator*() const { return *value_; }
    T* operator->() const { return value_; }

private:
    T* value_;
};

void sleep_forever() {
    while (true) {
        std::this_thread::sleep_for(1h);
    }
}

void check_rendezvous(RanksAs as) {
    const auto result =
        run_ranks(3,
                  [](RankContext& context) {
                      for (int round = 0; round < 2; ++round) {
                          auto opened = context.open_control_plane();
                          opened.status().throw_if_failed();
                          collectives::ControlPlane& plane = *opened.value();
                          RUEDA_RANK_EQUAL(plane.rank(), context.rank());
                          RUEDA_RANK_EQUAL(plane.size(), 3);
                          const std::array<std::byte, 1> mine{static_cast<std::byte>(10 * round + context.rank())};
                          auto all = plane.allgather(mine);
                          all.status().throw_if_failed();
                          int sum = 0;
                          for (const auto& bytes : all.value()) {
                              RUEDA_RANK_EQUAL(bytes.size(), 1U);
                              sum = 100 * sum + static_cast<int>(bytes[0]);
                          }
                          context.report(fmt::format("round {}", round), sum);
                          plane.barrier().throw_if_failed();
                          plane.close(false);
                      }
                      context.report("rank of size", fmt::format("{} of {}", context.rank(), context.size()));
                      context.report("process", ::getpid());
                  },
                  {.as = as});
    INFO(result.text());
    CHECK(result.passed());
    REQUIRE(result.ranks.size() == 3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
        CHECK(result.ranks[rank].value("round 0") == "102");
        CHECK(result.ranks[rank].value("round 1") == "101112");
        CHECK(result.ranks[rank].value("rank of size") == fmt::format("{} of 3", rank));
        CHECK((result.ranks[rank].value("process") == std::to_string(::getpid())) == (as == RanksAs::threads));
        CHECK(result.ranks[rank].last_phase == "returned");
    }
}

TEST_CASE("threads meet, report and return", "[threads][ranks]") { check_rendezvous(RanksAs::threads); }
TEST_CASE("processes meet, report and return", "[processes][ranks]") { check_rendezvous(RanksAs::processes); }

void check_throwing(RanksAs as) {
    const auto result = run_ranks(2,
                                  [](RankContext& context) {
                                      auto opened = context.open_control_plane();
                                      opened.status().throw_if_failed();
                                      if (context.rank() == 1) {
                                          context.phase("before the check");
                                          const int found = 3;
                                          RUEDA_RANK_EQUAL(found, 4);
                                      }
                                      context.report("barrier", name_of(opened.value()->barrier().code()));
                                  },
                                  {.as = as});
    INFO(result.text());
    CHECK_FALSE(result.passed());
    CHECK(result.leaks.empty());
    CHECK(result.ranks[1].end == RankEnd::threw);
    CHECK_THAT(result.ranks[1].text, StartsWith("found is 3, expected 4 at "));
    CHECK(result.ranks[1].last_phase == "before the check");
    CHECK_THROWS_WITH(result.ranks[1].value("barrier"), Contains("reported no 'barrier'"));
    CHECK(result.ranks[0].end == RankEnd::returned);
    CHECK(result.ranks[0].value("barrier") == "Aborted");
}

TEST_CASE("a thread's exception is its outcome", "[threads][ranks]") { check_throwing(RanksAs::threads); }
TEST_CASE("a process's exception is its outcome", "[processes][ranks]") { check_throwing(RanksAs::processes); }

TEST_CASE("ends that are no returns are told apart", "[processes][ranks]") {
    const auto result = run_ranks(5,
                                  [](RankContext& context) {
                                      switch (context.rank()) {
                                          case 0:
                                              std::_Exit(3);
                                          case 1:
                                              std::abort();
                                          case 2:
                                              ::raise(SIGSEGV);
                                              break;
                                          case 3:
                                              throw 5;
                                          default:
                                              RUEDA_RANK_CHECK(context.size() == 6);
                                      }
                                  },
                                  {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.ranks[0].end == RankEnd::exited);
    CHECK(result.ranks[0].exit_status == 3);
    CHECK(result.ranks[1].end == RankEnd::killed);
    CHECK(result.ranks[1].signal == SIGABRT);
    CHECK(result.ranks[2].end == RankEnd::killed);
    CHECK(result.ranks[2].signal == SIGSEGV);
    CHECK(result.ranks[3].text == "something that is no std::exception");
    CHECK_THAT(result.ranks[4].text, StartsWith("context.size() == 6 does not hold at "));
    CHECK_THAT(result.text(), Contains("rank 0 exited with status 3") && Contains("rank 1 was killed by signal 6"));
    CHECK(result.leaks.empty());
}

TEST_CASE("a value may be longer than a pipe holds", "[processes][ranks]") {
    const auto result =
        run_ranks(2,
                  [](RankContext& context) {
                      context.report("long", std::string(3'000'000, static_cast<char>('a' + context.rank())));
                  },
                  {.as = RanksAs::processes});
    CHECK(result.passed());
    CHECK(result.ranks[0].value("long") == std::string(3'000'000, 'a'));
    CHECK(result.ranks[1].value("long") == std::string(3'000'000, 'b'));
}

TEST_CASE("the test kills one of the processes in a phase", "[processes][ranks]") {
    bool seen = false;
    const auto result =
        run_ranks(3,
                  [](RankContext& context) {
                      context.phase("in the middle");
                      if (context.rank() == 1) {
                          sleep_forever();
                      }
                  },
                  {.as = RanksAs::processes, .meanwhile = [&](RunningRanks& ranks) {
                       ranks.wait_for_phase(1, "in the middle");
                       seen = ranks.phase_of(1) == "in the middle";
                       ranks.kill_rank(1, SIGKILL);
                       // wait_for_phase() must also return if rank 0 has already left this phase.
                       ranks.wait_for_phase(0, "in the middle");
                       CHECK_THROWS_WITH(ranks.wait_for_phase(1, "afterwards"),
                                         Equals("rank 1 ended in phase 'in the middle', never in 'afterwards'"));
                       CHECK_THROWS_AS(ranks.kill_rank(3, SIGKILL), std::invalid_argument);
                       ranks.kill_rank(1, SIGKILL);
                   }});
    INFO(result.text());
    CHECK(seen);
    CHECK(result.leaks.empty());
    CHECK(result.ranks[0].end == RankEnd::returned);
    CHECK(result.ranks[1].end == RankEnd::killed);
    CHECK(result.ranks[1].signal == SIGKILL);
    CHECK(result.ranks[1].last_phase == "in the middle");
    CHECK(result.ranks[2].end == RankEnd::returned);
}

TEST_CASE("a rank kills another one", "[processes][ranks]") {
    const auto result = run_ranks(2,
                                  [](RankContext& context) {
                                      if (context.rank() == 1) {
                                          context.phase("victim");
                                          sleep_forever();
                                      }
                                      context.wait_for_phase(1, "victim");
                                      context.kill_rank(1, SIGTERM);
                                  },
                                  {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.ranks[0].end == RankEnd::returned);
    CHECK(result.ranks[1].signal == SIGTERM);
}

TEST_CASE("a stopped rank stands still until it may go on", "[processes][ranks]") {
    const Shared<std::atomic<std::uint64_t>> turns;
    const Shared<std::atomic<bool>> enough;
    const auto result = run_ranks(1,
                                  [&](RankContext& context) {
                                      context.phase("turning");
                                      while (!enough->load()) {
                                          ++*turns;
                                          std::this_thread::yield();
                                      }
                                  },
                                  {.as = RanksAs::processes, .meanwhile = [&](RunningRanks& ranks) {
                                       ranks.wait_for_phase(0, "turning");
                                       ranks.stop_rank(0);
                                       const std::uint64_t before = turns->load();
                                       std::this_thread::sleep_for(20ms);
                                       CHECK(turns->load() == before);
                                       ranks.continue_rank(0);
                                       while (turns->load() == before) {
                                           std::this_thread::yield();
                                       }
                                       enough->store(true);
                                   }});
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("threads cannot be signalled", "[threads][ranks]") {
    const auto result = run_ranks(2, [](RankContext& context) { context.kill_rank(1, SIGTERM); });
    CHECK(result.ranks[0].text == "signal 15 to rank 1, which is a thread");
}

TEST_CASE("a failure of the function that runs meanwhile ends the processes and reaches the test",
          "[processes][ranks]") {
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(run_ranks(2, [](RankContext&) { sleep_forever(); },
                                {.as = RanksAs::processes,
                                 .meanwhile = [](RunningRanks&) { throw std::runtime_error("changed my mind"); }}),
                      Equals("changed my mind"));
    CHECK(std::chrono::steady_clock::now() - start < 10s);
}

TEST_CASE("the watchdog names the phases of hanging processes and kills them", "[processes][ranks]") {
    std::string said;
    RanksResult result;
    {
        const CapturedErrors errors;
        result = run_ranks(3,
                           [](RankContext& context) {
                               context.phase(context.rank() == 1 ? "waiting for nobody" : "working");
                               if (context.rank() == 1) {
                                   sleep_forever();
                               }
                               if (context.rank() == 2) {
                                   ::raise(SIGSTOP);
                               }
                           },
                           {.as = RanksAs::processes, .deadline = 400ms});
        said = errors.text();
    }
    INFO(result.text());
    CHECK(result.ranks[0].end == RankEnd::returned);
    CHECK(result.ranks[1].end == RankEnd::hung);
    CHECK(result.ranks[1].last_phase == "waiting for nobody");
    CHECK(result.ranks[2].end == RankEnd::hung);
    CHECK(result.leaks.empty());
    CHECK_THAT(said, Contains("watchdog: the ranks did not end in time"));
    CHECK_THAT(said, Contains("rank 0 is in phase 'returned'") && Contains("(ended)"));
    CHECK_THAT(said, Contains("rank 1 is in phase 'waiting for nobody' since 0.") && Contains("S (sleeping)"));
    CHECK_THAT(said, Contains("rank 2 is in phase 'working'") && Contains("T (stopped)"));
}

TEST_CASE("the watchdog of threads names the phases and ends the test", "[processes][ranks]") {
    std::string said;
    RanksResult result;
    {
        const CapturedErrors errors;
        result = run_ranks(1,
                           [](RankContext&) {
                               (void)run_ranks(2,
                                               [](RankContext& context) {
                                                   context.phase("long " + std::string(200, 'x'));
                                                   if (context.rank() == 1) {
                                                       sleep_forever();
                                                   }
                                               },
                                               {.as = RanksAs::threads, .deadline = 300ms});
                           },
                           {.as = RanksAs::processes});
        said = errors.text();
    }
    CHECK(result.ranks[0].end == RankEnd::killed);
    CHECK(result.ranks[0].signal == SIGABRT);
    CHECK_THAT(said,
               Contains("rank 1 is in phase 'long " + std::string(90, 'x') + "' since 0.") && Contains("(running)"));
}

TEST_CASE("files, objects and processes that a run leaves behind are found", "[processes][ranks]") {
    const std::string name = fmt::format("/rueda-left-by-test-{}", ::getpid());
    const auto result = run_ranks(1,
                                  [&](RankContext&) {
                                      std::ofstream(std::filesystem::temp_directory_path() / "left.txt") << "x";
                                      ::close(::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600));
                                      if (::fork() == 0) {
                                          sleep_forever();
                                      }
                                  },
                                  {.as = RanksAs::processes});
    ::shm_unlink(name.c_str());
    CHECK_FALSE(result.passed());
    CHECK(result.ranks[0].end == RankEnd::returned);
    REQUIRE(result.leaks.size() == 3);
    CHECK_THAT(result.leaks[0], StartsWith("process ") && Contains("(ranks_test) still runs"));
    CHECK(result.leaks[1] == "/dev/shm" + name + " is left");
    CHECK(result.leaks[2] == "left.txt is left in TMPDIR");
    CHECK_THAT(result.text(), Contains("left behind: left.txt is left in TMPDIR"));

    const auto clean = run_ranks(1, [](RankContext&) {}, {.as = RanksAs::processes});
    INFO(clean.text());
    CHECK(clean.passed());
}

TEST_CASE("descriptors that threads leave open or close are found", "[threads][ranks]") {
    int left = -1;
    const auto result = run_ranks(1, [&](RankContext&) { left = ::open("/dev/null", O_RDONLY | O_CLOEXEC); });
    CHECK(result.ranks[0].end == RankEnd::returned);
    CHECK(result.leaks == std::vector<std::string>{fmt::format("descriptor {} is open on /dev/null", left)});
    const auto closed = run_ranks(1, [&](RankContext&) { ::close(left); });
    CHECK(closed.leaks ==
          std::vector<std::string>{fmt::format("descriptor {} was open on /dev/null and is closed", left)});
}

TEST_CASE("an impossible number of ranks is refused", "[threads][ranks]") {
    CHECK_THROWS_WITH(run_ranks(0, [](RankContext&) {}), Equals("run_ranks: 0 ranks; 1 to 64 are possible"));
    CHECK_THROWS_AS(run_ranks(65, [](RankContext&) {}), std::invalid_argument);
}

}  // namespace
}  // namespace rueda::tests
