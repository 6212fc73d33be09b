// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/termination/memory_guard.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/system/thread_signals.hpp"
#include "base/text.hpp"
#include "core/termination/signal_text.hpp"

namespace rueda::core {
namespace {

/// A note about the memory of one operation. A note is never removed from the list, because a handler may read the list
/// at any time. After the operation, the note is used for another operation. `end` is written last and cleared first,
/// so a handler never sees an incomplete range. These release stores pair with the handler's acquire load.
struct MemoryNote {
    struct Range {
        std::atomic<std::uintptr_t> begin{0};
        std::atomic<std::uintptr_t> end{0};

        void set(const void* memory, std::uint64_t bytes) {
            begin.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_relaxed);
            end.store(reinterpret_cast<std::uintptr_t>(memory) + bytes, std::memory_order_release);
        }
        void clear() { end.store(0, std::memory_order_release); }
        [[nodiscard]] bool has(std::uintptr_t address) const {
            const std::uintptr_t last = end.load(std::memory_order_acquire);
            return address < last && address >= begin.load(std::memory_order_relaxed);
        }
        [[nodiscard]] bool overlaps(std::uintptr_t first, std::uintptr_t last) const {
            const std::uintptr_t own_end = end.load(std::memory_order_acquire);
            return first < own_end && last > begin.load(std::memory_order_relaxed);
        }
    };
    static constexpr std::size_t kNameBytes = 200;  // a longer name is shortened to this size

    Range input;
    Range output;
    char name[kNameBytes + 1] = {};
    char facts[64] = {};  ///< for example "4096 bytes at 0x7f…"
    MemoryNote* next = nullptr;

    [[nodiscard]] bool has(std::uintptr_t address) const { return input.has(address) || output.has(address); }
    [[nodiscard]] bool overlaps(std::uintptr_t first, std::uintptr_t last) const {
        return input.overlaps(first, last) || output.overlaps(first, last);
    }
};

/// What the handlers need; prepared in advance, because a handler must not allocate or format.
struct MemoryWatch {
    pid_t pid = 0;
    std::uint32_t members = 0;
    std::uint32_t own = 0;
    base::ControlBlock* control = nullptr;
    bool prints = false;
    std::string prefix;
    std::string who;  ///< for example "rank 2: "
};

constexpr std::array kFaults = {SIGSEGV, SIGBUS};

/// These pointers are stored with release, after their objects were filled. The handlers load them with acquire.
std::atomic<MemoryNote*> first_note{nullptr};
std::atomic<const MemoryWatch*> memory_watch{nullptr};

/// Never destroyed: operations may end after the destruction of static objects.
struct Notes {
    std::mutex mutex;  // the last mutex in the lock order: a thread that holds it calls no function that takes a lock
    std::unordered_map<const TensorEntry*, MemoryNote*> of;
    std::vector<MemoryNote*> unused;
};
Notes& notes() {
    static auto* const all = new Notes;
    return *all;
}

/// The previous handlers of the signals in kFaults. They are stored here before this file's handlers are installed,
/// because this file's handlers read them.
std::array<struct sigaction, kFaults.size()> faults_before{};
std::array<bool, kFaults.size()> has_ours{};

const struct sigaction& before_of(int number) { return faults_before[number == SIGSEGV ? 0 : 1]; }

bool has_handler_of_program(int number) {
    const struct sigaction& action = before_of(number);
    return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

const char* what_happened(int number, int code) {
    if (number == SIGBUS) {
        return " has no pages any more while its operation is pending, because the file that it maps has become "
               "shorter";
    }
    return code == SEGV_ACCERR
               ? " cannot be accessed while its operation is pending, because it was protected with mprotect"
               : " was given back while its operation was pending, and is not mapped any more";
}

/// If the fault is in noted memory and the job was not aborted before, raises the abort and prints a line. Runs in a
/// signal handler, so it must not allocate, format or lock.
void say_whose_memory(const MemoryWatch& watch, int number, const siginfo_t& info) {
    const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
    const MemoryNote* note = first_note.load(std::memory_order_acquire);
    while (note != nullptr && !note->has(address)) {
        note = note->next;
    }
    if (note == nullptr) {
        return;
    }
    SignalText line;
    line.add(watch.prefix);
    line.add(watch.who);
    line.add("the memory of ");
    line.add_foreign(note->name);
    line.add(" (");
    line.add(note->facts);
    line.add(")");
    line.add(what_happened(number, info.si_code));
    line.add("; keep it until the operation has completed (wait for its handle)");
    if (has_handler_of_program(number)) {
        // The program may have its own handler of the signal. This handler may repair the fault, so that the process
        // continues. (Some programs find out by such faults which pages have changed.) So the job is not aborted here.
        // The text is stored as this rank's end reason, and other ranks report it if the process ends.
        watch.control->ranks[watch.own].end_reason.write(line.view().substr(watch.prefix.size() + watch.who.size()));
        return;
    }
    // raise() is lock-free, so a handler may call it.
    const bool first = watch.control->abort.raise(ErrorCode::aborted, line.view().substr(watch.prefix.size()));
    if (first && watch.prints) {
        line.add("\n");
        const base::SigpipeBlocked without_sigpipe;
        static_cast<void>(!write(base::Logger::kStandardError, line.view().data(), line.view().size()));
    }
    for (std::uint32_t member = 0; first && member < watch.members; ++member) {
        watch.control->ranks[member].attention.ring_all();
    }
}

/// Does what would have happened without this file's handler. If there was no previous handler, restores the default
/// action. When this file's handler then returns, the program repeats the access, and the default action ends the
/// process. So a core file shows the place of the access.
void pass_fault_on(int number, siginfo_t* info, void* context) {
    const struct sigaction& action = before_of(number);
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(number, info, context);
    } else if (has_handler_of_program(number)) {
        action.sa_handler(number);
    } else if (action.sa_handler != SIG_IGN || info->si_code > 0) {
        // If a memory access caused the signal, the kernel ends the process even if the process ignores the signal.
        struct sigaction usual {};
        usual.sa_handler = SIG_DFL;
        sigaction(number, &usual, nullptr);
        // If a memory access caused the signal, the access is repeated after this handler, and causes the signal again.
        // If a process sent the signal, it must be sent again.
        if (info->si_code <= 0) {
            raise(number);
        }
    }
}

void on_fault(int number, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const MemoryWatch* const watch = memory_watch.load(std::memory_order_acquire);
    // This handler says nothing in a forked child, which is not a rank. It also says nothing about a signal that a
    // process has sent (si_code ≤ 0), because such a signal has no address.
    if (watch != nullptr && watch->pid == getpid() && info->si_code > 0) {
        say_whose_memory(*watch, number, *info);
    }
    errno = saved_errno;
    pass_fault_on(number, info, context);
}

bool is_ours_for_faults(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_fault;
}

void write_note(MemoryNote& note, const TensorEntry& entry, std::uint64_t read, std::uint64_t written) {
    const Request& request = entry.request;
    const bool has_input = request.input != nullptr && read > 0;
    const void* const shown = has_input ? static_cast<const void*>(request.input) : request.output;
    const std::string name = entry.name.empty() ? std::string("an unnamed tensor") : "tensor '" + entry.name + "'";
    note.name[base::copy_shortened(name, std::span(note.name, MemoryNote::kNameBytes))] = '\0';
    *fmt::format_to_n(note.facts, sizeof note.facts - 1, "{} bytes at {}", has_input ? read : written, shown).out =
        '\0';
    if (has_input) {
        note.input.set(request.input, read);
    }
    if (request.output != nullptr && written > 0) {
        note.output.set(request.output, written);
    }
}

}  // namespace

