// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the progress bar in two cases. In the first case, standard output and standard error are a terminal (here a
// pseudo-terminal). In the second case, they are a pipe.
#include "rueda/training/progress.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/unique_fd.hpp"
#include "rueda/error.hpp"
#include "tests/training/job.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::Job;
using test::message_of;

/// The two ends of a pipe or of a pseudo-terminal.
struct Ends {
    base::UniqueFd reader;
    base::UniqueFd writer;
};

Ends make_terminal(unsigned short columns) {
    Ends ends{base::UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), {}};
    REQUIRE(ends.reader.is_open());
    REQUIRE(::grantpt(ends.reader.value()) == 0);
    REQUIRE(::unlockpt(ends.reader.value()) == 0);
    std::array<char, 64> name{};
    REQUIRE(::ptsname_r(ends.reader.value(), name.data(), name.size()) == 0);
    ends.writer = base::UniqueFd(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(ends.writer.is_open());
    winsize size{};
    size.ws_col = columns;
    REQUIRE(::ioctl(ends.writer.value(), TIOCSWINSZ, &size) == 0);
    return ends;
}

Ends make_pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

/// Runs `body` with `ends.writer` as standard output and standard error, and returns what it wrote.
std::string written(Ends ends, const std::function<void()>& body) {
    std::fflush(stdout);
    const base::UniqueFd output = base::duplicate(STDOUT_FILENO);
    const base::UniqueFd error = base::duplicate(STDERR_FILENO);
    ::dup2(ends.writer.value(), STDOUT_FILENO);
    ::dup2(ends.writer.value(), STDERR_FILENO);
    body();
    std::printf("\x04\n");  // marks the end
    std::fflush(stdout);
    ::dup2(output.value(), STDOUT_FILENO);
    ::dup2(error.value(), STDERR_FILENO);
    std::string text;
    std::array<char, 4096> piece{};
    while (text.find('\x04') == std::string::npos) {
        const ssize_t count = ::read(ends.reader.value(), piece.data(), piece.size());
        REQUIRE(count > 0);
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
    return text.substr(0, text.find('\x04'));
}

void show_a_bar() {
    Progress progress(4, "training");
    progress.step(1, "loss 0.5");
    progress.line("a line");
    progress.restart("next");
    progress.step(4);
}

TEST_CASE("a progress bar is one line of a terminal", "[training]") {
    const Job job;
    const std::string text = written(make_terminal(100), show_a_bar);
    CHECK(text ==
          "\r\x1b[Ktraining [#######.......................] 1/4 loss 0.5"
          "\r\x1b[Ka line\r\n"
          "\r\x1b[Knext [##############################] 4/4"
          "\r\x1b[K");  // the destructor removes the bar
}

TEST_CASE("a progress bar fits into the terminal and is drawn seldom", "[training]") {
    const Job job;
    const std::string text = written(make_terminal(20), [] {
        Progress progress(1000000, "training");
        for (int step = 0; step < 1000; ++step) {
            progress.step(step, "loss 0.5");
        }
    });
    CHECK_THAT(text, StartsWith("\r\x1b[Ktraining [......…\r\x1b[K"));
    // The bar is drawn at most once in 50 ms. These steps take much less than 500 ms, so the bar is drawn less than ten
    // times.
    CHECK(text.size() < 10 * 25);
}

TEST_CASE("without a number of steps, progress has no bar", "[training]") {
    const Job job;
    CHECK(written(make_terminal(80), [] { Progress(0, "step").step(7, "loss 1"); }) == "\r\x1b[Kstep 7 loss 1\r\x1b[K");
}

TEST_CASE("progress writes no bar into a pipe", "[training]") {
    const Job job;
    CHECK(written(make_pipe(), show_a_bar) == "a line\n");
}

TEST_CASE("a wrong number of steps is named", "[training]") {
    const Job job;
    CHECK_THAT(message_of<InvalidArgument>([] { Progress(-1); }), Contains("the number of steps is -1"));
}

}  // namespace
}  // namespace rueda::training
