// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// The maximum number of hosts. No job has more hosts. Without this limit, a mistyped range could fill the memory.
inline constexpr std::size_t kMostHosts = 65536;

struct Host {
    std::string name;   ///< a name or an address; an IPv6 address without brackets
    int slots = 0;      ///< how many ranks the host gets; 0 if unknown
    int max_slots = 0;  ///< how many ranks the host may get at most; 0 if unknown

    friend bool operator==(const Host&, const Host&) = default;
};

/// The hosts that a job may use, in the order in which they get ranks.
struct HostList {
    std::vector<Host> hosts;
    /// the source of the list, for example "-H", "hosts.txt" or "the Slurm allocation 17"
    std::string origin;
    std::optional<int> ranks;        ///< the number of ranks of the job, if the source of the list says so
    std::optional<int> cores;        ///< the number of cores of each host, if the source of the list says so
    std::optional<std::string> own;  ///< the name of this host in the list, if the source of the list says so
    std::vector<std::string> notes;  ///< notes about the list for the user, one line each
};

/// Reads the value of -H, for example "a:2,b:2". Addresses are allowed. An IPv6 address needs brackets if a number of
/// slots follows.
[[nodiscard]] Result<std::vector<Host>> parse_host_option(std::string_view text);

/// Parses a host file in the format of Open MPI and Horovod ("host slots=2 max_slots=4") or of MPICH and Intel MPI
/// ("host:2"). Comments begin with '#'. A host that occurs again gets additional slots. Error messages begin with
/// `file` and the line: "hosts.txt:3: …". Keywords without effect in ruedarun (MPICH's binding= and ifname=) are
/// ignored, and `notes` gets one line for each of these keywords.
[[nodiscard]] Result<std::vector<Host>> parse_host_file(std::string_view text, const std::string& file,
                                                        std::vector<std::string>* notes = nullptr);

/// Expands Slurm's short form of many names: "n[01-03,7],m2" becomes n01 n02 n03 n7 m2.
[[nodiscard]] Result<std::vector<std::string>> expand_slurm_names(std::string_view text);

/// Expands Slurm's short form of many numbers: "2(x3),1" becomes 2 2 2 1.
[[nodiscard]] Result<std::vector<int>> expand_slurm_counts(std::string_view text);

/// Returns the allocation that the SLURM_* variables describe. Returns nothing if there are no such variables.
[[nodiscard]] Result<std::optional<HostList>> hosts_of_slurm(const Environment& environment);

/// Returns the hosts that SageMaker's SM_* variables describe. Returns nothing if there are no such variables.
[[nodiscard]] Result<std::optional<HostList>> hosts_of_sagemaker(const Environment& environment);

/// Describes the hosts for messages, for example "a:4, b:2". Shortens a long list.
[[nodiscard]] std::string format_hosts(const std::vector<Host>& hosts);

}  // namespace rueda::launcher
