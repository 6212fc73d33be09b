// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/files/file_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
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

Status replace_file(const std::filesystem::path& folder, const std::string& suffix, const WholeFile& file) {
    std::error_code error;
    // A failure to make the folder is ignored here: the file then cannot be opened, and the error of opening it gives
    // the reason.
    std::filesystem::create_directories(folder, error);
    const std::string text = file.text();
    Result<base::AtomicFile> replaced = base::AtomicFile::create(folder / file.name, suffix);
    RUEDA_RETURN_IF_FAILED(replaced.status());
    RUEDA_RETURN_IF_FAILED(replaced.value().write(std::as_bytes(std::span(text))));
    return replaced.value().commit();
}

}  // namespace

/// The data that the callers of a FileWriter share with its writing thread. `mutex` protects all fields, and is never
/// held while a file is written.
struct FileWriter::Shared {
    std::mutex mutex;
    std::condition_variable has_work;  // wakes the writing thread; notified by write() and stop()
    std::condition_variable is_done;   // wakes write() and stop(); notified by the writing thread
    std::deque<WholeFile> files;       // the files that wait to be written
    bool is_writing = false;
    // True if an earlier write() reached its time limit while the current file was being written. Later calls of
    // write() then do not wait for this file.
    bool is_late = false;
    bool is_stopping = false;
    bool has_ended = false;
    std::string complaint;  // a text about the first failure
    bool has_complained = false;

    void add(WholeFile file) {
        const auto waiting = std::find_if(files.begin(), files.end(),
                                          [&file](const WholeFile& other) { return other.name == file.name; });
        if (waiting != files.end()) {
            waiting->text = std::move(file.text);
        } else {
            files.push_back(std::move(file));
        }
    }

    /// Waits for kPatience at most. Uses the system's clock, because ThreadSanitizer of clang 14 does not support a
    /// wait by the monotonic clock.
    template <class Done>
    bool await(std::unique_lock<std::mutex>& lock, Done&& done) {
        return is_done.wait_until(lock, std::chrono::system_clock::now() + kPatience, std::forward<Done>(done));
    }

    void run(const std::string& folder, const std::string& suffix) {
        std::unique_lock lock(mutex);
        for (;;) {
            has_work.wait(lock, [this] { return is_stopping || !files.empty(); });
            if (files.empty()) {
                break;
            }
            const WholeFile file = std::move(files.front());
            files.pop_front();
            is_writing = true;
            lock.unlock();
            std::string failure;
            try {
                const Status written = replace_file(folder, suffix, file);
                failure = written.is_ok() ? "" : "a file could not be written: " + written.message();
            } catch (const std::exception&) {
                failure.clear();  // out of memory; the memory may suffice for the next file
            }
            lock.lock();
            is_writing = false;
            is_late = false;
            if (complaint.empty()) {
                complaint = std::move(failure);
            }
            is_done.notify_all();
        }
        has_ended = true;
        is_done.notify_all();
    }
};

FileWriter::FileWriter(std::string folder, std::int32_t rank)
    : folder_(std::move(folder)),
      suffix_(fmt::format(".rank{}.partial", rank)),
      shared_(is_wanted() ? std::make_shared<Shared>() : nullptr) {}

std::optional<std::string> FileWriter::write(std::vector<WholeFile> files) {
    std::unique_lock lock(shared_->mutex);
    start();
    if (thread_.joinable()) {
        for (WholeFile& file : files) {
            shared_->add(std::move(file));
        }
        shared_->has_work.notify_one();
        const bool is_written = !shared_->is_late &&
                                shared_->await(lock, [this] { return shared_->files.empty() && !shared_->is_writing; });
        shared_->is_late = !is_written;
        if (!is_written && shared_->complaint.empty()) {
            shared_->complaint = "the files are written late or never: " + folder_ + " does not answer";
        }
    }
    if (shared_->complaint.empty() || std::exchange(shared_->has_complained, true)) {
        return std::nullopt;
    }
    return shared_->complaint;
}

/// Starts the thread, if there is none. If the system refuses the thread, the next call of write() tries again.
void FileWriter::start() {
    if (thread_.joinable() || shared_->is_stopping) {
        return;
    }
    const base::ProgramSignalsBlocked blocked;
    try {
        thread_ = std::thread([shared = shared_, folder = folder_, suffix = suffix_] { shared->run(folder, suffix); });
    } catch (const std::exception& error) {
        shared_->complaint = std::string("no thread could be started that writes files: ") + error.what();
    }
}

void FileWriter::stop() {
    if (shared_ == nullptr) {
        return;
    }
    std::thread thread;
    bool has_ended = false;
    {
        std::unique_lock lock(shared_->mutex);
        thread = std::exchange(thread_, {});
        shared_->is_stopping = true;
        shared_->has_work.notify_one();
        has_ended = !thread.joinable() || shared_->await(lock, [this] { return shared_->has_ended; });
    }
    if (!thread.joinable()) {
        return;
    }
    if (has_ended) {
        thread.join();
    } else {
        thread.detach();
    }
}

}  // namespace rueda::core
