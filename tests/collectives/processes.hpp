// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace rueda::tests {

/// Runs `body(rank)` in `count` forked processes and returns the text that each returned. For a process that ended
/// otherwise it is "killed by signal 9", for example, or "hung" if it had not ended within `limit` and was killed. No
/// process outlives the call. Bodies may not use Catch's assertions, because those of a child process are lost.
[[nodiscard]] std::vector<std::string> run_processes(int count, const std::function<std::string(int)>& body,
                                                     std::chrono::seconds limit = std::chrono::seconds(60));

/// The same with threads of this process. If a body hangs, the test hangs until CTest's timeout ends it.
[[nodiscard]] std::vector<std::string> run_threads(int count, const std::function<std::string(int)>& body);

/// The name of an abstract socket that no other test, and no other run, uses.
[[nodiscard]] std::string fresh_socket_name();

/// A folder of mode 700 that is removed, with its contents, at the end of the scope.
class PrivateFolder {
public:
    PrivateFolder();
    PrivateFolder(const PrivateFolder&) = delete;
    PrivateFolder& operator=(const PrivateFolder&) = delete;
    ~PrivateFolder();
    [[nodiscard]] const std::string& path() const { return path_; }
    /// The names of its contents.
    [[nodiscard]] std::vector<std::string> entries() const;

private:
    std::string path_;
};

/// Numbers of the open descriptors of this process.
[[nodiscard]] std::vector<int> open_descriptors();

}  // namespace rueda::tests
