// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/mpirun.hpp"

#include <sys/wait.h>

#include <csignal>

#include "launcher/hosts/network.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/start/session_folder.hpp"

namespace rueda::launcher {

namespace {

/// Returns the folder for temporary files. Open MPI 4 finds the folder by the same variables, in the same order.
std::string temporary_folder_of_mpirun(const Environment& environment) {
    for (const char* name : {"TMPDIR", "TEMP", "TMP"}) {
        if (std::string folder = text_of(environment, name); !folder.empty()) {
            return folder;
        }
    }
    return "/tmp";
}

}  // namespace

Status Mpirun::start(const LaunchPlan& plan, const StartContext& context, const std::vector<EnvironmentChange>& more) {
    Result<OutputPipe> errors = open_output_pipe();
    RUEDA_RETURN_IF_FAILED(errors.status());
    errors_ = std::move(errors.value().read_end);
    const base::UniqueFd write_end = std::move(errors.value().write_end);
    ChildSpec spec;
    spec.file = plan.mpirun.front();
    spec.words = plan.mpirun;
    spec.environment = changed_environment(changed_environment(context.environment, plan.environment), more);
    temporary_folder_ = temporary_folder_of_mpirun(spec.environment);
    spec.stderr_fd = write_end.value();
    spec.death_signal = SIGTERM;  // SIGTERM makes mpirun end its ranks
    spec.signal_mask = context.signal_mask;
    const Result<pid_t> child = start_child(spec);
    RUEDA_RETURN_IF_FAILED(child.status());
    pid_ = child.value();
    return {};
}

void Mpirun::add_to(base::PollSet& set) {
    add_errors(errors_, set);
    add_deadline(set);
}

std::optional<RankStarter::End> Mpirun::ended(pid_t pid, int wait_status) {
    if (pid != pid_ || pid == 0) {
        return std::nullopt;
    }
    read_last_errors(errors_);
    if (WIFSIGNALED(wait_status)) {
        remove_session_folder(temporary_folder_, host_name(), pid);
    }
    pid_ = 0;
    End end;
    end.was_launcher = true;
    return end;
}

void Mpirun::signal(int signal_number) const {
    if (pid_ != 0) {
        ::kill(pid_, signal_number);
    }
}

}  // namespace rueda::launcher
