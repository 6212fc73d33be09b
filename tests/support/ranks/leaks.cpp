// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks/leaks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

namespace rueda::tests::detail {
namespace {

/// How long the check waits for something that seems to be left behind. It may disappear by itself: an orphan may be
/// about to end, and an object in /dev/shm may belong to another test.
constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kLookEvery = std::chrono::milliseconds(10);

/// Returns this process's open file descriptors and what they refer to.
[[nodiscard]] std::map<int, std::string> open_descriptors() {
    std::map<int, std::string> found;
    DIR* const folder = ::opendir("/proc/self/fd");
    if (folder == nullptr) {
        return found;
    }
    while (const dirent* const entry = ::readdir(folder)) {
        const std::string name = entry->d_name;
        if (name.front() == '.' || std::atoi(name.c_str()) == ::dirfd(folder)) {
            continue;
        }
        std::string target(256, '\0');
        const ssize_t length = ::readlink(("/proc/self/fd/" + name).c_str(), target.data(), target.size());
        target.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
        found[std::atoi(name.c_str())] = target;
    }
    ::closedir(folder);
    return found;
}

/// Returns the names in /dev/shm that contain "rueda". Segments of Open MPI are left out. Their names contain the
/// host's name, and simulated hosts are called rueda-h0, rueda-h1, …. Such segments belong to another test, because
/// the ranks of these tests do not use MPI.
[[nodiscard]] std::set<std::string> shared_memory_of_rueda() {
    std::set<std::string> found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
        const std::string name = entry.path().filename().string();
        if (name.find("rueda") != std::string::npos && !name.starts_with("vader_segment.")) {
            found.insert(name);
        }
    }
    return found;
}

/// Returns the child processes of all threads of this process.
[[nodiscard]] std::set<int> children() {
    std::set<int> found;
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
        std::ifstream file(task.path() / "children");
        int pid = 0;
        while (file >> pid) {
            found.insert(pid);
        }
    }
    return found;
}

[[nodiscard]] std::string name_of_process(int pid) {
    std::ifstream file(fmt::format("/proc/{}/comm", pid));
    std::string name;
    std::getline(file, name);
    return name;
}

}  // namespace

LeakCheck::LeakCheck()
    : descriptors_(open_descriptors()), shared_memory_(shared_memory_of_rueda()), children_(children()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rueda-ranks-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
        throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
    }
    folder_ = pattern;
    if (const char* const old = std::getenv("TMPDIR"); old != nullptr) {
        had_folder_ = true;
        old_folder_ = old;
    }
    ::setenv("TMPDIR", folder_.c_str(), 1);
    ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

LeakCheck::~LeakCheck() {
    ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
    if (had_folder_) {
        ::setenv("TMPDIR", old_folder_.c_str(), 1);
    } else {
        ::unsetenv("TMPDIR");
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> LeakCheck::find() {
    std::vector<std::string> leaks;
    find_processes(leaks);
    find_descriptors(leaks);
    find_shared_memory(leaks);
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_, ignored)) {
        leaks.push_back(fmt::format("{} is left in TMPDIR", entry.path().lexically_relative(folder_).string()));
    }
    return leaks;
}

void LeakCheck::find_processes(std::vector<std::string>& leaks) const {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    for (const int pid : children()) {
        int status = 0;
        if (children_.count(pid) != 0) {
            continue;
        }
        while (::waitpid(pid, &status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() > limit) {
                leaks.push_back(fmt::format("process {} ({}) still runs", pid, name_of_process(pid)));
                ::kill(pid, SIGKILL);
                ::waitpid(pid, &status, 0);
                break;
            }
            std::this_thread::sleep_for(kLookEvery);
        }
    }
}

void LeakCheck::find_descriptors(std::vector<std::string>& leaks) const {
    for (const auto& [number, target] : open_descriptors()) {
        const auto before = descriptors_.find(number);
        if (before == descriptors_.end()) {
            leaks.push_back(fmt::format("descriptor {} is open on {}", number, target));
        } else if (before->second != target) {
            leaks.push_back(fmt::format("descriptor {} is open on {}, before on {}", number, target, before->second));
        }
    }
    for (const auto& [number, target] : descriptors_) {
        if (::fcntl(number, F_GETFD) < 0) {
            leaks.push_back(fmt::format("descriptor {} was open on {} and is closed", number, target));
        }
    }
}

void LeakCheck::find_shared_memory(std::vector<std::string>& leaks) const {
    std::set<std::string> suspects = shared_memory_of_rueda();
    std::erase_if(suspects, [&](const std::string& name) { return shared_memory_.count(name) != 0; });
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (!suspects.empty() && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(kLookEvery);
        const std::set<std::string> now = shared_memory_of_rueda();
        std::erase_if(suspects, [&](const std::string& name) { return now.count(name) == 0; });
    }
    for (const std::string& name : suspects) {
        leaks.push_back("/dev/shm/" + name + " is left");
    }
}

}  // namespace rueda::tests::detail
