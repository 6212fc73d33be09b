// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/processes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "base/unique_fd.hpp"

namespace rueda::tests {
namespace {

struct Child {
    pid_t pid = -1;
    base::UniqueFd output;
};

[[noreturn]] void play(const std::function<std::string(int)>& body, int rank, int output) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string said;
    try {
        said = body(rank);
    } catch (const std::exception& error) {
        said = fmt::format("exception: {}", error.what());
    }
    const ssize_t written = ::write(output, said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
}

Child start(const std::function<std::string(int)>& body, int rank) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::runtime_error("pipe2 failed");
    }
    // A forked child inherits the contents of the output buffers. Without this flush, it would write them once more.
    std::cout.flush();
    std::fflush(nullptr);
    Child child{::fork(), base::UniqueFd(ends[0])};
    if (child.pid == 0) {
        play(body, rank, ends[1]);
    }
    ::close(ends[1]);
    return child;
}

/// Reads until the child's end of the pipe is closed, which happens at the latest when the child ends.
bool read_until_closed(int fd, std::string& text, std::chrono::steady_clock::time_point deadline) {
    while (true) {
        const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd entry{fd, POLLIN, 0};
        if (::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(0, rest.count()))) <= 0) {
            return false;
        }
        std::array<char, 4096> buffer{};
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count <= 0) {
            return true;
        }
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

std::string finish(Child& child, std::chrono::steady_clock::time_point deadline) {
    std::string said;
    const bool ended = read_until_closed(child.output.value(), said, deadline);
    if (!ended) {
        ::kill(child.pid, SIGKILL);
    }
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (!ended) {
        return "hung";
    }
    return WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status)) : said;
}

}  // namespace

std::vector<std::string> run_processes(int count, const std::function<std::string(int)>& body,
                                       std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::vector<Child> children;
    for (int rank = 0; rank < count; ++rank) {
        children.push_back(start(body, rank));
    }
    std::vector<std::string> ends;
    for (Child& child : children) {
        ends.push_back(finish(child, deadline));
    }
    return ends;
}

std::vector<std::string> run_threads(int count, const std::function<std::string(int)>& body) {
    std::vector<std::string> ends(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank) {
        threads.emplace_back([&, rank] { ends[static_cast<std::size_t>(rank)] = body(rank); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return ends;
}

std::string fresh_socket_name() {
    static std::atomic<int> counter{0};
    return fmt::format("@rueda-test-{}-{}", ::getpid(), ++counter);
}

PrivateFolder::PrivateFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rueda-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
        throw std::runtime_error("mkdtemp failed");
    }
    path_ = pattern;
}

PrivateFolder::~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> PrivateFolder::entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
        names.push_back(entry.path().filename().string());
    }
    return names;
}

std::vector<int> open_descriptors() {
    std::vector<int> numbers;
    for (int fd = 0; fd < 1024; ++fd) {
        if (::fcntl(fd, F_GETFD) >= 0) {
            numbers.push_back(fd);
        }
    }
    return numbers;
}

}  // namespace rueda::tests
