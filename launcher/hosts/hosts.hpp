// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// More hosts than any job has, and few enough that a bracket range with a slip of the finger does not fill the memory.
inline constexpr std::size_t kMostHosts = 65536;

struct Host {
    std::string name;   ///< a name or an address; an IPv6 address without brackets
    int slots = 0;      ///< how many ranks it is to get; 0: not said
    int max_slots = 0;  ///< how many it may get at most; 0: not said

    friend bool operator==(const Host&, const Host&) = default;
};

/// The hosts that a job may use, in the order in which they get ranks.
struct HostList {
    std::vector<Host> hosts;
    std::string origin;              ///< "-H", "hosts.txt", "the Slurm allocation 17"
    std::optional<int> ranks;        ///< where the origin says how many there are to be
    std::optional<int> cores;        ///< of each host, where the origin says so
    std::optional<std::string> own;  ///< which of the hosts this one is, where the origin says so
    std::vector<std::string> notes;  ///< what the user is to be told of it
};

/// -H a:2,b:2 — names, or addresses, those of IPv6 in brackets where a number follows.
[[nodiscard]] Result<std::vector<Host>> parse_host_option(std::string_view text);

/// The host files of Open MPI and Horovod ("host slots=2 max_slots=4") and of MPICH and Intel MPI ("host:2"), with
/// comments behind '#'. A host that comes again gets more slots. `file` is for errors: "hosts.txt:3: …". What has no
/// meaning here (MPICH's binding= and ifname=) is ignored, with a line in `notes` for the first of its kind.
[[nodiscard]] Result<std::vector<Host>> parse_host_file(std::string_view text, const std::string& file,
                                                        std::vector<std::string>* notes = nullptr);

/// Slurm's short form of many names: "n[01-03,7],m2" is n01 n02 n03 n7 m2.
[[nodiscard]] Result<std::vector<std::string>> expand_slurm_names(std::string_view text);

/// Slurm's short form of many numbers: "2(x3),1" is 2 2 2 1.
[[nodiscard]] Result<std::vector<int>> expand_slurm_counts(std::string_view text);

/// The allocation that SLURM_* variables describe; none where there is no such variable.
[[nodiscard]] Result<std::optional<HostList>> hosts_of_slurm(const std::map<std::string, std::string>& environment);

/// The hosts that SageMaker's SM_* variables describe; none where there is no such variable.
[[nodiscard]] Result<std::optional<HostList>> hosts_of_sagemaker(const std::map<std::string, std::string>& environment);

/// "a:4, b:2", for messages; long lists are cut.
[[nodiscard]] std::string format_hosts(const std::vector<Host>& hosts);

}  // namespace rueda::launcher
