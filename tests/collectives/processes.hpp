// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace rueda::tests {

/// Runs `body(rank)` in `count` forked processes and returns what each gave back: its text, "killed by signal 9", or
/// "hung" for one that had not ended within `limit` (it is killed then). No process outlives the call. Bodies may not
/// use Catch's assertions: those of a child reach nobody.
[[nodiscard]] std::vector<std::string> run_processes(int count, const std::function<std::string(int)>& body,
                                                     std::chrono::seconds limit = std::chrono::seconds(60));

/// The same with threads of this process. A body that hangs hangs the test: CTest's timeout ends it.
[[nodiscard]] std::vector<std::string> run_threads(int count, const std::function<std::string(int)>& body);

/// An abstract socket's name that no other test, and no other run, uses.
[[nodiscard]] std::string fresh_socket_name();

/// A folder of mode 700 that goes, with what is in it, at the end of the scope.
class PrivateFolder {
public:
    PrivateFolder();
    PrivateFolder(const PrivateFolder&) = delete;
    PrivateFolder& operator=(const PrivateFolder&) = delete;
    ~PrivateFolder();
    [[nodiscard]] const std::string& path() const { return path_; }
    /// Names of what lies in it.
    [[nodiscard]] std::vector<std::string> entries() const;

private:
    std::string path_;
};

/// Numbers of the open descriptors of this process.
[[nodiscard]] std::vector<int> open_descriptors();

}  // namespace rueda::tests
