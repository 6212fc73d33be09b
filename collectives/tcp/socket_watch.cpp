// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/tcp/socket_watch.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/system/thread_signals.hpp"

namespace rueda::collectives {

namespace {

[[nodiscard]] bool watch_for(int epoll, int operation, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<SocketWatch>> SocketWatch::create() {
    base::UniqueFd sockets(::epoll_create1(EPOLL_CLOEXEC));
    base::UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
    base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    base::UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!sockets.is_open() || !events.is_open() || !stop.is_open() || !timer.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "epoll_create1, eventfd or timerfd_create");
    }
    if (!watch_for(events.value(), EPOLL_CTL_ADD, sockets.value(), EPOLLONESHOT) ||
        !watch_for(events.value(), EPOLL_CTL_ADD, timer.value(), EPOLLIN) ||
        !watch_for(events.value(), EPOLL_CTL_ADD, stop.value(), EPOLLIN)) {
        return system_failure(ErrorCode::resource_exhausted, "epoll_ctl");
    }
    return std::unique_ptr<SocketWatch>(
        new SocketWatch(std::move(sockets), std::move(events), std::move(stop), std::move(timer)));
}

SocketWatch::SocketWatch(base::UniqueFd sockets, base::UniqueFd events, base::UniqueFd stop, base::UniqueFd timer)
    : sockets_(std::move(sockets)), events_(std::move(events)), stop_(std::move(stop)), timer_(std::move(timer)) {}

SocketWatch::~SocketWatch() { stop(); }

Status SocketWatch::start(std::function<void()> ring) {
    ring_ = std::move(ring);
    // The new thread blocks all signals that the program's own threads may handle.
    const base::ProgramSignalsBlocked blocked;
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        return failure(ErrorCode::resource_exhausted,
                       "the thread that waits for other hosts could not be started ({}): raise the limit of processes "
                       "(ulimit -u, or pids.max of the control group)",
                       error.what());
    }
    pthread_setname_np(thread_.native_handle(), "rueda-sockets");
    return {};
}

void SocketWatch::stop() {
    stopped_.store(true, std::memory_order_release);
    if (thread_.joinable()) {
        const std::uint64_t one = 1;
        while (::write(stop_.value(), &one, sizeof one) < 0 && errno == EINTR) {
        }
        thread_.join();
    }
    events_.reset();
    sockets_.reset();
    stop_.reset();
    timer_.reset();
}

Status SocketWatch::add(int socket) {
    return watch_for(sockets_.value(), EPOLL_CTL_ADD, socket, EPOLLIN)
               ? Status()
               : system_failure(ErrorCode::resource_exhausted, "epoll_ctl");
}

void SocketWatch::remove(int socket) { static_cast<void>(watch_for(sockets_.value(), EPOLL_CTL_DEL, socket, 0)); }

void SocketWatch::watch_output(int socket, bool wanted) {
    static_cast<void>(watch_for(sockets_.value(), EPOLL_CTL_MOD, socket, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN));
}

void SocketWatch::arm() noexcept { change_arming(true); }

void SocketWatch::disarm() noexcept {
    // Each turn of a thread that polls calls this function, so it writes only if there is something to change. Only the
    // holder of the progress lock writes to `arms_soon_`.
    if (arms_soon_.load(std::memory_order_seq_cst)) {
        arms_soon_.store(false, std::memory_order_seq_cst);
    }
    change_arming(false);
}

void SocketWatch::arm_soon() noexcept {
    if (armed_.load(std::memory_order_seq_cst) || stopped_.load(std::memory_order_acquire)) {
        return;
    }
    arms_soon_.store(true, std::memory_order_seq_cst);
    if (!timer_runs_.exchange(true, std::memory_order_seq_cst)) {
        itimerspec time{};
        time.it_value.tv_nsec = std::chrono::nanoseconds(kSoon).count();
        static_cast<void>(::timerfd_settime(timer_.value(), 0, &time, nullptr));  // fails only for wrong arguments
    }
}

/// The object's thread calls this function when the timer has ended. If an operation has begun since arm_soon(), there
/// is nothing to do: the operation's thread polls, and will arm the watch itself.
void SocketWatch::look_at_timer() noexcept {
    std::uint64_t ended = 0;
    while (::read(timer_.value(), &ended, sizeof ended) < 0 && errno == EINTR) {
    }
    timer_runs_.store(false, std::memory_order_seq_cst);
    if (arms_soon_.load(std::memory_order_seq_cst)) {
        // If another thread calls disarm() at this moment, the rank may be woken once without need, which does no harm.
        change_arming(true);
    }
}

void SocketWatch::change_arming(bool is_armed) noexcept {
    if (armed_.load(std::memory_order_seq_cst) == is_armed || stopped_.load(std::memory_order_acquire)) {
        return;
    }
    const std::lock_guard lock(arming_mutex_);
    armed_.store(is_armed, std::memory_order_seq_cst);
    const std::uint32_t events = is_armed ? EPOLLIN | EPOLLONESHOT : EPOLLONESHOT;
    // watch_for() cannot fail here, because both descriptors exist and `sockets_` is in the list of `events_`.
    static_cast<void>(watch_for(events_.value(), EPOLL_CTL_MOD, sockets_.value(), events));
}

/// Sleeps until a socket is readable or stop() is called.
void SocketWatch::run() noexcept {
    while (!stopped_.load(std::memory_order_acquire)) {
        epoll_event event{};
        if (::epoll_wait(events_.value(), &event, 1, -1) != 1) {
            continue;
        }
        if (event.data.fd == sockets_.value()) {
            armed_.store(false, std::memory_order_seq_cst);
            ring_();
        } else if (event.data.fd == timer_.value()) {
            look_at_timer();
        }
    }
}

}  // namespace rueda::collectives
