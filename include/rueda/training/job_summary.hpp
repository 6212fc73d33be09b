// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// A summary at the end of a job: how long it took, how many samples each second, where the ranks waited, and which
/// checkpoint was saved last.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rueda/training/checkpoint_manager.hpp"

namespace rueda::training {

/// The numbers of one rank in a JobReport.
struct RankReport {
    std::string host;
    double seconds = 0;  ///< since the JobSummary was made
    std::int64_t steps = 0;
    std::int64_t samples = 0;
    double in_communication = 0;  ///< seconds in which threads of the program were blocked in operations of Rueda
    double waiting_for_data = 0;  ///< seconds
};

/// The last complete checkpoint of a job.
struct LastCheckpoint {
    std::int64_t step = 0;
    double age = 0;  ///< seconds from the completion of this checkpoint until the end of the job
    std::filesystem::path folder;
};

/// The numbers of a job.
struct JobReport {
    std::vector<RankReport> ranks;  ///< one element for each rank, in the order of the ranks
    /// Whether JobSummaryOptions::checkpoints was given.
    bool has_checkpoints = false;
    std::optional<LastCheckpoint> checkpoint = {};  ///< known on rank 0 only
    std::string checkpoint_failure = {};  ///< why the last save failed, or why the checkpoints cannot be listed

    /// The time of the rank that took longest.
    [[nodiscard]] RUEDA_API double seconds() const;
    /// The steps of the rank that made the most steps.
    [[nodiscard]] RUEDA_API std::int64_t steps() const;
    /// The samples of all ranks together.
    [[nodiscard]] RUEDA_API std::int64_t samples() const;
    [[nodiscard]] RUEDA_API double samples_per_second() const;
    /// The rank for which the other ranks waited, if there is one. Two conditions must be true. On average, the other
    /// ranks were in communication during at least a tenth of the time. The rank itself was in communication for at
    /// most a quarter of this average. `rueda top` has the same rule for stragglers. A job of less than 1 s has no such
    /// rank.
    [[nodiscard]] RUEDA_API std::optional<int> awaited_rank() const;
    /// A few lines for people, without a newline at the end.
    [[nodiscard]] RUEDA_API std::string text() const;
    /// The same numbers as a JSON object. docs/training.md explains the members.
    [[nodiscard]] RUEDA_API std::string json() const;
};

struct JobSummaryOptions {
    CheckpointManager* checkpoints = nullptr;  ///< finish() waits until this manager's last checkpoint is complete
    std::filesystem::path json = {};           ///< the file for JobReport::json(); empty for no file
    /// Called on rank 0 with JobReport::text(). By default, the text goes to standard output.
    std::function<void(std::string_view)> print = nullptr;
};

/// Counts steps and samples, and prints a summary of the job at the end. Make the object after init(), on all ranks.
/// Threads: one thread at a time may use an object.
class RUEDA_API JobSummary {
public:
    /// Begins to measure the time. Throws NotInitialized before init().
    JobSummary();

    /// Counts a step of this rank with this number of samples. Does not communicate.
    void step(std::int64_t samples);
    /// Adds a time in which this rank waited for data, for example data::Statistics::consumer_waited of a pipeline.
    void waited_for_data(double seconds);
    /// Calls `function`, and counts its time as waiting for data.
    template <class Function>
    decltype(auto) waiting_for_data(Function&& function) {
        const Clock::time_point began = Clock::now();
        struct Count {
            JobSummary& summary;
            Clock::time_point began;
            ~Count() { summary.waited_for_data(std::chrono::duration<double>(Clock::now() - began).count()); }
        } const count{*this, began};
        return std::forward<Function>(function)();
    }

    /// Collects the numbers of all ranks. Rank 0 prints them, and writes the file for JSON. If the file cannot be
    /// written, rank 0 logs a warning. Call it before shutdown(), on all ranks. Returns the report. Throws Aborted if
    /// the job was aborted.
    JobReport finish(const JobSummaryOptions& options = {});

private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point began_;
    double blocked_before_ = 0;
    RankReport mine_;
};

}  // namespace rueda::training
