// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/logging.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/system/thread_signals.hpp"

namespace rueda::base {

namespace {

/// A file in memory into which a logger writes.
class Page {
public:
    Page() : descriptor_(memfd_create("log", MFD_CLOEXEC)) { REQUIRE(descriptor_ >= 0); }
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    ~Page() { close(descriptor_); }

    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] std::string text() const {
        std::string all(static_cast<std::size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
        REQUIRE(pread(descriptor_, all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()));
        return all;
    }

private:
    int descriptor_;
};

Config without_time(LogLevel level) {
    Config config;
    config.log_level = level;
    config.log_hide_time = true;
    return config;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

}  // namespace

TEST_CASE("a line has time, level, rank and text", "[logging]") {
    const Page page;
    const Logger logger(Config{}, 1, page.descriptor());
    logger.warning("{} of {}", 3, "four");
    const std::string text = page.text();
    CAPTURE(text);
    const std::regex form(R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: W rueda\] \[rank 1\]: 3 of four\n)");
    CHECK(std::regex_match(text, form));
}

TEST_CASE("each level has its letter, the time can be hidden", "[logging]") {
    const Page page;
    const Logger logger(without_time(LogLevel::trace), std::nullopt, page.descriptor());
    logger.trace("a");
    logger.debug("b");
    logger.info("c");
    logger.warning("d");
    logger.error("e");
    logger.fatal("f");
    logger.write(LogLevel::off, "never");
    CHECK(page.text() == "[T rueda]: a\n[D rueda]: b\n[I rueda]: c\n[W rueda]: d\n[E rueda]: e\n[F rueda]: f\n");
}

TEST_CASE("messages below the level are not printed", "[logging]") {
    const Page page;
    Logger(without_time(LogLevel::error), 0, page.descriptor()).warning("no");
    Logger(without_time(LogLevel::error), 0, page.descriptor()).error("yes");
    Logger(without_time(LogLevel::off), 0, page.descriptor()).fatal("no");
    CHECK(page.text() == "[E rueda] [rank 0]: yes\n");
    CHECK_FALSE(Logger(without_time(LogLevel::error)).prints(LogLevel::warning));
    CHECK(Logger(without_time(LogLevel::error)).prints(LogLevel::error));
}

TEST_CASE("text that looks like a format stays what it is", "[logging]") {
    const Page page;
    Logger(without_time(LogLevel::info), 0, page.descriptor()).write(LogLevel::info, "100 %v {} {0}");
    CHECK(page.text() == "[I rueda] [rank 0]: 100 %v {} {0}\n");
}

TEST_CASE("loggers of several ranks live side by side", "[logging]") {
    constexpr int kRanks = 4;
    constexpr int kLines = 200;
    const Page page;
    const Logger first(without_time(LogLevel::info), std::nullopt, page.descriptor());
    // All descriptors of a memfd share one offset. With O_APPEND, each write begins after the previous one.
    REQUIRE(fcntl(page.descriptor(), F_SETFL, O_APPEND) == 0);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
        ranks.emplace_back([logger = first.with_rank(rank)] {
            for (int line = 0; line < kLines; ++line) {
                logger.info("line {}", line);
            }
        });
    }
    for (std::thread& rank : ranks) {
        rank.join();
    }
    std::vector<std::string> expected;
    for (int rank = 0; rank < kRanks; ++rank) {
        for (int line = 0; line < kLines; ++line) {
            expected.push_back("[I rueda] [rank " + std::to_string(rank) + "]: line " + std::to_string(line));
        }
    }
    std::vector<std::string> found = lines_of(page.text());
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
}

TEST_CASE("a terminal gets colours", "[logging]") {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
        WARN("no pseudo terminals here: colours not tested");
        return;
    }
    std::array<char, 64> name{};
    REQUIRE(ptsname_r(terminal, name.data(), name.size()) == 0);
    const int line = open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(line >= 0);
    REQUIRE(setenv("TERM", "xterm", 1) == 0);
    Logger(without_time(LogLevel::info), 2, line).warning("look");
    std::array<char, 256> seen{};
    const ssize_t count = read(terminal, seen.data(), seen.size());
    REQUIRE(count > 0);
    CHECK(std::string(seen.data(), static_cast<std::size_t>(count)) == "[\033[33mW rueda\033[0m] [rank 2]: look\r\n");
    close(line);
    close(terminal);
}

