// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/hosts/choose_hosts.hpp"

#include "base/text.hpp"

namespace rueda::launcher {

namespace {

HostList named_hosts(std::vector<Host> hosts, std::string origin) {
    HostList list;
    list.hosts = std::move(hosts);
    list.origin = std::move(origin);
    return list;
}

Result<std::optional<HostList>> hosts_of_file(const std::string& name, const base::FileReader& read) {
    const std::optional<std::string> text = read(name);
    if (!text) {
        return failure(ErrorCode::invalid_argument, "--hostfile: {} cannot be read; check its name", base::quote(name));
    }
    std::vector<std::string> notes;
    Result<std::vector<Host>> hosts = parse_host_file(*text, name, &notes);
    RUEDA_RETURN_IF_FAILED(hosts.status());
    HostList list = named_hosts(std::move(hosts).value(), base::printable(name));
    list.notes = std::move(notes);
    return std::optional(std::move(list));
}

}  // namespace

Result<std::optional<HostList>> choose_hosts(const Options& options, const Environment& environment,
                                             const base::FileReader& read) {
    if (!options.hosts.empty()) {
        Result<std::vector<Host>> hosts = parse_host_option(options.hosts);
        RUEDA_RETURN_IF_FAILED(hosts.status());
        return std::optional(named_hosts(std::move(hosts).value(), "-H"));
    }
    if (!options.hostfile.empty()) {
        return hosts_of_file(options.hostfile, read);
    }
    Result<std::optional<HostList>> slurm = hosts_of_slurm(environment);
    if (!slurm.is_ok() || slurm.value()) {
        return slurm;
    }
    return hosts_of_sagemaker(environment);
}

}  // namespace rueda::launcher
