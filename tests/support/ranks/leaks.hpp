// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace rueda::tests::detail {

/// Finds what a run of ranks leaves behind, by comparing the state before and after. During the run, TMPDIR names a new
/// folder, and orphaned processes become children of this process instead of init.
class LeakCheck {
public:
    LeakCheck();
    ~LeakCheck();
    LeakCheck(const LeakCheck&) = delete;
    LeakCheck& operator=(const LeakCheck&) = delete;

    /// Returns one line for each thing that was left behind, and kills processes among them.
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
