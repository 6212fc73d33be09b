// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace rueda::tests::detail {

/// Compares the state before and after a run of ranks, to find what the run left behind. During the run, TMPDIR names a
/// new folder. Orphans of the ranks become children of this process, not of init.
class LeakCheck {
public:
    LeakCheck();
    ~LeakCheck();
    LeakCheck(const LeakCheck&) = delete;
    LeakCheck& operator=(const LeakCheck&) = delete;

    /// Returns one line for each thing that was left behind. If it is a process, the function also kills it.
    [[nodiscard]] std::vector<std::string> find();

private:
    void find_processes(std::vector<std::string>& leaks) const;
    void find_descriptors(std::vector<std::string>& leaks) const;
    void find_shared_memory(std::vector<std::string>& leaks) const;

    std::string folder_;
    std::string old_folder_;
    bool had_folder_ = false;
    int was_subreaper_ = 0;
    std::map<int, std::string> descriptors_;
    std::set<std::string> shared_memory_;
    std::set<int> children_;
};

}  // namespace rueda::tests::detail
