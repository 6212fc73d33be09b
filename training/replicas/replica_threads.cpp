// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_threads.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <system_error>

#include "base/system/thread_signals.hpp"
#include "rueda/error.hpp"

namespace rueda::training {

ReplicaThreads::ReplicaThreads(int count) {
    const base::ProgramSignalsBlocked blocked;
    threads_.reserve(static_cast<std::size_t>(count - 1));
    try {
        for (int number = 1; number < count; ++number) {
            threads_.emplace_back([this, number] { serve(number); });
            // Tools such as top and gdb show this name. A name that is too long is refused, which does no harm.
            static_cast<void>(
                pthread_setname_np(threads_.back().native_handle(), fmt::format("replica {}", number).c_str()));
        }
    } catch (const std::system_error& error) {
        const std::size_t started = threads_.size();
        end();
        throw ResourceExhausted(
            fmt::format("replicas: starting thread {} of {} failed: {}. Use fewer replicas, or allow this user more "
                        "threads",
                        started + 1, count - 1, error.what()));
    } catch (...) {  // no memory is left
        end();
        throw;
    }
}

ReplicaThreads::~ReplicaThreads() { end(); }

void ReplicaThreads::end() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    begun_.notify_all();
    for (std::thread& each : threads_) {
        each.join();
    }
    threads_.clear();
}

void ReplicaThreads::run(const std::function<void(int)>& job) {
    {
        const std::lock_guard lock(mutex_);
        job_ = &job;
        working_ = static_cast<int>(threads_.size());
        ++round_;
    }
    begun_.notify_all();
    // The other threads use `job`, so run() must not return before their calls have ended, even if job(0) throws.
    const EndOfRound end(*this);
    job(0);
}

ReplicaThreads::EndOfRound::~EndOfRound() {
    std::unique_lock lock(threads_.mutex_);
    threads_.ended_.wait(lock, [this] { return threads_.working_ == 0; });  // serve() wakes this thread
}

void ReplicaThreads::serve(int number) {
    std::unique_lock lock(mutex_);
    for (std::uint64_t served = 0;; ++served) {
        begun_.wait(lock, [&] { return stopping_ || round_ > served; });  // run() or end() wakes this thread
        if (stopping_) {
            return;
        }
        const std::function<void(int)>& job = *job_;
        lock.unlock();
        job(number);
        lock.lock();
        if (--working_ == 0) {
            ended_.notify_one();
        }
    }
}

}  // namespace rueda::training
