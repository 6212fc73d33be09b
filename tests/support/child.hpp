// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace rueda::tests {

/// A child process that waits to be killed. It ends together with the test, however the test ends.
class Child {
public:
    Child() : pid_(fork()) {
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            for (;;) {
                pause();
            }
        }
    }
    ~Child() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }

    void stop() const {
        REQUIRE(kill(pid_, SIGSTOP) == 0);
        int status = 0;
        REQUIRE(waitpid(pid_, &status, WUNTRACED) == pid_);
        REQUIRE(WIFSTOPPED(status));
    }
    void resume() const { REQUIRE(kill(pid_, SIGCONT) == 0); }
    /// Makes the child a zombie: a dead process for which its parent has not waited.
    void kill_without_reaping() const {
        REQUIRE(kill(pid_, SIGKILL) == 0);
        siginfo_t info{};
        REQUIRE(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == 0);
    }
    void kill_and_reap() {
        REQUIRE(kill(pid_, SIGKILL) == 0);
        REQUIRE(waitpid(pid_, nullptr, 0) == pid_);
        pid_ = -1;
    }

private:
    pid_t pid_;
};

}  // namespace rueda::tests
