// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the last line that a program prints when it does not catch an error.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <string>
#include <type_traits>

#include "rueda/error.hpp"

namespace rueda {
namespace {

/// The standard error of a process that does not catch an error, and the signal that ended the process.
struct Uncaught {
    std::string text;
    int signal = 0;
};

Uncaught end_by(ErrorCode code) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[0]);
        ::signal(SIGABRT, SIG_DFL);  // removes the test framework's handler
        // The exception leaves a noexcept function. It ends the process like an exception that leaves main().
        [](ErrorCode which) noexcept { throw_error(which, "the reason"); }(code);
    }
    ::close(ends[1]);
    Uncaught found;
    std::array<char, 512> buffer{};
    ssize_t count = 0;
    while ((count = ::read(ends[0], buffer.data(), buffer.size())) > 0) {
        found.text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    ::close(ends[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    found.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return found;
}

TEST_CASE("an error that nobody catches is named as the documentation names it", "[headers]") {
    for (std::int32_t number = 1; number <= static_cast<std::int32_t>(ErrorCode::internal); ++number) {
        const auto code = static_cast<ErrorCode>(number);
        const Uncaught found = end_by(code);
        INFO(found.text);
        CHECK(found.signal == SIGABRT);
        CHECK(found.text.find("'rueda::" + std::string(name_of(code)) + "'") != std::string::npos);
        CHECK(found.text.find("the reason") != std::string::npos);
        CHECK(found.text.find("ErrorOf") == std::string::npos);
    }
}

TEST_CASE("each error can be caught by its own class, and as rueda::Error", "[headers]") {
    STATIC_REQUIRE(std::is_base_of_v<Error, Aborted>);
    STATIC_REQUIRE_FALSE(std::is_base_of_v<Timeout, Aborted>);
    try {
        throw_error(ErrorCode::aborted, "the reason");
    } catch (const Timeout&) {
        FAIL("an Aborted was caught as a Timeout");
    } catch (const Aborted& error) {
        CHECK(error.code() == ErrorCode::aborted);
        CHECK(error.what() == std::string("the reason"));
    }
    CHECK_THROWS_AS(throw_error(ErrorCode::ok, "no error"), Internal);
    CHECK(InvalidArgument("x").code() == ErrorCode::invalid_argument);
    CHECK(ResourceExhausted("x").code() == ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace rueda
