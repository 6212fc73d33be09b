// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace rueda::tests {

/// Runs `body(rank)` in `count` forked processes, waits for all of them, and returns the texts that the bodies
/// returned. If a signal ended a process, its text is, for example, "killed by signal 9". A process that runs longer
/// than `limit` is killed, and its text is "hung". Bodies must not use Catch's assertions, which would be lost in a
/// child process.
[[nodiscard]] std::vector<std::string> run_processes(int count, const std::function<std::string(int)>& body,
                                                     std::chrono::seconds limit = std::chrono::seconds(60));

/// Like run_processes(), but runs the bodies in threads of this process. If a body hangs, CTest's timeout ends the
/// test.
[[nodiscard]] std::vector<std::string> run_threads(int count, const std::function<std::string(int)>& body);

/// Returns a name for an abstract socket that no other test, and no other run, uses.
[[nodiscard]] std::string fresh_socket_name();

/// A folder with mode 700 that is removed with its contents at the end of the scope.
class PrivateFolder {
public:
    PrivateFolder();
    PrivateFolder(const PrivateFolder&) = delete;
    PrivateFolder& operator=(const PrivateFolder&) = delete;
    ~PrivateFolder();
    [[nodiscard]] const std::string& path() const { return path_; }
    /// Returns the names of the files in the folder.
    [[nodiscard]] std::vector<std::string> entries() const;

private:
    std::string path_;
};

/// Returns the numbers of this process's open file descriptors.
[[nodiscard]] std::vector<int> open_descriptors();

}  // namespace rueda::tests
