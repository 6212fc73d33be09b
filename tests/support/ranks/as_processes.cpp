// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <system_error>
#include <thread>

#include "base/unique_fd.hpp"
#include "collectives/host/sockets/socket_control_plane.hpp"
#include "tests/support/ranks/board.hpp"

namespace rueda::tests::detail {
namespace {

// The messages that a child writes into its pipe: a MessageHead and two texts.
enum class Message : std::uint32_t { value = 1, threw = 2, returned = 3 };
struct MessageHead {
    Message kind;
    std::uint32_t key_bytes;
    std::uint64_t text_bytes;
};
static_assert(sizeof(MessageHead) == 16);

void write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return;  // the pipe is closed, so the test has ended and the kernel will kill this process
        }
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

void send(int fd, Message kind, std::string_view key, std::string_view text) {
    const MessageHead head{kind, static_cast<std::uint32_t>(key.size()), text.size()};
    std::string bytes(sizeof(head), '\0');
    std::memcpy(bytes.data(), &head, sizeof(head));
    bytes.append(key).append(text);
    write_all(fd, bytes);
}

/// Removes Catch's signal handlers, which would print a report in the child.
void forget_signal_handlers() {
    for (const int number : {SIGINT, SIGILL, SIGFPE, SIGSEGV, SIGTERM, SIGABRT, SIGBUS}) {
        ::signal(number, SIG_DFL);
    }
    std::set_terminate(std::abort);
}

/// The exit statuses of a child whose body has returned or thrown. Before such an end, the child sends a message that
/// describes it. If the status is another one, the body itself has ended the process.
constexpr int kReturnedStatus = 0;
constexpr int kThrewStatus = 70;

[[noreturn]] void play(const std::function<void(RankContext&)>& body, int rank, Board& board, Ways& ways, int pipe) {
    forget_signal_handlers();
    board.wait_for_start();
    board.enter_phase(rank, "started");
    int status = kReturnedStatus;
    try {
        RankContext context(rank, board, ways);
        body(context);
        board.enter_phase(rank, "returned");
        send(pipe, Message::returned, "", "");
    } catch (const std::exception& error) {
        status = kThrewStatus;
        send(pipe, Message::threw, "", error.what());
    } catch (...) {
        status = kThrewStatus;
        send(pipe, Message::threw, "", "something that is no std::exception");
    }
    std::cout.flush();
    std::fflush(nullptr);
    ::_exit(status);  // skips exit handlers and the destructors of the test program's static objects
}

[[nodiscard]] std::string fresh_socket_name() {
    static std::atomic<int> counter{0};
    return fmt::format("@rueda-ranks-{}-{}-{}", ::getpid(), ++counter,
                       std::chrono::steady_clock::now().time_since_epoch().count());
}

/// The child processes of a run, from their fork until the test has waited for the last one.
class Children {
public:
    Children(const std::function<void(RankContext&)>& body, Board& board) : board_(board) {
        ways_.as = RanksAs::processes;
        ways_.open_control_plane = [name = fresh_socket_name(), &board](int rank, int number) {
            return collectives::open_socket_control_plane(
                {.rendezvous = fmt::format("{}-{}", name, number), .rank = rank, .size = board.size()});
        };
        children_.resize(static_cast<std::size_t>(board.size()));
        try {
            for (int rank = 0; rank < board.size(); ++rank) {
                fork_one(body, rank);
            }
        } catch (...) {
            kill_all();
            throw;
        }
    }
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    ~Children() {
        kill_all();
        collect();
    }

    /// Reads the children's messages until all children have ended. Kills them at the deadline.
    void collect() {
        while (std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.pid > 0; })) {
            wait_for_something();
            for (int rank = 0; rank < board_.size(); ++rank) {
                Child& child = children_[static_cast<std::size_t>(rank)];
                read_what_is_there(child);
                if (child.pid > 0 && has_ended(child.pid)) {
                    reap(rank, child);
                }
            }
            if (!hung_ && std::chrono::steady_clock::now() >= board_.deadline()) {
                hang_up();
            }
        }
    }

    void kill_all() {
        for (const Child& child : children_) {
            if (child.pid > 0) {
                ::kill(child.pid, SIGKILL);
            }
        }
    }

    [[nodiscard]] std::vector<RankOutcome> outcomes() const {
        std::vector<RankOutcome> result;
        for (const Child& child : children_) {
            result.push_back(child.outcome);
        }
        return result;
    }

