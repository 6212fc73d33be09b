// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace rueda::launcher {

/// Removes the temporary folder of an mpirun of Open MPI 4 that a signal ended, because such an mpirun cannot remove
/// its files any more. `temporary_folder` may be shared by several hosts. Therefore this function removes only the
/// folder of the host `host`: another host may have a live mpirun with the same process id. `host` is the name that
/// gethostname() returns on the host of the mpirun. Does nothing if there is no such folder of this user.
void remove_session_folder(const std::filesystem::path& temporary_folder, const std::string& host, pid_t mpirun);

}  // namespace rueda::launcher
