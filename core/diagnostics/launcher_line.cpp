// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/launcher_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/system/clock.hpp"
#include "base/system/descriptor_message.hpp"
#include "base/text.hpp"

namespace rueda::core {
namespace {

using NotificationKind = base::LauncherNotification::Kind;

constexpr std::int64_t kMillisecond = 1'000'000;

/// How long a rank in init waits for messages that an ended rank sent before its end. If such a message contains an
/// error, this rank uses the message and not the launcher's notification, because the error says more than the end of
/// one rank.
constexpr std::int64_t kJoiningPatience = 100 * kMillisecond;
/// How long this rank still waits for its shutdown to complete after it has learned that another rank failed. A
/// shutdown takes time: after the last rank has announced its shutdown, a message must pass through the tree of the
/// hosts.
constexpr std::int64_t kShutdownPatience = 1000 * kMillisecond;

/// The largest number of messages that this rank sends to report the reason of an abort. The number is small, because
/// the messages stay in the socket's buffer: the launcher reads them only when the rank ends.
constexpr std::size_t kMostReports = 8;

/// The largest number of notifications that this rank keeps. ruedarun sends at most sixteen. A launcher that sends more
/// than this limit is therefore not ruedarun.
constexpr std::size_t kMostWords = 64;

/// Takes over the inherited socket whose descriptor the environment variable contains. Fails if this descriptor now
/// belongs to another file.
Result<base::UniqueFd> take_socket(const base::LauncherAddress& address) {
    struct stat facts {};
    if (::fstat(address.fd, &facts) != 0 || !S_ISSOCK(facts.st_mode) || facts.st_ino != address.inode) {
        return failure(ErrorCode::unsupported,
                       "{}: descriptor {} is not the socket that ruedarun has opened: a program between the two has "
                       "closed it",
                       base::kLauncherVariable, address.fd);
    }
    int type = 0;
    socklen_t size = sizeof type;
    if (::getsockopt(address.fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
        return failure(ErrorCode::unsupported, "{}: descriptor {} is a socket of type {}, expected {}",
                       base::kLauncherVariable, address.fd, type, static_cast<int>(SOCK_SEQPACKET));
    }
    // The socket must not be inherited by programs that this process starts.
    ::fcntl(address.fd, F_SETFD, FD_CLOEXEC);
    return base::UniqueFd(address.fd);
}

}  // namespace

const base::LauncherNotification* cause_among(std::span<const HeardNotification> heard, Standing standing,
                                              std::int64_t now_ns) {
    const auto is_cause = [&](const HeardNotification& one) {
        const std::int64_t age = now_ns - one.heard_ns;
        switch (standing) {
            case Standing::joining:
                return age >= kJoiningPatience;
            case Standing::running:
                return true;
            case Standing::shutting_down:
                return one.notification.kind == NotificationKind::failed && age >= kShutdownPatience;
            case Standing::closed:
                break;
        }
        return false;
    };
    const auto found = std::find_if(heard.begin(), heard.end(), is_cause);
    return found == heard.end() ? nullptr : &found->notification;
}

std::string describe_cause(const base::LauncherNotification& notification, Standing standing) {
    if (notification.kind != NotificationKind::ended_well) {
        return notification.text;
    }
    return notification.text +
           (standing == Standing::joining
                ? " while other ranks wait for it in rueda::init(): let every rank of the job call "
                  "rueda::init()"
                : " and had not finished rueda::shutdown(), while other ranks still needed it: let every "
                  "rank do the same number of steps, and then call rueda::shutdown(), which _exit() and "
                  "os._exit() skip");
}

std::unique_ptr<LauncherLine> LauncherLine::open(const base::EnvironmentLookup& environment) {
    const std::optional<std::string> text = environment.value(base::kLauncherVariable);
    if (!text) {
        return std::make_unique<LauncherLine>(base::UniqueFd(), 0, 0);
    }
    const Result<base::LauncherAddress> address = base::parse_launcher_address(*text);
    Result<base::UniqueFd> socket = address.is_ok() ? take_socket(address.value()) : address.status();
    if (!socket.is_ok()) {
        auto deaf = std::make_unique<LauncherLine>(base::UniqueFd(), 0, 0);
        deaf->notice_ =
            fmt::format("{}; this job learns of the end of a rank without ruedarun: later, or without the cause",
                        socket.status().message());
        return deaf;
    }
    return std::make_unique<LauncherLine>(std::move(socket).value(), address.value().rank, address.value().ranks);
}

LauncherLine::LauncherLine(base::UniqueFd socket, std::int32_t rank, std::int32_t ranks)
    : socket_(std::move(socket)), rank_(rank), ranks_(ranks) {
    read(base::monotonic_ns());  // opens the step file, which comes with the first message
}

/// Receives a message like recv(). If a file's descriptor comes with the message, opens this file as the step file.
ssize_t LauncherLine::receive(std::span<char> buffer) {
    iovec part{buffer.data(), buffer.size()};
    base::Attachments attached;
    const ssize_t got = base::receive_with_descriptors(socket_.value(), {&part, 1}, attached);
    if (got > 0 && !attached.fds.empty()) {
        steps_.open(attached.fds.front().value());  // maps the file, so the descriptor may be closed afterwards
    }
    return got;
}

void LauncherLine::begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    steps_.begin(step);
}

void LauncherLine::set_members(std::vector<int> launch_ranks) {
    const std::lock_guard lock(mutex_);
    members_ = std::move(launch_ranks);
}

/// The callers of the functions from is_member() to take_place() hold the mutex. Only the constructor need not.
bool LauncherLine::is_member(int launch_rank) const {
    return members_.empty() || std::find(members_.begin(), members_.end(), launch_rank) != members_.end();
}

std::span<const HeardNotification> LauncherLine::heard_of_members() {
    if (members_.empty()) {
        return heard_;
    }
    members_heard_.clear();
    std::copy_if(heard_.begin(), heard_.end(), std::back_inserter(members_heard_),
                 [this](const HeardNotification& heard) { return is_member(heard.notification.rank); });
    return members_heard_;
}

/// Returns `text`, in which ranks have the launcher's numbers. If the job consists of only some of the launched ranks,
/// the job's numbers may differ. In that case, the result says which numbers are meant.
std::string LauncherLine::of_launch(const std::string& text) const {
    return members_.empty() ? text : "of the ranks that were launched, " + text;
}

void LauncherLine::read(std::int64_t now_ns) {
    std::array<char, base::kMostLauncherNotification + 1> buffer;
    while (socket_.is_open()) {
        const ssize_t got = receive(buffer);
        // If the launcher ends before it has read all messages of this process, the connection is reset. This process
        // then gets ECONNRESET once, and can still read the launcher's earlier messages.
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        const Result<base::LauncherNotification> notification =
            base::parse_launcher_notification({buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
        // The launcher has ended, or is not ruedarun. Its earlier notifications stay valid.
        if (got <= 0 || !notification.is_ok() || !take(notification.value(), now_ns).is_ok()) {
            socket_.reset();
            return;
        }
    }
}

/// Fails if the notification is not one that ruedarun would send to this rank.
Status LauncherLine::take(const base::LauncherNotification& notification, std::int64_t now_ns) {
    Status wrong = failure(ErrorCode::internal, "a notification that ruedarun does not send");
    switch (notification.kind) {
        case NotificationKind::ended_well:
        case NotificationKind::failed:
            if (notification.rank >= ranks_ || heard_.size() == kMostWords) {
                return wrong;
            }
            if (notification.rank != rank_) {
                heard_.push_back({notification, now_ns});
            }
            return {};
        case NotificationKind::steps:
            return notification.rank < ranks_ ? Status() : wrong;
        case NotificationKind::elastic:
            is_elastic_ = true;
            return {};
        case NotificationKind::place: {
            Result<base::LauncherPlace> place = base::parse_place(notification);
            RUEDA_RETURN_IF_FAILED(place.status());
            begin_generation(std::move(place).value());
            return {};
        }
        case NotificationKind::slots_changed:
            slot_changes_ |= notification.rank;
            return {};
        case NotificationKind::dismissed:
            dismissal_ = notification.text;
            return {};
        case NotificationKind::aborted:
        case NotificationKind::waits:
            break;  // only a rank sends these
    }
    return wrong;
}

/// The launcher sends a place (a rank in a new generation of an elastic job) only to a process that waits for one. All
/// notifications that arrived before this place are about an earlier generation, because the socket keeps the order of
/// messages.
void LauncherLine::begin_generation(base::LauncherPlace place) {
    rank_ = place.rank;
    ranks_ = place.ranks;
    heard_.clear();
    reported_.clear();
    is_the_cause_ = false;
    slot_changes_ = 0;
    place_ = std::move(place);
}

std::optional<Result<base::LauncherPlace>> LauncherLine::take_place() {
    if (place_) {
        return Result<base::LauncherPlace>(*std::exchange(place_, std::nullopt));
    }
    if (dismissal_) {
        return failure(ErrorCode::aborted, "init: ruedarun gives this process no place in the elastic job: {}",
                       *dismissal_);
    }
    if (!socket_.is_open()) {
        return failure(ErrorCode::aborted,
                       "init: ruedarun has ended, or has closed its socket to this process, so "
                       "there is no elastic job any more");
    }
    return std::nullopt;
}

Result<base::LauncherPlace> LauncherLine::wait_for_place() {
    bool has_told = false;
    for (;;) {
        int fd = -1;
        {
            const std::lock_guard lock(mutex_);
            if (!has_told && socket_.is_open()) {
                place_.reset();
                const std::string waits = base::encode({NotificationKind::waits, rank_, ""});
                // The launcher reads this socket all the time, so the send blocks only for a short time.
                has_told = ::send(socket_.value(), waits.data(), waits.size(), MSG_NOSIGNAL) >= 0;
            }
            read(base::monotonic_ns());
            if (std::optional<Result<base::LauncherPlace>> place = take_place()) {
                return std::move(*place);
            }
            fd = socket_.value();
        }
        // The call of poll() below returns when the launcher sends a message, and also when the launcher dies, because
        // the kernel then closes the launcher's end of the socket. The time limit of poll() is needed only for a failed
        // send, which the next pass of the loop repeats.
        constexpr int kLookAgainMs = 1000;
        pollfd entry{fd, POLLIN, 0};
        ::poll(&entry, 1, kLookAgainMs);
    }
}

std::int32_t LauncherLine::take_slot_changes() {
    const std::lock_guard lock(mutex_);
    read(base::monotonic_ns());
    return std::exchange(slot_changes_, 0);
}

std::optional<std::string> LauncherLine::cause_in_mpi_init(std::int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    read(now_ns);
    const base::LauncherNotification* const notification = cause_among(heard_, Standing::joining, now_ns);
    return notification != nullptr ? std::optional(of_launch(describe_cause(*notification, Standing::joining)))
                                   : std::nullopt;
}

/// Waits for a notification for which `wanted` returns true, and returns a text about the first one. Returns nothing if
/// no such notification comes within kMoment, or if the launcher has ended.
template <class Wanted>
std::optional<std::string> LauncherLine::wait_for(Wanted&& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kMoment;
    for (;;) {
        int fd = -1;
        {
            const std::lock_guard lock(mutex_);
            read(base::monotonic_ns());
            const auto found = std::find_if(heard_.begin(), heard_.end(), [&](const HeardNotification& heard) {
                return is_member(heard.notification.rank) && wanted(heard.notification);
            });
            if (found != heard_.end()) {
                return of_launch(describe_cause(found->notification));
            }
            fd = socket_.value();
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (fd < 0 || left.count() <= 0) {
            return std::nullopt;
        }
        pollfd entry{fd, POLLIN, 0};
        ::poll(&entry, 1, static_cast<int>(left.count()));
    }
}

/// `rank` is a rank of the job. The number comes from shared memory, so it may be invalid.
bool LauncherLine::is_about_rank(const base::LauncherNotification& notification, int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return members_.empty() ? notification.rank == rank
                            : index < members_.size() && notification.rank == members_[index];
}

std::string LauncherLine::cause_of_death(int rank, const std::string& seen, const std::string& end_reason) {
    bool is_other_rank = false;
    const std::optional<std::string> cause = wait_for([&](const base::LauncherNotification& notification) {
        is_other_rank = !is_about_rank(notification, rank);
        return !is_other_rank || notification.kind == NotificationKind::failed;
    });
    if (!cause) {
        return seen;
    }
    return is_other_rank || end_reason.empty() ? *cause : *cause + ": " + end_reason;
}

std::optional<std::string> LauncherLine::notification_of_failure() {
    return wait_for(
        [](const base::LauncherNotification& notification) { return notification.kind == NotificationKind::failed; });
}

void LauncherLine::report_abort(std::string_view reason) {
    const std::lock_guard lock(mutex_);
    if (!socket_.is_open() || is_the_cause_ || reported_.size() == kMostReports ||
        (!reported_.empty() && reason.find(reported_.back()) != std::string_view::npos)) {
        return;
    }
    reported_.emplace_back(reason);
    const std::string notification = base::encode({NotificationKind::aborted, rank_, std::string(reason)});
    // A failure is ignored: without the message, the launcher treats this rank's end like any other end.
    static_cast<void>(::send(socket_.value(), notification.data(), notification.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

void LauncherLine::become_the_cause() {
    const std::lock_guard lock(mutex_);
    is_the_cause_ = true;
}

}  // namespace rueda::core
