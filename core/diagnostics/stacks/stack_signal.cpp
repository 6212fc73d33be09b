// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/stack_signal.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace rueda::core {
namespace {

/// The largest number of frames that are recorded, which is more than a report prints. The rest of a deeper stack is
/// left out.
constexpr std::size_t kMostFrames = 128;
/// The largest number of frames before the interrupted frame: the frames of the handler and of the kernel's trampoline.
constexpr std::size_t kMostOwnFrames = 16;
/// The size of the buffer for a traceback, in bytes. Python's faulthandler writes 100 frames at most. Their names have
/// up to 500 characters, but most names are far shorter.
constexpr std::size_t kMostTraceback = 64 * 1024;

/// The signal handler and the capturing thread share this state. The captures are numbered from 1.
struct HandlerState {
    std::atomic<int> number{
        /// The number of the signal, or 0 if the handler must do nothing. The thread that installs the handler stores
        /// it with release; the handler loads it with acquire.
        0};
    /// The id of the process that installed the handler. Accesses to this id are relaxed, because it is stored before
    /// the release store to `number`.
    std::atomic<pid_t> pid{0};
    /// The number of the capture that the handler has to make, or 0. The capturing thread stores the number with
    /// release. The handler exchanges the number for 0 before it makes the capture. After a timeout, the capturing
    /// thread exchanges it for 0, so that the handler does not make the capture.
    std::atomic<std::uint32_t> wanted{0};
    /// The number of the last capture that the handler has made. The handler stores it with release after it wrote
    /// `addresses`, `count` and `is_complete`; the capturing thread loads it with acquire.
    std::atomic<std::uint32_t> taken{0};
    /// Whether a signal of another process asks this rank to print stacks. The handler stores it with release after the
    /// interpreter's handler has returned; take_print_request() exchanges it with acquire.
    std::atomic<bool> print_wanted{false};
    /// The interpreter's handler, and whether this file's handler calls it. adopt_traceback_handler() stores them with
    /// release; this file's handler loads them with acquire.
    std::atomic<void (*)(int)> inner{nullptr};
    std::atomic<bool> calls_inner{false};

    // The handler writes `addresses`, `count` and `is_complete` when it makes a capture. The capturing thread reads
    // them after it has read `taken`.
    std::array<std::uintptr_t, kMostFrames> addresses;
    std::size_t count;
    bool is_complete;
};
HandlerState handler_state;

/// The thread that makes a capture holds this mutex.
std::mutex capture_mutex;
std::uint32_t last_capture = 0;  // protected by capture_mutex
// The file to which the interpreter's handler writes, or -1. All accesses are relaxed: the descriptor is read under
// capture_mutex, and is written before Rueda's handler calls the interpreter's handler.
std::atomic<int> descriptor_of_traceback{-1};

struct Walk {
    bool is_interrupted = false;  ///< whether the walk over the stack has reached the frame that the signal interrupted
    std::size_t own = 0;
};

/// The unwinder calls this for each frame. The frames of the handler come first and are left out.
_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* argument) {
    Walk& walk = *static_cast<Walk*>(argument);
    int is_exact = 0;  // 1 if the address is an interrupted instruction, 0 if it is a return address
    const std::uintptr_t address = _Unwind_GetIPInfo(context, &is_exact);
    if (!walk.is_interrupted) {
        walk.is_interrupted = is_exact != 0;
        if (!walk.is_interrupted) {
            // If a sanitizer calls the handler as a plain function (without the kernel's trampoline), no frame is
            // marked as interrupted. This walk then ends without a result, and record_stack() makes a second walk,
            // which leaves out no frames.
            return ++walk.own < kMostOwnFrames ? _URC_NO_REASON : _URC_NORMAL_STOP;
        }
    }
    if (address == 0) {
        return _URC_NORMAL_STOP;
    }
    if (handler_state.count == kMostFrames) {
        handler_state.is_complete = false;
        return _URC_NORMAL_STOP;
    }
    // A return address points behind the call instruction, where the next line or the next function may begin.
    // Therefore 1 is subtracted.
    handler_state.addresses[handler_state.count++] = is_exact != 0 ? address : address - 1;
    return _URC_NO_REASON;
}

_Unwind_Reason_Code note_any_frame(_Unwind_Context* context, void* argument) {
    static_cast<Walk*>(argument)->is_interrupted = true;
    return note_frame(context, argument);
}

void record_stack() {
    handler_state.count = 0;
    handler_state.is_complete = true;
    Walk walk;
    _Unwind_Backtrace(&note_frame, &walk);
    if (handler_state.count == 0) {
        Walk all;
        _Unwind_Backtrace(&note_any_frame, &all);
    }
}

