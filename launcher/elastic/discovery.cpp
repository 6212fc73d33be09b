// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/elastic/discovery.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/text.hpp"
#include "launcher/processes/child_process.hpp"

namespace rueda::launcher {

namespace {

/// An output of the script that is longer than this cannot be a list of hosts.
constexpr std::size_t kMostDiscoveryText = 1U << 20U;

}  // namespace

Discovered read_discovered_hosts(const std::string& text, const ElasticPlan& plan) {
    Discovered discovered;
    Result<std::vector<Host>> hosts = parse_host_file(text, "the output of --host-discovery-script");
    if (!hosts.is_ok()) {
        discovered.notes.push_back(hosts.status().message() + "; the previous hosts stay");
        return discovered;
    }
    discovered.hosts.emplace();
    for (Host& host : hosts.value()) {
        host.slots = host.slots > 0 ? host.slots : plan.slots_per_host;
        if (host.slots == 0) {
            discovered.notes.push_back(
                fmt::format("--host-discovery-script gives {} no number of slots; write {}:4, or use --slots-per-host",
                            base::quote(host.name), host.name));
        } else {
            discovered.hosts->push_back(std::move(host));
        }
    }
    return discovered;
}

void Discovery::add_to(base::PollSet& set) {
    if (output_.is_open()) {
        set.add(output_.value(), POLLIN, [this] { read_some(); });
    }
    if (pid_ != 0) {
        set.wake_at(next_ + kLongestRun);
    } else if (!stopped_) {
        set.wake_at(next_);
    }
}

void Discovery::read_some() {
    std::array<char, 4096> buffer;
    for (;;) {
        const ssize_t got = ::read(output_.value(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            output_.reset();
        }
        if (got <= 0) {
            return;
        }
        if (text_.size() < kMostDiscoveryText) {
            text_.append(buffer.data(), static_cast<std::size_t>(got));
        }
    }
}

std::vector<std::string> Discovery::advance(TimePoint now) {
    if (pid_ != 0 && now >= next_ + kLongestRun) {
        ::kill(-pid_, SIGKILL);  // ended() reports the failure
        return {};
    }
    if (stopped_ || pid_ != 0 || now < next_) {
        return {};
    }
    next_ = now + kInterval;
    text_.clear();
    Result<OutputPipe> pipe = open_output_pipe();
    if (!pipe.is_ok()) {
        return {"--host-discovery-script: " + pipe.status().message()};
    }
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ChildSpec spec;
    spec.file = plan_.discovery_script;
    spec.words = {plan_.discovery_script};
    spec.environment = environment_;
    spec.stdin_fd = null.is_open() ? null.value() : kInherit;
    spec.stdout_fd = pipe.value().write_end.value();
    spec.signal_mask = signal_mask_;
    const Result<pid_t> child = start_child(spec);
    if (!child.is_ok()) {
        return {fmt::format("--host-discovery-script: {}; the script must be executable, and have a path or be in PATH",
                            child.status().message())};
    }
    pid_ = child.value();
    output_ = std::move(pipe.value().read_end);
    return {};
}

std::optional<Discovered> Discovery::ended(pid_t pid, int wait_status, TimePoint now) {
    if (pid_ == 0 || pid != pid_) {
        return std::nullopt;
    }
    pid_ = 0;
    const bool took_too_long = now >= next_ + kLongestRun;
    next_ = std::max(next_, now);
    if (output_.is_open()) {
        read_some();  // its last output
    }
    output_.reset();
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0) {
        Discovered failed;
        failed.notes.push_back(
            WIFEXITED(wait_status)
                ? fmt::format("--host-discovery-script ended with exit status {}; the previous hosts stay",
                              WEXITSTATUS(wait_status))
            : took_too_long
                ? fmt::format(
                      "--host-discovery-script has not ended within {} s, so it was killed; the previous hosts stay",
                      kLongestRun.count())
                : fmt::format("--host-discovery-script was killed by signal {}; the previous hosts stay",
                              WTERMSIG(wait_status)));
        return failed;
    }
    return read_discovered_hosts(text_, plan_);
}

void Discovery::stop() {
    stopped_ = true;
    if (pid_ != 0) {
        ::kill(-pid_, SIGKILL);
    }
}

}  // namespace rueda::launcher
