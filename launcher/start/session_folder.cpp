// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/session_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <system_error>

namespace rueda::launcher {

namespace {

/// Whether the path is a folder of this user, and no link to one.
bool is_own_folder(const std::filesystem::path& path) {
    struct stat facts {};
    return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid();
}

}  // namespace

void remove_session_folder(const std::filesystem::path& temporary_folder, const std::string& host, pid_t mpirun) {
    namespace fs = std::filesystem;
    // The folder is `ompi.HOST.USER/pid.PID`. Open MPI 4 leaves out the domain of the host unless it is told to keep
    // it.
    for (const std::string& name : std::set<std::string>{host, host.substr(0, host.find('.'))}) {
        const fs::path hosts_folder = temporary_folder / fmt::format("ompi.{}.{}", name, ::geteuid());
        const fs::path session = hosts_folder / fmt::format("pid.{}", mpirun);
        if (is_own_folder(hosts_folder) && is_own_folder(session)) {
            std::error_code error;
            fs::remove_all(session, error);
            fs::remove(hosts_folder, error);  // the removal fails if another job of this user uses the folder
        }
    }
}

}  // namespace rueda::launcher