bool is_from_this_process(const siginfo_t* info) {
    return info != nullptr && info->si_code == SI_TKILL && info->si_pid == getpid();
}

/// The handler of the stack signal. If this process has sent the signal for a capture, the handler runs in the main
/// thread. If another process has sent the signal, the handler may run in any thread.
void on_stack_signal(int number, siginfo_t* info, void* /*context*/) {
    const int saved_errno = errno;
    if (handler_state.number.load(std::memory_order_acquire) == number &&
        handler_state.pid.load(std::memory_order_relaxed) == getpid()) {
        const bool is_own = is_from_this_process(info);
        // The signal of a capture may come when nobody waits for the capture any more. In that case `wanted` is 0.
        const std::uint32_t wanted =
            is_own && syscall(SYS_gettid) == getpid() ? handler_state.wanted.exchange(0, std::memory_order_acq_rel) : 0;
        // The interpreter's handler may pass a signal on: it then sends the signal again, from this process. The
        // condition below keeps this second signal from the interpreter's handler.
        if ((wanted != 0 || !is_own) && handler_state.calls_inner.load(std::memory_order_acquire)) {
            handler_state.inner.load(std::memory_order_acquire)(number);
        }
        // The store to `print_wanted` requests that the stacks are printed. It comes after the call of the
        // interpreter's handler, because printing begins with a capture, and a capture empties the file of the
        // traceback. After that, the interpreter's handler must not write to the file.
        if (!is_own) {
            handler_state.print_wanted.store(true, std::memory_order_release);
        }
        if (wanted != 0) {
            record_stack();
            handler_state.taken.store(wanted, std::memory_order_release);
        }
    }
    errno = saved_errno;
}

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_stack_signal;
}

bool is_installed(int number) {
    struct sigaction found {};
    return number != 0 && sigaction(number, nullptr, &found) == 0 && is_ours(found);
}

/// SA_RESTART is set, so that a system call of the program goes on after the signal. SA_ONSTACK is not set, because the
/// unwinder needs some KiB, and an alternative stack of the smallest size does not have them.
bool put_in_place(int number) {
    struct sigaction ours {};
    ours.sa_sigaction = &on_stack_signal;
    ours.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    return sigaction(number, &ours, nullptr) == 0;
}

/// The callback for the first call of the unwinder, which is made before the handler is installed. The first call may
/// load a library or look up data, and neither may happen in the handler.
_Unwind_Reason_Code ignore_frame(_Unwind_Context* /*context*/, void* /*argument*/) { return _URC_NO_REASON; }

/// Reads the file from its beginning. The file contains only the last traceback, because it is emptied before each
/// capture.
std::string read_traceback(int descriptor) {
    std::string text(kMostTraceback, '\0');
    const ssize_t bytes = pread(descriptor, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    return text;
}

void empty_traceback(int descriptor) {
    static_cast<void>(!ftruncate(descriptor, 0));
    lseek(descriptor, 0, SEEK_SET);
}

/// Waits until the handler has stored the number of the capture in `taken`. This function sleeps for short times, and
/// checks `taken` after each sleep. A futex would not need these checks, but then the signal handler would have to make
/// a system call.
bool await_capture(std::uint32_t number, std::chrono::nanoseconds patience) {
    constexpr std::chrono::microseconds kPause{200};
    const auto until = std::chrono::steady_clock::now() + patience;
    while (handler_state.taken.load(std::memory_order_acquire) != number) {
        if (std::chrono::steady_clock::now() >= until) {
            return false;
        }
        std::this_thread::sleep_for(kPause);
    }
    return true;
}

}  // namespace

int number_of(base::StackSignal signal) {
    switch (signal) {
        case base::StackSignal::usr1:
            return SIGUSR1;
        case base::StackSignal::usr2:
            return SIGUSR2;
        case base::StackSignal::rtmin:
            return SIGRTMIN;
        case base::StackSignal::none:
            break;
    }
    return 0;
}

std::string_view name_of(base::StackSignal signal) {
    switch (signal) {
        case base::StackSignal::usr1:
            return "SIGUSR1";
        case base::StackSignal::usr2:
            return "SIGUSR2";
        case base::StackSignal::rtmin:
            return "SIGRTMIN";
        case base::StackSignal::none:
            break;
    }
    return "";
}

