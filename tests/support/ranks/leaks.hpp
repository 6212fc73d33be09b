// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace rueda::tests::detail {

/// Looks, before and after a run of ranks, for what the run may leave behind. Between the two looks, TMPDIR names a new
/// folder, and orphans of the ranks become children of this process, not of init.
class LeakCheck {
public:
    LeakCheck();
    ~LeakCheck();
    LeakCheck(const LeakCheck&) = delete;
    LeakCheck& operator=(const LeakCheck&) = delete;

    /// Returns one line for each thing that was left behind. Kills the processes among them.
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
