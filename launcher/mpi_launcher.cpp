// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/mpi_launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace rueda::launcher {

namespace {

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string_view behind(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

class CommandBuilder {
public:
    CommandBuilder(const MpiLauncher& launcher, const MpiRequest& request) : request_(request) {
        command_.words = {launcher.path};
    }

    /// Adds the words unless the user's own arguments contain one that begins like `subject`.
    void add(std::string_view subject, std::initializer_list<std::string> words, const std::string& reason) {
        if (user_speaks_of(subject)) {
            command_.reasons.push_back(fmt::format("{}: left to --mpi-args", subject));
            return;
        }
        command_.words.insert(command_.words.end(), words);
        command_.reasons.push_back(fmt::format("{}: {}", fmt::join(words, " "), reason));
    }

    void add_plain(std::initializer_list<std::string> words) { command_.words.insert(command_.words.end(), words); }

    MpiCommand finish() && {
        command_.words.insert(command_.words.end(), request_.user_args.begin(), request_.user_args.end());
        return std::move(command_);
    }

private:
    [[nodiscard]] bool user_speaks_of(std::string_view subject) const {
        return std::any_of(request_.user_args.begin(), request_.user_args.end(), [subject](std::string_view word) {
            word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
            return word.starts_with(subject);
        });
    }

    const MpiRequest& request_;
    MpiCommand command_;
};

MpiCommand open_mpi_command(const MpiLauncher& launcher, const MpiRequest& request) {
    CommandBuilder builder(launcher, request);
    builder.add_plain({"-np", std::to_string(request.ranks)});
    if (request.as_root) {
        builder.add("allow-run-as-root", {"--allow-run-as-root"}, "this is root, as in many containers");
    }
    // mpirun counts whole cores, without hardware threads and without asking whether a container may use them all, and
    // refuses more ranks than that. Whether there are too many is ruedarun's own count, and said by the yielding below.
    builder.add("oversubscribe", {"--oversubscribe"}, "how many ranks fit is ruedarun's decision");
    builder.add("mpi_yield_when_idle", {"--mca", "mpi_yield_when_idle", request.more_ranks_than_cores ? "1" : "0"},
                request.more_ranks_than_cores ? "more ranks than cores: a rank that waits in MPI yields its core"
                                              : "every rank has a core of its own");
    // Open MPI binds two ranks to one core each, and the trainer and Rueda's background thread then share it: what
    // should run beside the computation runs instead of it. Unbound, the kernel moves the threads to cores that are
    // free.
    builder.add("bind-to", {"--bind-to", "none"}, "leaves the background threads room beside the trainers");
    // Without these Open MPI 4 kills the surviving ranks a second after one died, before they have reported why (seen
    // with 4.1.4). Other versions ignore parameters they do not know.
    builder.add("orte_abort_on_non_zero_status", {"--mca", "orte_abort_on_non_zero_status", "0"},
                "the survivors of a failure report it; ruedarun ends the job");
    builder.add("orte_enable_recovery", {"--mca", "orte_enable_recovery", "1"}, "the same for a rank that was killed");
    // Names only: mpirun takes the values from its own environment, and would cut written ones at a ';'.
    for (const std::string& name : request.travelling) {
        builder.add_plain({"-x", name});
    }
    return std::move(builder).finish();
}

/// MPICH and Intel MPI both start ranks by Hydra, which hands on its whole environment and never refuses a number of
/// ranks.
MpiCommand hydra_command(const MpiLauncher& launcher, const MpiRequest& request) {
    CommandBuilder builder(launcher, request);
    builder.add_plain({"-n", std::to_string(request.ranks)});
    if (launcher.kind == MpiKind::intel_mpi) {
        builder.add("genv", {"-genv", "I_MPI_PIN", "0"}, "leaves the background threads room beside the trainers");
    } else {
        builder.add("bind-to", {"-bind-to", "none"}, "leaves the background threads room beside the trainers");
        builder.add("disable-auto-cleanup", {"-disable-auto-cleanup"},
                    "the survivors of a failure report it; ruedarun ends the job");
    }
    return std::move(builder).finish();
}

}  // namespace

std::optional<MpiLauncher> recognise_mpi_launcher(std::string path, std::string_view version_text) {
    // "mpirun (Open MPI) 4.1.4"
    if (const std::string_view version = behind(version_text, "(Open MPI)"); !version.empty()) {
        return MpiLauncher{std::move(path), MpiKind::open_mpi,
                           fmt::format("Open MPI {}", trimmed(first_line(version)))};
    }
    // "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build …"
    if (version_text.find("Intel(R) MPI Library") != std::string_view::npos) {
        const std::string_view version = trimmed(first_line(behind(version_text, "Version")));
        return MpiLauncher{std::move(path), MpiKind::intel_mpi,
                           fmt::format("Intel MPI {}", version.substr(0, version.find(' ')))};
    }
    // "HYDRA build details:\n    Version:                                 4.0.2"
    if (version_text.find("HYDRA build details") != std::string_view::npos) {
        return MpiLauncher{std::move(path), MpiKind::mpich,
                           fmt::format("MPICH {}", trimmed(first_line(behind(version_text, "Version:"))))};
    }
    return std::nullopt;
}

MpiCommand mpi_command(const MpiLauncher& launcher, const MpiRequest& request) {
    return launcher.kind == MpiKind::open_mpi ? open_mpi_command(launcher, request) : hydra_command(launcher, request);
}

}  // namespace rueda::launcher
