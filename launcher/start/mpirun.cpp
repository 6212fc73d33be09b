// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/mpirun.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

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
    if (errors_.is_open()) {
        set.add(errors_.value(), POLLIN, [this] { read_errors(); });
    }
    if (released_ && pid_ != 0) {
        set.wake_at(deadline_);
    }
}

void Mpirun::read_errors() {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(errors_.value(), buffer.data(), buffer.size());
    if (got > 0) {
        on_error_text({buffer.data(), static_cast<std::size_t>(got)});
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        errors_.reset();
    }
}

std::optional<RankStarter::End> Mpirun::ended(pid_t pid, int wait_status) {
    if (pid != pid_ || pid == 0) {
        return std::nullopt;
    }
    while (errors_.is_open()) {  // prints mpirun's last lines, which must come before the line about mpirun's end
        pollfd ready{errors_.value(), POLLIN, 0};
        if (::poll(&ready, 1, 0) != 1) {
            break;
        }
        read_errors();
    }
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

void Mpirun::release(TimePoint now, Patience patience) {
    released_ = true;
    deadline_ = now + patience.before_sigterm;
    before_sigkill_ = patience.before_sigkill;
}

void Mpirun::advance(TimePoint now) {
    if (released_ && pid_ != 0 && now >= deadline_) {
        ::kill(pid_, std::exchange(next_signal_, SIGKILL));
        deadline_ = now + before_sigkill_;
    }
}

}  // namespace rueda::launcher
