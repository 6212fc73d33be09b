// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Streams of bytes that are not compressed: files, FIFOs and memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.hpp"
#include "data/sources/byte_stream.hpp"

namespace rueda::data {

namespace {

/// The limit of one call of read(2). Linux itself reads at most 2 GiB in a call, and a lower limit costs nothing.
constexpr std::size_t kMostPerRead = std::size_t{1} << 30;

/// Calls read(2), and repeats the call if a signal interrupted it.
Result<std::size_t> read_descriptor(int descriptor, std::span<std::byte> into, const std::string& name) {
    while (true) {
        const auto count = ::read(descriptor, into.data(), std::min(into.size(), kMostPerRead));
        if (count >= 0) {
            return static_cast<std::size_t>(count);
        }
        if (errno != EINTR) {
            return system_failure(ErrorCode::invalid_argument, fmt::format("reading '{}': read", name));
        }
    }
}

class FileStream final : public ByteStream {
public:
    FileStream(base::UniqueFd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

    Result<std::size_t> read(std::span<std::byte> into) override { return read_descriptor(file_.value(), into, path_); }

private:
    base::UniqueFd file_;
    std::string path_;
};

/// Reads a FIFO that only this process may read. Waits for the FIFO's writer in poll(2), because read(2) would report
/// the end of a FIFO that has no writer yet.
class FifoStream final : public ByteStream {
public:
    FifoStream(base::UniqueFd fifo, std::string path, const StopSignal& stop)
        : fifo_(std::move(fifo)), path_(std::move(path)), stop_(stop) {}

    Result<std::size_t> read(std::span<std::byte> into) override {
        while (true) {
            std::array<pollfd, 2> waits = {pollfd{.fd = fifo_.value(), .events = POLLIN, .revents = 0},
                                           pollfd{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
            // This wait ends when the writer of the FIFO writes or closes it, and when StopSignal::give() is called.
            if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
                return system_failure(ErrorCode::invalid_argument, fmt::format("reading the FIFO '{}': poll", path_));
            }
            if (waits[1].revents != 0) {
                return failure(ErrorCode::aborted, "reading the FIFO '{}': the pipeline was stopped", path_);
            }
            if (waits[0].revents == 0) {
                continue;  // a signal interrupted poll
            }
            const auto count = ::read(fifo_.value(), into.data(), std::min(into.size(), kMostPerRead));
            if (count >= 0) {
                return static_cast<std::size_t>(count);
            }
            if (errno != EINTR && errno != EAGAIN) {
                return system_failure(ErrorCode::invalid_argument, fmt::format("reading the FIFO '{}': read", path_));
            }
        }
    }

private:
    base::UniqueFd fifo_;
    std::string path_;
    const StopSignal& stop_;
};

class MemoryStream final : public ByteStream {
public:
    explicit MemoryStream(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}

    Result<std::size_t> read(std::span<std::byte> into) override {
        const std::size_t count = std::min(into.size(), bytes_->size() - place_);
        std::memcpy(into.data(), bytes_->data() + place_, count);
        place_ += count;
        return count;
    }

private:
    std::shared_ptr<const std::string> bytes_;
    std::size_t place_ = 0;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> open_file(const std::string& path) {
    base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.is_open()) {
        return system_failure(ErrorCode::invalid_argument, fmt::format("opening '{}': open", path));
    }
    struct stat info {};
    if (::fstat(file.value(), &info) != 0 || !S_ISREG(info.st_mode)) {
        return failure(ErrorCode::invalid_argument,
                       "opening '{}': it is not a regular file; use fifo() for a FIFO, and files() to find files",
                       path);
    }
    // With this advice, the kernel reads twice as far ahead. A failure is ignored, because some file systems refuse the
    // advice and work without it.
    [[maybe_unused]] const int advised = ::posix_fadvise(file.value(), 0, 0, POSIX_FADV_SEQUENTIAL);
    return std::unique_ptr<ByteStream>(std::make_unique<FileStream>(std::move(file), path));
}

Result<std::unique_ptr<ByteStream>> open_fifo(const std::string& path, const StopSignal& stop,
                                              std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    // Without O_NONBLOCK, open() would wait for the writer, and `stop` could not end this wait.
    base::UniqueFd fifo(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    while (!fifo.is_open() && errno == ENOENT && std::chrono::steady_clock::now() < deadline) {
        pollfd question{.fd = stop.descriptor(), .events = POLLIN, .revents = 0};
        // This thread waits for 50 ms before the next attempt. StopSignal::give() wakes it earlier.
        if (::poll(&question, 1, 50) > 0) {
            return failure(ErrorCode::aborted, "opening the FIFO '{}': the pipeline was stopped", path);
        }
        fifo.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    }
    if (!fifo.is_open()) {
        const Status reason =
            system_failure(ErrorCode::invalid_argument, fmt::format("opening the FIFO '{}': open", path));
        return failure(
            ErrorCode::invalid_argument,
            "{}; in SageMaker's Pipe mode each epoch has its own FIFO, '<channel>_<epoch>', which exists only "
            "if the job's input has this channel with InputMode Pipe",
            reason.message());
    }
    struct stat info {};
    if (::fstat(fifo.value(), &info) != 0 || !S_ISFIFO(info.st_mode)) {
        return failure(ErrorCode::invalid_argument, "opening '{}': it is not a FIFO; use files() for a regular file",
                       path);
    }
    // The lock belongs to the opened FIFO, so the system frees the lock when this process ends, also after a crash.
    if (::flock(fifo.value(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return system_failure(ErrorCode::invalid_argument, fmt::format("opening the FIFO '{}': flock", path));
        }
        return failure(
            ErrorCode::invalid_argument,
            "opening the FIFO '{}': another reader has it open; each byte of a FIFO reaches only one reader, so "
            "only one process of a host may read a channel; let the other ranks of the host use other channels, "
            "or use File or FastFile mode",
            path);
    }
    return std::unique_ptr<ByteStream>(std::make_unique<FifoStream>(std::move(fifo), path, stop));
}

std::unique_ptr<ByteStream> open_memory(std::shared_ptr<const std::string> bytes) {
    return std::make_unique<MemoryStream>(std::move(bytes));
}

}  // namespace rueda::data
