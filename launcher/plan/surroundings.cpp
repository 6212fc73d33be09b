// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/surroundings.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "base/system/cores.hpp"
#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/processes/captured_run.hpp"
#include "launcher/processes/programs.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in a header of POSIX

namespace rueda::launcher {

namespace {

/// Returns the output of `mpirun --version`, or an empty text if mpirun does not answer in time.
Result<std::string> version_text_of(const std::string& mpirun, const Surroundings& around) {
    constexpr std::chrono::seconds kLongestWait{20};
    Result<CapturedRun> run = run_captured({mpirun, "--version"}, around.environment, kLongestWait);
    RUEDA_RETURN_IF_FAILED(run.status());
    return std::move(run.value().text);
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

Result<std::string> random_token() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return system_failure(ErrorCode::internal, "getrandom");
    }
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Environment environment_of_this_process() {
    Environment variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals != std::string_view::npos) {
            variables.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return variables;
}

Status rename_sockets(Surroundings& around) {
    const Result<std::string> token = random_token();
    RUEDA_RETURN_IF_FAILED(token.status());
    around.rendezvous = "@rueda-" + token.value();
    // Without any network, no port can be reserved. A job on this host works without a port, unless the program needs
    // MASTER_PORT.
    Result<HeldPort> port = hold_port();
    around.master_port = port.is_ok() ? port.value().port : std::uint16_t{0};
    around.held_port = port.is_ok() ? std::make_shared<const HeldPort>(std::move(port).value()) : nullptr;
    return {};
}

Result<Surroundings> look_around(bool mpi_is_wanted) {
    Surroundings around;
    around.cores = base::usable_cores();
    around.is_root = ::geteuid() == 0;
    around.environment = environment_of_this_process();
    around.host_names = names_of_this_host();
    around.stdin_is_terminal = ::isatty(STDIN_FILENO) == 1;
    std::error_code error;
    around.own_path = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error && mpi_is_wanted) {  // mpirun starts this program again, as the supervisor of each rank
        return failure(ErrorCode::internal,
                       "the file of this program is not known, because /proc/self/exe cannot be read: {}; mount /proc, "
                       "or use --no-mpi",
                       error.message());
    }
    RUEDA_RETURN_IF_FAILED(rename_sockets(around));
    if (mpi_is_wanted) {
        RUEDA_RETURN_IF_FAILED(find_mpi(around, text_of(around.environment, "PATH")));
    }
    return around;
}

}  // namespace rueda::launcher
