// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/doctor/look_for_plugins.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include "base/unique_fd.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLoadTime{10};
constexpr std::size_t kLongestAnswer = 4096;

/// The first letter of a child process's answer is one of these four:
/// - kOpenMpi, kMpich: the plugin is for Open MPI or for MPICH.
/// - kUcx: the plugin is for UCX. A description of the UCX library follows.
/// - kFailed: the plugin cannot be loaded. The reason follows.
constexpr char kOpenMpi = 'o';
constexpr char kMpich = 'm';
constexpr char kUcx = 'u';
constexpr char kFailed = 'f';

/// Returns the version and the file of the UCX library that the plugin has loaded, for example
/// "UCX 1.13.1 (/usr/lib/x86_64-linux-gnu/libucp.so.0)".
std::string describe_ucx_library(void* plugin) {
    void* const version = ::dlsym(plugin, "ucp_get_version_string");
    Dl_info info{};
    if (version == nullptr || ::dladdr(version, &info) == 0 || info.dli_fname == nullptr) {
        return "";
    }
    return fmt::format("UCX {} ({})", reinterpret_cast<const char* (*)()>(version)(), info.dli_fname);
}

/// Lets the plugin make a UCX worker. It is not enough to load the plugin: UCX can be loaded even if it finds no
/// network that it can use.
std::string answer_of_ucx(void* library) {
    void* const check = ::dlsym(library, "rueda_ucx_plugin_check");
    if (check == nullptr) {
        return fmt::format("{}it is no UCX plugin of Rueda", kFailed);
    }
    const char* const problem = reinterpret_cast<const char* (*)()>(check)();
    return problem == nullptr ? fmt::format("{}{}", kUcx, describe_ucx_library(library))
                              : fmt::format("{}{}", kFailed, problem);
}

std::string answer_of_loading(const std::string& file, PluginKind kind) {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one thread
        return fmt::format("{}{}", kFailed, text == nullptr ? "no reason given" : text);
    }
    if (kind == PluginKind::ucx) {
        return answer_of_ucx(library);
    }
    if (::dlsym(library, "rueda_mpi_plugin_open") == nullptr) {
        return fmt::format("{}it is no MPI plugin of Rueda", kFailed);
    }
    // In Open MPI, MPI_COMM_WORLD is the address of the symbol ompi_mpi_comm_world. If this symbol exists, the plugin
    // needs an Open MPI library.
    return std::string(1, ::dlsym(library, "ompi_mpi_comm_world") == nullptr ? kMpich : kOpenMpi);
}

[[noreturn]] void load_in_child(const std::string& file, PluginKind kind, int write_end) {
    const std::string answer = answer_of_loading(file, kind).substr(0, kLongestAnswer);
    // The answer fits into the pipe's buffer, so this write does not block even if the parent does not read.
    const ssize_t written = ::write(write_end, answer.data(), answer.size());
    ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
}