private:
    struct Child {
        pid_t pid = -1;
        base::UniqueFd end;   // a pidfd, which becomes readable when the process ends
        base::UniqueFd pipe;  // the pipe's read end, which does not block
        std::string received;
        bool said_its_end = false;
        RankOutcome outcome;
    };

    void fork_one(const std::function<void(RankContext&)>& body, int rank) {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            throw std::system_error(errno, std::generic_category(), "pipe2");
        }
        Child& child = children_[static_cast<std::size_t>(rank)];
        child.pipe = base::UniqueFd(ends[0]);
        base::UniqueFd theirs(ends[1]);
        ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
        // Without this flush, every child would write the buffered output of the test once more.
        std::cout.flush();
        std::fflush(nullptr);
        const pid_t test = ::getpid();
        const pid_t pid = ::fork();
        if (pid < 0) {
            throw std::system_error(errno, std::generic_category(), "fork");
        }
        if (pid == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != test) {
                // the test died before prctl() took effect, so the kernel will not send the signal
                ::_exit(kThrewStatus);
            }
            close_others();
            ways_.report = [pipe = theirs.value()](int, const std::string& key, const std::string& value) {
                send(pipe, Message::value, key, value);
            };
            play(body, rank, board_, ways_, theirs.value());
        }
        child.pid = pid;
        board_.set_process(rank, pid);
        child.end = base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    }

    /// Closes, in a child, the test's ends of the pipes.
    void close_others() {
        for (Child& other : children_) {
            other.pipe.reset();
            other.end.reset();
        }
    }

    void wait_for_something() const {
        std::vector<pollfd> entries;
        for (const Child& child : children_) {
            if (child.pid > 0) {
                entries.push_back({child.end.value(), POLLIN, 0});
                entries.push_back({child.pipe.value(), POLLIN, 0});
            }
        }
        // On kernels without pidfds, the test looks for ended processes at this interval.
        constexpr auto kLongest = std::chrono::milliseconds(100);
        const auto rest =
            std::chrono::ceil<std::chrono::milliseconds>(board_.deadline() - std::chrono::steady_clock::now());
        const auto limit = rest > std::chrono::milliseconds::zero() ? std::min(rest, kLongest) : kLongest;
        ::poll(entries.data(), entries.size(), static_cast<int>(limit.count()));
    }

    /// Does not wait for the process yet, so that the kernel cannot give its number to another process.
    [[nodiscard]] static bool has_ended(pid_t pid) {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
    }

    void reap(int rank, Child& child) {
        board_.set_ended(rank);
        read_what_is_there(child);
        int status = 0;
        while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
        }
        child.pid = -1;
        child.end.reset();
        child.pipe.reset();
        RankOutcome& outcome = child.outcome;
        outcome.last_phase = board_.phase_of(rank);
        if (WIFSIGNALED(status)) {
            outcome.end = hung_ && WTERMSIG(status) == SIGKILL ? RankEnd::hung : RankEnd::killed;
            outcome.signal = WTERMSIG(status);
        } else {
            outcome.exit_status = WEXITSTATUS(status);
            outcome.end = child.said_its_end ? outcome.end : RankEnd::exited;
        }
    }

    void hang_up() {
        hung_ = true;
        std::fputs(fmt::format("watchdog: the ranks did not end in time\n{}", board_.describe()).c_str(), stderr);
        kill_all();
    }

    static void read_what_is_there(Child& child) {
        std::array<char, 65536> buffer{};
        ssize_t count = 0;
        while (child.pipe.is_open() && (count = ::read(child.pipe.value(), buffer.data(), buffer.size())) > 0) {
            child.received.append(buffer.data(), static_cast<std::size_t>(count));
        }
        while (take_message(child)) {
        }
    }

    static bool take_message(Child& child) {
        MessageHead head{};
        if (child.received.size() < sizeof(head)) {
            return false;
        }
        std::memcpy(&head, child.received.data(), sizeof(head));
        const std::size_t all = sizeof(head) + head.key_bytes + head.text_bytes;
        if (child.received.size() < all) {
            return false;
        }
        const std::string key = child.received.substr(sizeof(head), head.key_bytes);
        std::string text = child.received.substr(sizeof(head) + head.key_bytes, head.text_bytes);
        child.received.erase(0, all);
        if (head.kind == Message::value) {
            child.outcome.values[key] = std::move(text);
        } else {
            child.said_its_end = true;
            child.outcome.end = head.kind == Message::threw ? RankEnd::threw : RankEnd::returned;
            child.outcome.text = std::move(text);
        }
        return true;
    }

    Board& board_;
    Ways ways_;
    std::vector<Child> children_;
    std::atomic<bool> hung_{false};
};

}  // namespace

std::vector<RankOutcome> run_as_processes(const std::function<void(RankContext&)>& body, const RanksOptions& options,
                                          Board& board) {
    Children children(body, board);
    board.start();
    if (!options.meanwhile) {
        children.collect();
        return children.outcomes();
    }
    std::thread collector([&] { children.collect(); });
    std::exception_ptr thrown;
    try {
        RunningRanks running(board, RanksAs::processes);
        options.meanwhile(running);
    } catch (...) {
        thrown = std::current_exception();
        for (int rank = 0; rank < board.size(); ++rank) {
            board.send_signal(rank, SIGKILL);
        }
    }
    collector.join();
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    return children.outcomes();
}

}  // namespace rueda::tests::detail
