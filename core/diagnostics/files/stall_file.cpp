// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/files/stall_file.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

#include "base/system/atomic_file.hpp"
#include "base/system/thread_signals.hpp"

namespace rueda::core {
namespace {

Status replace_file(const std::string& folder, const std::string& name, const std::string& text) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);  // if it fails, opening the file says why
    Result<base::AtomicFile> file = base::AtomicFile::create(std::filesystem::path(folder) / name);
    RUEDA_RETURN_IF_FAILED(file.status());
    RUEDA_RETURN_IF_FAILED(file.value().write(std::as_bytes(std::span(text))));
    return file.value().commit();
}

}  // namespace

/// What the two threads share. The mutex protects all members but `folder`, and is never held while a file is written.
struct StallFile::Shared {
    std::string folder;
    std::mutex mutex;
    std::condition_variable has_work;  // wakes the writing thread; rung by add() and stop()
    std::condition_variable is_done;   // wakes add() and stop(); rung by the writing thread
    std::string name;
    std::string text;  // to be written next; "" if there is nothing
    bool is_writing = false;
    bool is_stopping = false;
    bool has_ended = false;
    std::string complaint;  // the first failure
    bool has_complained = false;

    /// Waits for kPatience at most. With the system's clock, because ThreadSanitizer of clang 14 does not know the wait
    /// with the monotonic clock.
    template <class Done>
    void await(std::unique_lock<std::mutex>& lock, Done&& done) {
        is_done.wait_until(lock, std::chrono::system_clock::now() + kPatience, std::forward<Done>(done));
    }
};

StallFile::StallFile(std::string folder) : folder_(std::move(folder)) {}

std::optional<std::string> StallFile::add(const StallWriter& writer, StallEntry entry) {
    entries_.push_back(std::move(entry));
    if (entries_.size() > kMostEntries) {
        entries_.pop_front();
    }
    std::string text = to_json(writer, entries_);
    if (!start()) {
        return std::nullopt;
    }
    std::unique_lock lock(shared_->mutex);
    shared_->name = fmt::format("stall.rank.{}.json", writer.rank);
    shared_->text = std::move(text);
    shared_->has_work.notify_one();
    shared_->await(lock, [this] { return shared_->text.empty() && !shared_->is_writing; });
    if (shared_->complaint.empty() || std::exchange(shared_->has_complained, true)) {
        return std::nullopt;
    }
    return shared_->complaint;
}

/// Starts the thread with the first report. Returns whether there is a thread: the system may refuse it, and then the
/// next report tries again.
bool StallFile::start() {
    if (thread_.joinable()) {
        return true;
    }
    if (shared_ == nullptr) {
        shared_ = std::make_shared<Shared>();
        shared_->folder = folder_;
    }
    // The thread handles no signals: they belong to the program's threads.
    const sigset_t blocked = base::signals_of_the_program();
    sigset_t saved;
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    try {
        thread_ = std::thread([shared = shared_] { run(*shared); });
    } catch (const std::system_error&) {
        thread_ = std::thread();
    }
    pthread_sigmask(SIG_SETMASK, &saved, nullptr);
    return thread_.joinable();
}

void StallFile::run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    for (;;) {
        shared.has_work.wait(lock, [&shared] { return shared.is_stopping || !shared.text.empty(); });
        if (shared.text.empty()) {
            break;
        }
        const std::string text = std::exchange(shared.text, {});
        const std::string name = shared.name;
        shared.is_writing = true;
        lock.unlock();
        Status written;
        try {
            written = replace_file(shared.folder, name, text);
        } catch (const std::exception&) {
            written = {};  // there is no memory; the next report may find some
        }
        lock.lock();
        shared.is_writing = false;
        if (!written.is_ok() && shared.complaint.empty()) {
            shared.complaint = written.message();
        }
        shared.is_done.notify_all();
    }
    shared.has_ended = true;
    shared.is_done.notify_all();
}

void StallFile::stop() {
    if (!thread_.joinable()) {
        return;
    }
    bool has_ended = false;
    {
        std::unique_lock lock(shared_->mutex);
        shared_->is_stopping = true;
        shared_->has_work.notify_one();
        shared_->await(lock, [this] { return shared_->has_ended; });
        has_ended = shared_->has_ended;
    }
    if (has_ended) {
        thread_.join();
    } else {
        thread_.detach();
    }
}

}  // namespace rueda::core