bool install_stack_handler(int number) {
    struct sigaction found {};
    sigset_t blocked;
    // A program that blocks the signal may receive it by sigwait() or signalfd().
    if (sigaction(number, nullptr, &found) != 0 || pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0 ||
        sigismember(&blocked, number) != 0) {
        return false;
    }
    const bool is_default = (found.sa_flags & SA_SIGINFO) == 0 && found.sa_handler == SIG_DFL;
    if (!is_default && !is_ours(found)) {
        return false;
    }
    _Unwind_Backtrace(&ignore_frame, nullptr);
    handler_state.pid.store(getpid(), std::memory_order_relaxed);
    handler_state.print_wanted.store(false, std::memory_order_relaxed);
    handler_state.number.store(number, std::memory_order_release);
    if (!is_ours(found) && !put_in_place(number)) {
        handler_state.number.store(0, std::memory_order_release);
        return false;
    }
    return true;
}

void remove_stack_handler() {
    const int number = handler_state.number.exchange(0, std::memory_order_acq_rel);
    if (is_installed(number)) {
        // If a capture timed out because the main thread blocks the signal, its signal may still be pending. SIG_IGN
        // discards a pending signal; with SIG_DFL alone, the signal would end the process later.
        struct sigaction usual {};
        usual.sa_handler = SIG_IGN;
        sigaction(number, &usual, nullptr);
        usual.sa_handler = SIG_DFL;
        sigaction(number, &usual, nullptr);
    }
}

int stack_signal() { return handler_state.number.load(std::memory_order_acquire); }

Result<RawStack> capture_main_thread(std::chrono::nanoseconds patience) {
    const std::lock_guard lock(capture_mutex);
    const int number = stack_signal();
    if (!is_installed(number)) {
        return failure(ErrorCode::unsupported, "the program has installed a handler of its own for the signal");
    }
    if (last_capture != handler_state.taken.load(std::memory_order_acquire)) {
        return failure(ErrorCode::timeout, "its main thread is still in the handler of an earlier request");
    }
    const int descriptor = handler_state.calls_inner.load(std::memory_order_acquire)
                               ? descriptor_of_traceback.load(std::memory_order_relaxed)
                               : -1;
    if (descriptor >= 0) {
        empty_traceback(descriptor);
    }
    const std::uint32_t capture = last_capture + 1 != 0 ? last_capture + 1 : 1;
    handler_state.wanted.store(capture, std::memory_order_release);
    if (syscall(SYS_tgkill, getpid(), getpid(), number) != 0) {
        const int error = errno;
        handler_state.wanted.store(0, std::memory_order_relaxed);
        return system_failure(ErrorCode::unsupported, "tgkill", error);
    }
    if (!await_capture(capture, patience)) {
        constexpr std::chrono::milliseconds kToFinish{100};
        if (handler_state.wanted.exchange(0, std::memory_order_acq_rel) == capture) {
            return failure(ErrorCode::timeout, "its main thread did not run the handler of the signal within {} s",
                           std::chrono::duration<double>(patience).count());
        }
        // The handler has begun the capture, and will write to `handler_state`.
        if (!await_capture(capture, kToFinish)) {
            last_capture = capture;
            return failure(ErrorCode::timeout, "its main thread did not finish the handler of the signal within {} s",
                           std::chrono::duration<double>(patience + kToFinish).count());
        }
    }
    last_capture = capture;
    RawStack stack;
    stack.addresses.assign(handler_state.addresses.begin(),
                           handler_state.addresses.begin() + static_cast<std::ptrdiff_t>(handler_state.count));
    stack.is_complete = handler_state.is_complete;
    if (descriptor >= 0) {
        stack.traceback = read_traceback(descriptor);
    }
    return stack;
}

bool take_print_request() { return handler_state.print_wanted.exchange(false, std::memory_order_acquire); }

Status adopt_traceback_handler(int descriptor) {
    handler_state.calls_inner.store(false, std::memory_order_release);
    if (descriptor < 0) {
        // This function returns before it locks the mutex. In a forked child the mutex may be locked for ever, because
        // a thread of the parent held it at the time of the fork.
        return {};
    }
    const std::lock_guard lock(capture_mutex);
    const int number = stack_signal();
    struct sigaction found {};
    if (number == 0 || sigaction(number, nullptr, &found) != 0) {
        return {ErrorCode::unsupported, "there is no stack signal"};
    }
    if (!is_ours(found)) {
        if ((found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN) {
            return {ErrorCode::unsupported, "no interpreter's handler is installed for the stack signal"};
        }
        handler_state.inner.store(found.sa_handler, std::memory_order_release);
        if (!put_in_place(number)) {
            return system_failure(ErrorCode::unsupported, "sigaction");
        }
    }
    if (handler_state.inner.load(std::memory_order_acquire) == nullptr) {
        return {ErrorCode::unsupported, "no interpreter's handler was installed for the stack signal"};
    }
    descriptor_of_traceback.store(descriptor, std::memory_order_relaxed);
    handler_state.calls_inner.store(true, std::memory_order_release);
    return {};
}

}  // namespace rueda::core