TEST_CASE("a full pipe loses the line and does not block the writer forever", "[logging]") {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) == 0);
    const std::string filler(4096, 'x');
    while (write(ends[1], filler.data(), filler.size()) > 0) {
    }
    const Logger logger(without_time(LogLevel::info), 0, ends[1]);
    logger.error("lost");

    std::string drained;
    std::array<char, 65536> part{};
    for (ssize_t count = 0; (count = read(ends[0], part.data(), part.size())) > 0;) {
        drained.append(part.data(), static_cast<std::size_t>(count));
    }
    CHECK(drained.find("lost") == std::string::npos);
    logger.error("seen");
    const ssize_t count = read(ends[0], part.data(), part.size());
    REQUIRE(count > 0);
    CHECK(std::string(part.data(), static_cast<std::size_t>(count)) == "[E rueda] [rank 0]: seen\n");
    close(ends[0]);
    close(ends[1]);
}

namespace {

/// A pipe that nobody reads. A write to it raises SIGPIPE.
struct PipeWithoutReader {
    PipeWithoutReader() {
        REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
        close(ends[0]);
    }
    PipeWithoutReader(const PipeWithoutReader&) = delete;
    PipeWithoutReader& operator=(const PipeWithoutReader&) = delete;
    ~PipeWithoutReader() { close(ends[1]); }

    /// Returns the error of a write of one byte.
    [[nodiscard]] int error_of_write() const { return write(ends[1], "x", 1) == 1 ? 0 : errno; }

    std::array<int, 2> ends{};
};

/// While an object of this class lives, SIGPIPE ends the process, unless a thread blocks the signal.
class DefaultSigpipe {
public:
    DefaultSigpipe() : before_(signal(SIGPIPE, SIG_DFL)) {}
    DefaultSigpipe(const DefaultSigpipe&) = delete;
    DefaultSigpipe& operator=(const DefaultSigpipe&) = delete;
    ~DefaultSigpipe() { signal(SIGPIPE, before_); }

private:
    sighandler_t before_;
};

bool is_blocked(int number) {
    sigset_t blocked;
    return pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 && sigismember(&blocked, number) == 1;
}

bool is_pending(int number) {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

}  // namespace

TEST_CASE("a log that nobody reads any more does not end the process", "[logging]") {
    const DefaultSigpipe default_action;
    const PipeWithoutReader pipe;
    const Logger logger(without_time(LogLevel::info), 1, pipe.ends[1]);
    logger.error("nobody reads this");
    logger.error("nor this");
    CHECK_FALSE(is_blocked(SIGPIPE));
    CHECK_FALSE(is_pending(SIGPIPE));
}

TEST_CASE("a write while SIGPIPE is blocked fails with EPIPE, and leaves no signal", "[logging]") {
    const DefaultSigpipe default_action;
    const PipeWithoutReader pipe;
    {
        const SigpipeBlocked outer;
        {
            const SigpipeBlocked inner;
            CHECK(pipe.error_of_write() == EPIPE);
        }
        CHECK(is_blocked(SIGPIPE));
        CHECK(pipe.error_of_write() == EPIPE);
        errno = EDOM;
    }
    CHECK(errno == EDOM);
    CHECK_FALSE(is_blocked(SIGPIPE));
    CHECK_FALSE(is_pending(SIGPIPE));
    const SigpipeBlocked none(false);
    CHECK_FALSE(is_blocked(SIGPIPE));
}

TEST_CASE("a program that blocks SIGPIPE itself keeps its pending signal", "[logging]") {
    const DefaultSigpipe default_action;
    const SigpipeBlocked of_program;
    const PipeWithoutReader pipe;
    CHECK(pipe.error_of_write() == EPIPE);
    { const SigpipeBlocked of_rueda; }
    CHECK(is_pending(SIGPIPE));
}

}  // namespace rueda::base
