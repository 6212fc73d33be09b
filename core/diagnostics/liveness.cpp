// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/liveness.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/system/process_status.hpp"
#include "base/text.hpp"

namespace rueda::core {
namespace {

/// pidfd_open() makes the descriptor close-on-exec. Kernels before 5.3 and some containers refuse pidfd_open(). It also
/// fails if the process has no free descriptor.
base::UniqueFd open_pidfd(std::int32_t pid) {
    return base::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

std::string name_of_rank(std::int32_t rank, std::string_view host, std::int32_t pid) {
    return host.empty() ? fmt::format("rank {} (pid {})", rank, pid)
                        : fmt::format("rank {} on {} (pid {})", rank, host, pid);
}

bool process_has_ended(const base::RankBlock& block) {
    const std::int32_t pid = block.pid.load(std::memory_order_acquire);
    const std::uint64_t start = block.process_start.load(std::memory_order_acquire);
    // The pid means the same process here only if both processes are in the same pid namespace. This process can check
    // that only if /proc is usable in both processes.
    const bool is_known = pid != getpid() && start != 0 && base::process_start_time(getpid()) != 0;
    return is_known && base::process_has_ended(pid, start);
}

Liveness::Liveness(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, std::string host)
    : control_(control),
      members_(std::min<std::uint32_t>(members, base::kMaxLocalRanks)),
      own_(own),
      host_(std::move(host)) {}

Status Liveness::watch() {
    for (std::uint32_t index = 0; index < members_; ++index) {
        if (index == own_) {
            continue;
        }
        if (control_.ranks[index].pid.load(std::memory_order_acquire) <= 0) {
            return failure(ErrorCode::internal, "{} has not written its process id before it was to be watched",
                           describe(index));
        }
        watch_member(index);
    }
    return {};
}

void Liveness::watch_member(std::uint32_t index) {
    const base::RankBlock& block = control_.ranks[index];
    Member& member = watched_[index];
    member.pid = block.pid.load(std::memory_order_acquire);
    member.process_start = block.process_start.load(std::memory_order_acquire);
    if (member.pid == getpid()) {
        return;  // the member is a thread of this process, so it dies together with this rank
    }
    // If /proc is usable in both processes, the ranks of one host are known to be in the same pid namespace. Otherwise
    // the rank's pid may belong to another process here.
    if (member.process_start == 0 || base::process_start_time(getpid()) == 0) {
        notes_.push_back(
            fmt::format("{} is not watched, because there is no usable /proc: if it dies, this rank will wait for "
                        "it",
                        describe(index)));
        return;
    }
    member.watch = Watch::by_proc;
    base::UniqueFd pidfd = open_pidfd(member.pid);
    // A pid may be used again for another process. If /proc, read after pidfd_open(), still gives the start time of the
    // rank's process, the descriptor belongs to that process.
    if (pidfd.is_open() && base::process_start_time(member.pid) == member.process_start) {
        member.pidfd = std::move(pidfd);
        member.watch = Watch::by_pidfd;
    }
}

std::optional<Liveness::Death> Liveness::check() {
    look_at_descriptors();
    look_at_proc();
    const auto dead = std::find_if(watched_.begin(), watched_.end(),
                                   [](const Member& member) { return member.watch == Watch::dead; });
    if (dead == watched_.end()) {
        return std::nullopt;
    }
    const auto index = static_cast<std::uint32_t>(dead - watched_.begin());
    const std::string end_reason = base::printable(control_.ranks[index].end_reason.read());
    Death death{
        index, control_.ranks[index].global_rank.load(std::memory_order_relaxed),
        fmt::format("{} died: {}", describe(index), end_reason.empty() ? kNoExitRecord : std::string_view(end_reason)),
        end_reason};
    // The assignment to `watch` marks the death as found. It comes after the description, so that the next call finds
    // the death again if there was no memory for the description.
    dead->watch = Watch::none;
    return death;
}

void Liveness::stop_watching() {
    for (Member& member : watched_) {
        member.watch = Watch::none;
        member.pidfd.reset();
    }
}

std::vector<std::string> Liveness::ended() const {
    std::vector<std::string> names;
    for (std::uint32_t index = 0; index < members_; ++index) {
        const base::RankBlock& block = control_.ranks[index];
        const auto state = static_cast<base::RankState>(block.state.load(std::memory_order_acquire));
        if (state != base::RankState::left && process_has_ended(block)) {
            names.push_back(describe(index));
        }
    }
    return names;
}

void Liveness::look_at_descriptors() {
    std::array<pollfd, base::kMaxLocalRanks> polled{};
    std::array<std::uint32_t, base::kMaxLocalRanks> index_of{};
    nfds_t count = 0;
    for (std::uint32_t index = 0; index < members_; ++index) {
        if (watched_[index].watch == Watch::by_pidfd) {
            index_of[count] = index;
            polled[count++] = {.fd = watched_[index].pidfd.value(), .events = POLLIN, .revents = 0};
        }
    }
    if (count == 0 || poll(polled.data(), count, 0) <= 0) {
        return;
    }
    for (nfds_t i = 0; i < count; ++i) {
        if ((polled[i].revents & POLLNVAL) != 0) {
            // Other code in this process has closed the descriptor. The number may belong to another file now.
            static_cast<void>(watched_[index_of[i]].pidfd.release());
            watched_[index_of[i]].watch = Watch::by_proc;
        } else if (polled[i].revents != 0) {
            found_ended(index_of[i]);
        }
    }
}

void Liveness::look_at_proc() {
    for (std::uint32_t index = 0; index < members_; ++index) {
        const Member& member = watched_[index];
        if (member.watch == Watch::by_proc && base::process_has_ended(member.pid, member.process_start)) {
            found_ended(index);
        }
    }
}

void Liveness::found_ended(std::uint32_t index) {
    watched_[index].pidfd.reset();
    watched_[index].watch = Watch::none;
    // This thread sees everything that the rank wrote before its end, because the kernel reported the end.
    const auto state = static_cast<base::RankState>(control_.ranks[index].state.load(std::memory_order_acquire));
    if (state == base::RankState::running || state == base::RankState::shutting_down) {
        watched_[index].watch = Watch::dead;
        dead_.fetch_or(std::uint64_t{1} << index, std::memory_order_release);  // pairs with is_dead()
    }
}

std::string Liveness::describe(std::uint32_t index) const {
    const std::int32_t rank = control_.ranks[index].global_rank.load(std::memory_order_relaxed);
    const auto pid = control_.ranks[index].pid.load(std::memory_order_relaxed);
    return name_of_rank(rank < 0 ? static_cast<std::int32_t>(index) : rank, host_, pid);
}

}  // namespace rueda::core
