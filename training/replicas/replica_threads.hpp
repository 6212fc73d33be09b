// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rueda::training {

/// Threads that call one function at the same time, each with its own number. Between the calls they sleep. Threads:
/// one thread at a time may call run().
class ReplicaThreads {
public:
    /// Starts count − 1 threads. Throws ResourceExhausted if the system refuses a thread.
    explicit ReplicaThreads(int count);
    ReplicaThreads(const ReplicaThreads&) = delete;
    ReplicaThreads& operator=(const ReplicaThreads&) = delete;
    ~ReplicaThreads();

    /// Calls job(0) on this thread and job(1), … job(count − 1) on the other threads. Returns when all calls have
    /// ended. All calls see what any thread wrote before, and the caller sees what the calls wrote. `job` must not
    /// throw on the other threads. If job(0) throws, the exception leaves this function when the other calls have
    /// ended.
    void run(const std::function<void(int)>& job);

private:
    /// The destructor of this class waits until all threads have ended their calls of this round (one call of run()).
    class EndOfRound {
    public:
        explicit EndOfRound(ReplicaThreads& threads) noexcept : threads_(threads) {}
        EndOfRound(const EndOfRound&) = delete;
        EndOfRound& operator=(const EndOfRound&) = delete;
        ~EndOfRound();

    private:
        ReplicaThreads& threads_;
    };

    void serve(int number);
    void end();

    std::mutex mutex_;               // protects the members up to stopping_
    std::condition_variable begun_;  // the threads wait on this condition; run() and end() notify it
    // EndOfRound waits on this condition; the last thread that ends its call notifies it
    std::condition_variable ended_;
    const std::function<void(int)>* job_ = nullptr;
    std::uint64_t round_ = 0;  ///< the number of calls of run() so far
    int working_ = 0;          ///< the number of threads that have not ended their call of this round
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace rueda::training