constinit std::atomic<bool> is_memory_noted{false};

void watch_memory(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, const base::Logger& logger) {
    // Each job has its own watch. No watch is ever destroyed, because a handler in another thread may be reading it.
    static auto* const kept = new std::vector<std::unique_ptr<MemoryWatch>>;
    MemoryWatch* const watch = kept->emplace_back(std::make_unique<MemoryWatch>()).get();
    const auto rank = control.ranks[own].global_rank.load(std::memory_order_relaxed);
    watch->pid = getpid();
    watch->members = members;
    watch->own = own;
    watch->control = &control;
    watch->prints = logger.prints(base::LogLevel::error);
    watch->prefix = fmt::format("[E rueda] [rank {}]: ", rank);
    watch->who = fmt::format("rank {}: ", rank);
    memory_watch.store(watch, std::memory_order_release);
    is_memory_noted.store(true, std::memory_order_relaxed);
    for (std::size_t i = 0; i < kFaults.size(); ++i) {
        struct sigaction found {};
        sigaction(kFaults[i], nullptr, &found);
        // If this file's handler was installed before, other code may have installed its own handler later, which calls
        // this file's handler. So this file's handler is not installed a second time.
        if (has_ours[i] || is_ours_for_faults(found)) {
            continue;
        }
        faults_before[i] = found;
        struct sigaction ours = found;  // keeps the signal mask that the program's handler had
        ours.sa_flags |= SA_SIGINFO | SA_ONSTACK;
        ours.sa_sigaction = &on_fault;
        has_ours[i] = sigaction(kFaults[i], &ours, nullptr) == 0;
    }
}

void unwatch_memory() {
    is_memory_noted.store(false, std::memory_order_relaxed);
    memory_watch.store(nullptr, std::memory_order_release);
    for (std::size_t i = 0; i < kFaults.size(); ++i) {
        struct sigaction found {};
        sigaction(kFaults[i], nullptr, &found);
        if (has_ours[i] && is_ours_for_faults(found)) {
            sigaction(kFaults[i], &faults_before[i], nullptr);
            has_ours[i] = false;
        }
    }
}

void note_pending(const TensorEntry& entry, std::uint64_t rows_read, std::uint64_t rows_written) noexcept try {
    const std::uint64_t row = entry.request.bytes();
    if (row == 0 || entry.stands_in || (entry.request.input == nullptr && entry.request.output == nullptr)) {
        return;
    }
    const std::lock_guard lock(notes().mutex);
    MemoryNote*& note = notes().of[&entry];
    if (note == nullptr && !notes().unused.empty()) {
        note = notes().unused.back();
        notes().unused.pop_back();
    } else if (note == nullptr) {
        // room for all existing notes, because note_ended() must not allocate
        notes().unused.reserve(notes().of.size());
        note = new MemoryNote;
        note->next = first_note.load(std::memory_order_relaxed);
        first_note.store(note, std::memory_order_release);
    }
    write_note(*note, entry, row * rows_read, row * rows_written);
} catch (const std::bad_alloc&) {
    note_ended(entry);
}

void note_ended(const TensorEntry& entry) noexcept {
    const std::lock_guard lock(notes().mutex);
    const auto found = notes().of.find(&entry);
    if (found == notes().of.end()) {
        return;
    }
    if (MemoryNote* const note = found->second) {
        note->input.clear();
        note->output.clear();
        if (notes().unused.size() < notes().unused.capacity()) {
            notes().unused.push_back(note);
        }
    }
    notes().of.erase(found);
}

std::string pending_tensor_in(const void* memory, std::uint64_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const std::lock_guard lock(notes().mutex);
    for (const auto& [entry, note] : notes().of) {
        if (note != nullptr && note->overlaps(begin, begin + bytes)) {
            return note->name;
        }
    }
    return {};
}

}  // namespace rueda::core
