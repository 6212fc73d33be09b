// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace rueda::tests {

/// Runs `body(rank)` in `count` forked processes, and returns the texts that the bodies returned. If a process ended in
/// another way, its text is, for example, "killed by signal 9". If a process did not end within `limit`, it is killed,
/// and its text is "hung". When the call returns, all processes have ended. Bodies may not use Catch's assertions,
/// because assertions in a child process are lost.
[[nodiscard]] std::vector<std::string> run_processes(int count, const std::function<std::string(int)>& body,
                                                     std::chrono::seconds limit = std::chrono::seconds(60));

/// Like in_processes(), but with threads of this process. If a body hangs, the test hangs until CTest's timeout ends
/// it.
[[nodiscard]] std::vector<std::string> run_threads(int count, const std::function<std::string(int)>& body);

/// Returns a name for an abstract socket that no other test, and no other run, uses.
[[nodiscard]] std::string fresh_socket_name();

/// A folder of mode 700. At the end of the scope, the folder and its contents are removed.
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

/// Returns the numbers of the descriptors that this process has open.
[[nodiscard]] std::vector<int> open_descriptors();

}  // namespace rueda::tests
