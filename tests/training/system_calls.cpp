// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/training/system_calls.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <mutex>

namespace rueda::training::test {
namespace {

std::atomic<Fault> current_fault{Fault::none};
std::atomic<int> fault_at{0};
std::atomic<int> calls{0};
std::atomic<bool> disk_is_full{false};
std::atomic<bool> writes_are_held{false};
std::atomic<bool> is_recording{false};
std::atomic<bool> threads_are_refused{false};
std::string forbidden_path;
std::mutex record_mutex;
std::vector<std::string> record;

std::string path_of(int descriptor) {
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    std::array<char, 4096> path{};
    const long length = ::syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
    return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

void note(const std::string& text) {
    if (is_recording.load()) {
        const std::lock_guard lock(record_mutex);
        record.push_back(text);
    }
}

[[noreturn]] void die() {
    ::kill(::getpid(), SIGKILL);
    for (;;) {
        ::pause();
    }
}

/// Counts the present call of a replaced function, and returns the fault that the test has chosen for it. For an error,
/// sets errno. For Fault::death, kills the process.
Fault next_fault() {
    const int number = ++calls;
    if (current_fault.load() == Fault::none || number != fault_at.load()) {
        return Fault::none;
    }
    switch (current_fault.load()) {
        case Fault::death:
            die();
        case Fault::input_output_error:
            errno = EIO;
            break;
        case Fault::no_space:
            errno = ENOSPC;
            break;
        default:
            break;
    }
    return current_fault.load();
}

bool must_fail(Fault fault) { return fault == Fault::input_output_error || fault == Fault::no_space; }

/// Applies faults to a write. `write` writes the given number of bytes.
template <class Write>
ssize_t faulty_write(int descriptor, std::size_t bytes, Write write) {
    struct stat facts {};
    ::syscall(SYS_newfstatat, descriptor, "", &facts, AT_EMPTY_PATH);
    if (!S_ISREG(facts.st_mode) || descriptor <= 2) {  // writes to other descriptors are notifications between threads,
                                                       // or the output of the test
        return write(bytes);
    }
    while (writes_are_held.load()) {
        timespec pause{0, 1'000'000};
        ::nanosleep(&pause, nullptr);
    }
    const Fault fault = next_fault();
    if (must_fail(fault)) {
        return -1;
    }
    if (disk_is_full.load()) {
        errno = ENOSPC;
        return -1;
    }
    if (fault == Fault::short_write || fault == Fault::death_in_write) {
        const ssize_t written = write((bytes + 1) / 2);
        if (fault == Fault::death_in_write) {
            die();
        }
        return written;
    }
    return write(bytes);
}

DIR* real_fdopendir(int descriptor) {
    static const auto real = reinterpret_cast<decltype(&fdopendir)>(::dlsym(RTLD_NEXT, "fdopendir"));
    return real(descriptor);
}

}  // namespace

void set_fault(Fault fault, int call) {
    calls = 0;
    fault_at = call;
    current_fault = fault;
}
void set_disk_full(bool is_full) { disk_is_full = is_full; }
void forbid_opening(const std::string& path) { forbidden_path = path; }
void refuse_threads(bool refuse) { threads_are_refused = refuse; }
bool is_forbidden(const char* path) { return !forbidden_path.empty() && forbidden_path == path; }
bool refuses_threads() { return threads_are_refused.load(); }
void hold_writes(bool hold) { writes_are_held = hold; }
int counted_calls() { return calls.load(); }

void start_recording() {
    record.clear();
    is_recording = true;
}
std::vector<std::string> stop_recording() {
    is_recording = false;
    return record;
}

}  // namespace rueda::training::test

namespace test = rueda::training::test;

// The functions below replace functions of the C library, so they must make the system calls themselves. They are
// exported, so the shared libraries, such as the C++ library, call them, too.
#pragma GCC visibility push(default)
extern "C" {

int openat(int folder, const char* path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    return test::must_fail(test::next_fault()) ? -1
                                               : static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

int open(const char* path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    if (test::is_forbidden(path)) {
        errno = EACCES;
        return -1;
    }
    return test::must_fail(test::next_fault()) ? -1
                                               : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int close(int descriptor) {
    const bool fails = test::must_fail(test::next_fault());
    const int error = errno;
    const int result = static_cast<int>(::syscall(SYS_close, descriptor));  // even a failed close() frees the
                                                                            // descriptor's number
    errno = fails ? error : errno;
    return fails ? -1 : result;
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
    return test::faulty_write(descriptor, bytes,
                              [&](size_t count) { return ::syscall(SYS_write, descriptor, data, count); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t place) {
    return test::faulty_write(descriptor, bytes,
                              [&](size_t count) { return ::syscall(SYS_pwrite64, descriptor, data, count, place); });
}

ssize_t pread(int descriptor, void* data, size_t bytes, off_t place) {
    return test::must_fail(test::next_fault()) ? -1 : ::syscall(SYS_pread64, descriptor, data, bytes, place);
}
// Replaces __pread_chk(), which programs call instead of pread() if they are compiled with _FORTIFY_SOURCE.
ssize_t __pread_chk(int descriptor, void* data, size_t bytes, off_t place, size_t /*room*/) {
    return pread(descriptor, data, bytes, place);
}

int fsync(int descriptor) {
    if (test::must_fail(test::next_fault())) {
        return -1;
    }
    // The test does not test the disk itself. So the real flush is left out, because it would only take time.
    test::note("fsync " + test::path_of(descriptor));
    return 0;
}

int mkdir(const char* path, mode_t mode) {
    return test::must_fail(test::next_fault()) ? -1 : static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int rename(const char* from, const char* to) {
    if (test::must_fail(test::next_fault())) {
        return -1;
    }
    const long result = ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    test::note(std::string("rename ") + from + " " + to);
    return static_cast<int>(result);
}

int unlink(const char* path) {
    if (test::must_fail(test::next_fault())) {
        return -1;
    }
    test::note(std::string("unlink ") + path);
    return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) {
    if (test::must_fail(test::next_fault())) {
        return -1;
    }
    test::note(std::string("unlinkat ") + path);
    return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

int access(const char* path, int mode) {
    return test::must_fail(test::next_fault()) ? -1 : static_cast<int>(::syscall(SYS_faccessat, AT_FDCWD, path, mode));
}

int stat(const char* path, struct stat* facts) {
    return test::must_fail(test::next_fault()) ? -1
                                               : static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, facts, 0));
}

int fstat(int descriptor, struct stat* facts) {
    return test::must_fail(test::next_fault())
               ? -1
               : static_cast<int>(::syscall(SYS_newfstatat, descriptor, "", facts, AT_EMPTY_PATH));
}

DIR* opendir(const char* path) {
    if (test::must_fail(test::next_fault())) {
        return nullptr;
    }
    const int descriptor =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
    return descriptor < 0 ? nullptr : test::real_fdopendir(descriptor);
}

DIR* fdopendir(int descriptor) {
    return test::must_fail(test::next_fault()) ? nullptr : test::real_fdopendir(descriptor);
}

struct dirent64* readdir64(DIR* folder) {
    static const auto real = reinterpret_cast<decltype(&readdir64)>(::dlsym(RTLD_NEXT, "readdir64"));
    return test::must_fail(test::next_fault()) ? nullptr : real(folder);
}
struct dirent* readdir(DIR* folder) {
    static const auto real = reinterpret_cast<decltype(&readdir)>(::dlsym(RTLD_NEXT, "readdir"));
    return test::must_fail(test::next_fault()) ? nullptr : real(folder);
}

int flock(int descriptor, int operation) {
    return test::must_fail(test::next_fault()) ? -1 : static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
    if (test::refuses_threads()) {
        return EAGAIN;
    }
    static const auto real = reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, attributes, body, argument);
}

}  // extern "C"
#pragma GCC visibility pop