/// Returns everything that the child has written until it ended or the deadline passed.
std::string read_until(int fd, Clock::time_point deadline) {
    std::string text;
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd ready{fd, POLLIN, 0};
        const int found = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left));
        if (found < 0 && errno == EINTR) {
            continue;
        }
        std::array<char, kLongestAnswer> buffer;
        const ssize_t got = found > 0 ? ::read(fd, buffer.data(), buffer.size()) : 0;
        if (got <= 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

std::string how_it_ended(int wait_status, bool in_time, std::chrono::milliseconds time) {
    if (!in_time) {
        return fmt::format("loading it takes more than {:g} s", std::chrono::duration<double>(time).count());
    }
    if (WIFSIGNALED(wait_status)) {
        return fmt::format("loading it ends the process by signal {} ({})", WTERMSIG(wait_status),
                           ::strsignal(WTERMSIG(wait_status)));  // NOLINT(concurrency-mt-unsafe): one thread
    }
    return "loading it ends the process";
}

bool has_library(const fs::path& folder) {
    std::error_code error;
    for (const char* const name : {"librueda.so", "librueda.so.0"}) {
        if (fs::exists(folder / name, error)) {
            return true;
        }
    }
    return false;
}

/// Returns the folders that may contain the library: lib, lib64, or Debian's lib/<architecture>.
std::vector<fs::path> folders_beside(const fs::path& program) {
    const fs::path own = program.parent_path();
    const fs::path prefix = own.parent_path();
    std::vector<fs::path> folders = {prefix / "lib", prefix / "lib64", own};
    std::error_code error;
    fs::directory_iterator entry(prefix / "lib", error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        if (entry->path().filename().string().ends_with("-linux-gnu")) {
            folders.push_back(entry->path());
        }
    }
    return folders;
}

/// Returns the files with these names that exist in `folder` or in its subfolder "rueda".
std::vector<std::string> files_in(const std::string& folder, std::initializer_list<const char*> names) {
    std::vector<std::string> files;
    for (const char* const name : names) {
        for (const fs::path& place : {fs::path(folder) / name, fs::path(folder) / "rueda" / name}) {
            std::error_code error;
            if (!folder.empty() && fs::exists(place, error)) {
                files.push_back(place.string());
            }
        }
    }
    return files;
}

}  // namespace

PluginProbe probe_plugin(const std::string& file, std::chrono::milliseconds time, PluginKind kind) {
    PluginProbe probe;
    probe.file = file;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        probe.problem = "it cannot be tried: no pipe";
        return probe;
    }
    const base::UniqueFd read_end(ends[0]);
    base::UniqueFd write_end(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        load_in_child(file, kind, write_end.value());
    }
    write_end.reset();
    if (child < 0) {
        probe.problem = "it cannot be tried: no process";
        return probe;
    }
    const Clock::time_point deadline = Clock::now() + time;
    const std::string answer = read_until(read_end.value(), deadline);
    const bool in_time = Clock::now() < deadline;
    if (answer.empty() && !in_time) {
        ::kill(child, SIGKILL);
    }
    int wait_status = 0;
    ::waitpid(child, &wait_status, 0);
    if (answer.empty()) {
        probe.problem = how_it_ended(wait_status, in_time, time);
    } else if (answer.front() == kFailed) {
        probe.problem = answer.substr(1);
    } else {
        probe.is_for_open_mpi = answer.front() == kOpenMpi;
        probe.library = kind == PluginKind::ucx ? answer.substr(1) : "";
    }
    return probe;
}

std::string folder_of_library(const std::string& own_path, const Environment& environment) {
    std::istringstream path(text_of(environment, "LD_LIBRARY_PATH"));
    for (std::string folder; std::getline(path, folder, ':');) {
        if (!folder.empty() && has_library(folder)) {
            return folder;
        }
    }
    for (const fs::path& folder : folders_beside(own_path)) {
        if (has_library(folder)) {
            return folder.lexically_normal().string();
        }
    }
    return "";
}

PluginFacts look_for_plugins(const std::string& own_path, const Environment& environment) {
    PluginFacts facts;
    facts.folder = folder_of_library(own_path, environment);
    facts.named_by_user = !text_of(environment, "RUEDA_MPI_PLUGIN").empty();
    std::vector<std::string> of_mpi = {text_of(environment, "RUEDA_MPI_PLUGIN")};
    if (!facts.named_by_user) {
        of_mpi = files_in(facts.folder, {"librueda_mpi.so", "librueda_mpich.so"});
    }
    for (const std::string& file : of_mpi) {
        facts.plugins.push_back(probe_plugin(file, kLoadTime));
    }
    std::vector<std::string> of_ucx = {text_of(environment, "RUEDA_UCX_PLUGIN")};
    if (of_ucx.front().empty()) {
        of_ucx = files_in(facts.folder, {"librueda_ucx.so"});
    }
    if (!of_ucx.empty()) {
        facts.ucx = probe_plugin(of_ucx.front(), kLoadTime, PluginKind::ucx);
    }
    return facts;
}

}  // namespace rueda::launcher
