// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/surroundings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "base/cores.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "launcher/child_process.hpp"
#include "launcher/poll_set.hpp"
#include "launcher/programs.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in a header of POSIX

namespace rueda::launcher {

namespace {

/// 128 random bits: nobody else meets at this name by chance or guesses it.
Result<std::string> random_token() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return system_failure(ErrorCode::internal, "getrandom");
    }
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

/// What `mpirun --version` prints. An mpirun that does not answer in time is as good as none.
Result<std::string> version_text_of(const std::string& mpirun, const Surroundings& around) {
    constexpr std::chrono::seconds kLongestWait{20};
    constexpr std::size_t kLongestText = 65536;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "pipe2");
    }
    const base::UniqueFd read_end(ends[0]);
    base::UniqueFd write_end(ends[1]);
    ChildSpec spec;
    spec.file = mpirun;
    spec.words = {mpirun, "--version"};
    spec.environment = around.environment;
    spec.stdout_fd = write_end.value();
    spec.stderr_fd = write_end.value();
    ::pthread_sigmask(SIG_SETMASK, nullptr, &spec.signal_mask);
    const Result<pid_t> child = start_child(spec);
    RUEDA_RETURN_IF_FAILED(child.status());
    write_end.reset();
    std::string text;
    bool ended = false;
    const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
    while (!ended && text.size() < kLongestText && std::chrono::steady_clock::now() < deadline) {
        PollSet set;
        set.wake_at(deadline);
        set.add(read_end.value(), POLLIN, [&] {
            std::array<char, 4096> buffer;
            const ssize_t got = ::read(read_end.value(), buffer.data(), buffer.size());
            ended = got <= 0;
            text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
        });
        set.wait_and_dispatch();
    }
    ::kill(child.value(), ended ? 0 : SIGKILL);
    ::waitpid(child.value(), nullptr, 0);
    return text;
}

Status find_mpi(Surroundings& around, const std::string& path) {
    const Result<std::string> mpirun = find_program("mpirun", path);
    if (!mpirun.is_ok()) {
        around.no_mpi_reason = "there is no mpirun in PATH";
        return {};
    }
    const Result<std::string> text = version_text_of(mpirun.value(), around);
    RUEDA_RETURN_IF_FAILED(text.status());
    around.mpi = recognise_mpi_launcher(mpirun.value(), text.value());
    if (!around.mpi) {
        return failure(ErrorCode::invalid_argument,
                       "{} is no mpirun that ruedarun knows (Open MPI, MPICH, Intel MPI): its --version says {}; use "
                       "--no-mpi, or put one of these first in PATH",
                       mpirun.value(), base::quote(text.value()));
    }
    return {};
}

}  // namespace

std::map<std::string, std::string> environment_of_this_process() {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals != std::string_view::npos) {
            variables.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return variables;
}

Result<Surroundings> look_around(bool mpi_is_wanted) {
    Surroundings around;
    around.cores = base::usable_cores();
    around.is_root = ::geteuid() == 0;
    around.environment = environment_of_this_process();
    around.stdin_is_terminal = ::isatty(STDIN_FILENO) == 1;
    std::error_code error;
    around.own_path = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) {
        return failure(ErrorCode::internal, "ruedarun cannot find its own file: /proc/self/exe: {}", error.message());
    }
    const Result<std::string> token = random_token();
    RUEDA_RETURN_IF_FAILED(token.status());
    around.rendezvous = "@rueda-" + token.value();
    around.supervisor_socket = "@ruedarun-" + token.value();
    if (mpi_is_wanted) {
        const auto path = around.environment.find("PATH");
        RUEDA_RETURN_IF_FAILED(find_mpi(around, path == around.environment.end() ? "" : path->second));
    }
    return around;
}

}  // namespace rueda::launcher
