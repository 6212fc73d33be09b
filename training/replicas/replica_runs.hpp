// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/replicas.hpp"
#include "training/replicas/replica_threads.hpp"

namespace rueda::training {

/// Runs the functions of replicas on their threads, and lets all processes learn of failures. A derived class adds up
/// the gradients: ReplicaTeam in the CPU's memory, DeviceReplicaTeam on GPUs.
///
/// Threads: as for Replicas. The threads of the replicas call gradient_ready() and stopped().
class ReplicaRuns {
public:
    using Function = std::function<void(Replica&)>;

    ReplicaRuns(const ReplicaRuns&) = delete;
    ReplicaRuns& operator=(const ReplicaRuns&) = delete;
    virtual ~ReplicaRuns() = default;

    [[nodiscard]] int count() const noexcept { return count_; }
    [[nodiscard]] int first_worker() const noexcept { return position_ * count_; }
    [[nodiscard]] int workers() const noexcept { return processes_ * count_; }
    [[nodiscard]] bool stopped() const noexcept {
        // relaxed: the value only tells a replica to end early. fail() stores the failure before this value, but the
        // failure is read only after the threads have ended their work.
        return stopped_.load(std::memory_order_relaxed);
    }

    void run(const Function& pass);
    void on_each(const Function& work);
    void gradient_ready(int replica, std::size_t parameter);

protected:
    struct Plan {
        int count = 1;                     ///< the replicas
        std::vector<std::string> names{};  ///< of the parameters
        std::int64_t passes_per_step = 1;
        ProcessSet process_set = world();
    };
    explicit ReplicaRuns(Plan plan);

    [[nodiscard]] int processes() const noexcept { return processes_; }
    [[nodiscard]] std::size_t parameters() const noexcept { return plan_.names.size(); }
    [[nodiscard]] ReplicaThreads& threads() noexcept { return threads_; }
    /// Throws InvalidArgument if the calling thread is a thread of a replica. Such a thread must not call a function
    /// that uses the threads of all replicas, because it would then wait for itself.
    void check_idle() const;
    /// Throws InvalidArgument if runs are missing in this step.
    void check_runs() const;
    /// Ends the step, so that the next run begins a new step.
    void end_step() noexcept { runs_ = 0; }

private:
    /// Called at the beginning of a run, while no replica runs. In a run, each replica has each gradient once.
    virtual void begin_run() = 0;
    /// Called on the replica's thread, in the last run of a step, when the replica has this gradient. The call of the
    /// last replica starts the reduction among the processes.
    virtual void arrive(std::size_t parameter, int replica) = 0;
    /// Called on each replica's thread when the replica has all its gradients, in the last run of a step.
    virtual void help(int /*replica*/) {}
    /// Makes help() return on all threads, because some gradients will never arrive.
    virtual void stop_help() {}
    /// Starts the reduction of a parameter's gradient among the processes, even if some replicas do not have the
    /// gradient. Does nothing if the reduction was already started. If this function throws, the next call continues
    /// where the failed call stopped. Called while no replica runs.
    virtual void announce_anyway(std::size_t parameter) = 0;
    /// Drops the gradients of this step after a failure. If the job has one process, or has ended, some reductions may
    /// not have been started.
    virtual void drop_gradients() noexcept = 0;

    /// The work that the replicas do on their threads.
    enum class Work : std::uint8_t {
        none,       ///< nothing
        other,      ///< work without gradients
        early_run,  ///< a run before the last one of a step, whose gradients are only accumulated
        last_run,   ///< the last run of a step, whose gradients are reduced
    };

    void run_all(const Function& function, Work work);
    void run_one(const Function& function, int index);
    void fail(int index, ErrorCode code, std::string_view text) noexcept;
    [[nodiscard]] Status agree(Work work);
    void arrive_or_fail(std::size_t parameter, int replica);
    [[nodiscard]] bool announce_the_rest();

    const Plan plan_;
    const int count_;
    const int position_;   ///< the position of this process in the process set
    const int processes_;  ///< in the process set

    std::int64_t runs_ = 0;  ///< the number of runs of this step so far
    Work work_ = Work::none;
    /// [replica][parameter]: whether the gradient is ready; only the replica's thread uses its vector
    std::vector<std::vector<std::uint8_t>> ready_;

    std::atomic<bool> stopped_{false};  ///< set by fail(), read by stopped(), and reset by run_all() before each run
    std::mutex failing_;
    Status failure_;                  ///< the failure of the replica that failed first
    PreparedFailure without_memory_;  ///< becomes failure_ if no memory is left for the text

    /// The threads use the other members, so they must end first. Therefore `threads_` is the last member, which is
    /// destroyed first. While the members of a derived class are destroyed, the threads sleep: run() and on_each()
    /// return when the threads have ended their work.
    ReplicaThreads threads_;
};

}  // namespace rueda::training
