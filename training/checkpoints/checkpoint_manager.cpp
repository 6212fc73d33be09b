// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/checkpoint_manager.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "rueda/training/agreement.hpp"
#include "training/checkpoints/background_work.hpp"
#include "training/checkpoints/checkpoint_index.hpp"
#include "training/checkpoints/checkpoint_restore.hpp"
#include "training/checkpoints/checkpoint_store.hpp"
#include "training/checkpoints/metadata_text.hpp"
#include "training/checkpoints/store_claim.hpp"
#include "training/checkpoints/tensor_copies.hpp"
#include "training/log_warning.hpp"

namespace rueda::training {
namespace {

using Clock = std::chrono::steady_clock;

/// The key under which rank 0 sends the name of the new checkpoint's folder. This name is ASCII. The whole path is not
/// sent, because it may not be UTF-8, and metadata must be UTF-8.
constexpr const char* kNewFolderKey = "rueda.folder";
/// How often rank 0 looks for the parts of other ranks. Writing a part takes at least some milliseconds.
constexpr std::chrono::milliseconds kPollInterval{5};

void check_options(const CheckpointManagerOptions& options) {
    if (options.folder.empty()) {
        throw InvalidArgument("checkpoint manager: folder is empty; name the folder for the job's checkpoints");
    }
    if (options.every_steps < 0 || options.every.count() < 0 || options.part_timeout.count() < 0) {
        throw InvalidArgument(fmt::format(
            "checkpoint manager: every_steps is {}, every is {} s and part_timeout is {} s; none may be negative",
            options.every_steps, options.every.count(), options.part_timeout.count()));
    }
    if (options.max_to_keep < 1) {
        throw InvalidArgument(
            fmt::format("checkpoint manager: max_to_keep is {}; it must be at least 1. With 2 or more, "
                        "there is an earlier checkpoint if the newest is damaged",
                        options.max_to_keep));
    }
}

void check_snapshot(const Snapshot& snapshot) {
    if (snapshot.step < 0) {
        throw InvalidArgument(fmt::format("checkpoint: step is {}; it must be 0 or more", snapshot.step));
    }
    if (snapshot.metric && !std::isfinite(*snapshot.metric)) {
        throw InvalidArgument(
            fmt::format("checkpoint of step {}: the metric is {}; it must be finite. Leave it out if there is no value",
                        snapshot.step, *snapshot.metric));
    }
    for (const auto& [key, value] : snapshot.values) {
        if (key.starts_with(kReservedPrefix)) {
            throw InvalidArgument(fmt::format(
                "checkpoint of step {}: the values have '{}'; keys that begin with '{}' are reserved: rename it",
                snapshot.step, key, kReservedPrefix));
        }
    }
}

void check_rows_of(std::span<const TensorPart> parts) {
    for (const TensorPart& part : parts) {
        const std::int64_t rows = rows_of(part.tensor.shape());
        if (part.rows.begin < 0 || part.rows.size() != rows || part.rows.end > part.whole_rows) {
            throw InvalidArgument(fmt::format(
                "checkpoint: tensor '{}' has {} rows on this rank, and they are called rows {} to {} of {}; the range "
                "must have as many rows as the tensor, and lie inside the whole tensor",
                part.name, rows, part.rows.begin, part.rows.end, part.whole_rows));
        }
    }
}

/// Whether a rank can take part in a checkpoint that is saved in parts. Before the checkpoint, the ranks exchange their
/// values. The largest value decides for all ranks.
enum class Readiness : std::int32_t { ready, busy, refused };

/// A snapshot with copied tensors.
struct SaveJob {
    CheckpointFacts facts;
    std::filesystem::path folder;  ///< the checkpoint's folder, if the ranks write parts
    std::vector<NamedTensor> model;
    std::vector<NamedTensor> state;
    std::vector<TensorPart> parts;
    Status copied;  ///< why the tensors could not be copied
};

}  // namespace

std::vector<TensorPart> split_rows(std::span<const NamedTensor> tensors, int rank, int size) {
    std::vector<TensorPart> parts;
    for (const NamedTensor& each : tensors) {
        const Shape& shape = each.tensor.shape();
        const std::int64_t whole_rows = rows_of(shape);
        const Range rows = shard(whole_rows, rank, size);
        if (rows.size() == 0 && !(whole_rows == 0 && rank == 0)) {
            continue;
        }
        std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
        const std::int64_t elements = whole_rows == 0 ? 0 : shape.elements() / whole_rows;
        if (!extents.empty()) {
            extents[0] = rows.size();
        }
        auto* const first = static_cast<std::byte*>(each.tensor.data()) +
                            static_cast<std::size_t>(rows.begin * elements) * size_of(each.tensor.dtype());
        parts.push_back(
            {each.name, {first, each.tensor.dtype(), std::span<const std::int64_t>(extents)}, rows, whole_rows});
    }
    return parts;
}

class CheckpointManager::Implementation {
public:
    explicit Implementation(const CheckpointManagerOptions& options)
        : options_(options),
          rank_(rank()),
          size_(size()),
          warn_(options.warn ? options.warn : warnings_to_the_log(rank_)) {
        check_options(options);
        run_on_root([&] { create_store(options_.folder).throw_if_failed(); });
    }
    Implementation(const Implementation&) = delete;
    Implementation& operator=(const Implementation&) = delete;
    ~Implementation() {
        if (std::uncaught_exceptions() > exceptions_) {
            // relaxed order suffices, because wait_for_parts() reads only this flag and no data that depend on it
            stop_.store(true, std::memory_order_relaxed);
        }
        work_.wait();
    }

    /// Throws if the job has changed since the manager was made. In another generation of an elastic job, a process may
    /// have another rank. Without this check, it could happen that no manager acts as rank 0 and saves checkpoints.
    void check_ranks() const {
        if (rank() != rank_ || size() != size_) {
            throw InvalidArgument(fmt::format(
                "checkpoints: the manager of {} was made by rank {} of {}, and this is rank {} of {} now; make a new "
                "CheckpointManager after each init()",
                options_.folder.string(), rank_, size_, rank(), size()));
        }
    }

    void claim() {
        run_on_root([this] { claim_here().throw_if_failed(); });
    }

    bool save(const Snapshot& snapshot) {
        check_ranks();
        check_snapshot(snapshot);
        if (rank_ != 0) {
            return false;
        }
        claim_here().throw_if_failed();
        if (is_busy()) {
            warn_about_skipping(snapshot.step);
            return false;
        }
        SaveJob job = copy_of(snapshot, {});
        return start(std::move(job), [this](SaveJob& each) { return write_whole(each); });
    }

    bool save_parts(std::span<const TensorPart> parts, const Snapshot& snapshot) {
        // A rank must not throw before the other ranks know about its failure, because they would wait for this rank.
        const Status checked = status_of([&] {
            check_ranks();
            check_snapshot(snapshot);
            check_rows_of(parts);
            if (rank_ == 0) {
                claim_here().throw_if_failed();
            }
        });
        switch (readiness_of_all(checked)) {
            case Readiness::refused:
                run_on_every_rank([&] { checked.throw_if_failed(); });
                return false;
            case Readiness::busy:
                if (rank_ == 0) {
                    warn_about_skipping(snapshot.step);
                }
                return false;
            case Readiness::ready:
                break;
        }
        // Sets last_due_ even if the folder cannot be created. Otherwise, the manager would try again in each following
        // step.
        last_due_ = Clock::now();
        const Metadata place = broadcast_metadata(rank_ == 0 ? begin_parts(snapshot.step) : Metadata(), 0);
        if (place.empty()) {
            return false;
        }
        Snapshot mine = snapshot;
        mine.model = {};
        if (rank_ != 0) {
            mine.state = {};
        }
        SaveJob job = copy_of(mine, parts);
        job.folder = options_.folder / place.at(kNewFolderKey);
        const std::filesystem::path folder = job.folder;
        if (!start(std::move(job), [this](SaveJob& each) { return write_parts(each); })) {
            give_up_part(folder, rank_, size_);
        }
        return true;  // all ranks return true; a rank that could not write its part has printed a warning
    }

    [[nodiscard]] bool is_due(std::int64_t step) const {
        const bool by_steps = options_.every_steps > 0 && step > 0 && step % options_.every_steps == 0;
        const bool by_time = options_.every.count() > 0 && Clock::now() - last_due_ >= options_.every;
        return by_steps || by_time;
    }

    /// Returns rank 0's decision on all ranks.
    [[nodiscard]] bool is_due_everywhere(std::int64_t step) const {
        std::array<std::int32_t, 1> due = {is_due(step) ? 1 : 0};
        if (options_.every.count() > 0) {
            broadcast("rueda.training.checkpoint.due", TensorView(due), 0);
        }
        return due[0] != 0;
    }

    void wait() { work_.wait(); }
    [[nodiscard]] std::string last_failure() {
        work_.wait();
        return outcome_.message();
    }

    [[nodiscard]] std::vector<CheckpointInfo> checkpoints() const {
        Result<StoreListing> listing = list_store(options_.folder);
        listing.status().throw_if_failed();
        return std::move(listing.value().complete);
    }

    [[nodiscard]] RestoreRequest restore_request(WhichCheckpoint which) const {
        return {options_.folder, which, options_.better, [this](std::string_view text) { warn(text); }};
    }

private:
    /// Claims the folder for this process, unless it did so before.
    Status claim_here() {
        if (!claim_ || !claim_->holds_lock()) {
            Result<StoreClaim> taken = StoreClaim::take(options_.folder);
            RUEDA_RETURN_IF_FAILED(taken.status());
            claim_.emplace(std::move(taken).value());
        }
        return {};
    }

    /// The manager's thread and the program's thread may have warnings at the same time.
    void warn(std::string_view text) const {
        const std::lock_guard lock(warn_mutex_);  // the end of the other thread's call wakes this thread
        warn_(text);
    }

    /// Returns the same result on all ranks.
    [[nodiscard]] Readiness readiness_of_all(const Status& checked) {
        const Readiness mine = !checked.is_ok() ? Readiness::refused : is_busy() ? Readiness::busy : Readiness::ready;
        std::array<std::int32_t, 1> most = {static_cast<std::int32_t>(mine)};
        allreduce("rueda.training.checkpoint.busy", TensorView(most), {.op = ReduceOp::max});
        return static_cast<Readiness>(most[0]);
    }

    [[nodiscard]] bool is_busy() {
        if (options_.when_busy == WhenBusy::wait) {
            work_.wait();
        }
        return work_.is_busy();
    }

    void warn_about_skipping(std::int64_t step) {
        last_due_ = Clock::now();
        const double seconds = std::chrono::duration<double>(Clock::now() - last_save_).count();
        warn(
            fmt::format("The checkpoint of step {} is skipped, because the one before it has been written for {:.1f} s "
                        "and is not complete. Save less often, or set when_busy to wait",
                        step, seconds));
    }

    [[nodiscard]] SaveJob copy_of(const Snapshot& snapshot, std::span<const TensorPart> parts) {
        last_save_ = Clock::now();
        last_due_ = last_save_;
        // The previous save is over, so wait() only joins its thread. After wait(), the copies may be overwritten.
        work_.wait();
        SaveJob job;
        job.facts = {snapshot.step, size_, snapshot.metric, snapshot.values};
        job.copied = status_of([&] {
            copies_.make_room(snapshot.model, snapshot.state, parts);
            job.model = copies_.copy_tensors(snapshot.model);
            job.state = copies_.copy_tensors(snapshot.state);
            job.parts = copies_.copy_parts(parts);
        });
        return job;
    }

    template <class Write>
    bool start(SaveJob job, Write write) {
        const std::int64_t step = job.facts.step;
        const auto work = [this, job = std::make_shared<SaveJob>(std::move(job)), write] {
            outcome_ = Status();
            // An exception that ended this thread would end the whole job.
            const Status unexpected = status_of([&] { outcome_ = write(*job); });
            outcome_ = unexpected.is_ok() ? outcome_ : unexpected;
            if (!outcome_.is_ok()) {
                (void)status_of([&] { warn_about_failure(job->facts.step); });
            }
        };
        try {
            work_.start(work);
            return true;
        } catch (const std::system_error& error) {
            outcome_ = failure(ErrorCode::resource_exhausted, "starting a thread failed: {}", error.what());
            warn_about_failure(step);
            return false;
        }
    }

    void warn_about_failure(std::int64_t step) const {
        const Result<StoreListing> listing = list_store(options_.folder);
        std::string newest = "there is no complete checkpoint yet";
        if (!listing.is_ok()) {
            newest = "the earlier checkpoints cannot be read at the moment";
        } else if (!listing.value().complete.empty()) {
            newest = fmt::format("the newest complete checkpoint is the one of step {}",
                                 listing.value().complete.front().step);
        }
        const char* const going_on = outcome_.code() == ErrorCode::aborted ? "" : ". Training continues";
        warn(fmt::format("The checkpoint of step {} was not saved: {}{}; {}", step, outcome_.message(), going_on,
                         newest));
    }

    [[nodiscard]] Status write_whole(SaveJob& job) const {
        RUEDA_RETURN_IF_FAILED(job.copied);
        const Result<std::filesystem::path> folder = begin_checkpoint(options_.folder, job.facts.step);
        RUEDA_RETURN_IF_FAILED(folder.status());
        Status status = write_model(folder.value(), job.model, job.facts.step);
        if (status.is_ok()) {
            status = complete_checkpoint(folder.value(), job.facts, job.state, 0);
        }
        return finish(folder.value(), status);
    }

    /// If `status` is a failure, removes the checkpoint. Otherwise removes old checkpoints.
    [[nodiscard]] Status finish(const std::filesystem::path& folder, const Status& status) const {
        if (!status.is_ok()) {
            remove_checkpoint(folder);
            return status;
        }
        if (const Status pruned = prune_store(options_.folder, options_.max_to_keep, options_.better);
            !pruned.is_ok()) {
            warn(fmt::format("Old checkpoints were not removed: {}", pruned.message()));
        }
        return {};
    }

    [[nodiscard]] Metadata begin_parts(std::int64_t step) {
        const Result<std::filesystem::path> folder = begin_checkpoint(options_.folder, step);
        if (folder.is_ok()) {
            return {{kNewFolderKey, folder.value().filename().string()}};
        }
        // The previous save is over, so wait() only joins its thread. After wait(), that thread cannot write outcome_
        // any more.
        work_.wait();
        outcome_ = folder.status();
        warn_about_failure(step);
        return {};
    }

    [[nodiscard]] Status write_parts(SaveJob& job) const {
        Status status = job.copied;
        if (status.is_ok()) {
            status = write_part(job.folder, job.parts, job.facts.step, rank_, size_);
        }
        if (rank_ != 0) {
            if (!status.is_ok()) {
                give_up_part(job.folder, rank_, size_);
            }
            return status;
        }
        if (status.is_ok()) {
            status = wait_for_parts(job.folder);
        }
        if (status.is_ok()) {
            status = complete_checkpoint(job.folder, job.facts, job.state, size_);
        }
        return finish(job.folder, status);
    }

    /// Polls until the files of all ranks are there. The other ranks may be on other hosts, so they cannot wake this
    /// thread.
    [[nodiscard]] Status wait_for_parts(const std::filesystem::path& folder) const {
        const auto deadline = Clock::now() + options_.part_timeout;
        for (int rank = 0;;) {
            const Result<int> missing = missing_part(folder, rank, size_);
            RUEDA_RETURN_IF_FAILED(missing.status());
            rank = missing.value();
            if (rank == size_) {
                return {};
            }
            if (stop_.load(std::memory_order_relaxed)) {  // partner: the destructor
                return failure(ErrorCode::aborted, "the job ends, and the part of rank {} is missing", rank);
            }
            if (Clock::now() >= deadline) {
                return failure(ErrorCode::timeout,
                               "{}: rank {} did not write this file within {} s; check that all ranks share the "
                               "folder, or raise part_timeout",
                               (folder / model_files(size_)[static_cast<std::size_t>(rank)]).string(), rank,
                               options_.part_timeout.count());
            }
            std::this_thread::sleep_for(kPollInterval);
        }
    }

    CheckpointManagerOptions options_;
    int rank_;
    int size_;
    mutable std::mutex warn_mutex_;
    const std::function<void(std::string_view)> warn_;  ///< is called by warn() only
    const int exceptions_ = std::uncaught_exceptions();
    Clock::time_point last_save_ = Clock::now();
    Clock::time_point last_due_ = last_save_;  ///< when a save was last tried or skipped
    std::optional<StoreClaim> claim_;          ///< rank 0 has this claim from the first save on
    TensorCopies copies_;                      ///< the thread reads the copies while it works
    Status outcome_;                           ///< the thread writes the outcome while it works
    std::atomic<bool> stop_{false};
    BackgroundWork work_;  ///< this member is destroyed first, because its thread uses the members above
};

CheckpointManager::CheckpointManager(const CheckpointManagerOptions& options)
    : implementation_(std::make_unique<Implementation>(options)) {}
CheckpointManager::~CheckpointManager() = default;

bool CheckpointManager::is_due(std::int64_t step) const { return implementation_->is_due(step); }
bool CheckpointManager::save(const Snapshot& snapshot) { return implementation_->save(snapshot); }

bool CheckpointManager::save_when_due(const Snapshot& snapshot) {
    return implementation_->is_due(snapshot.step) && implementation_->save(snapshot);
}

bool CheckpointManager::save_parts(std::span<const TensorPart> parts, const Snapshot& snapshot) {
    return implementation_->save_parts(parts, snapshot);
}

bool CheckpointManager::save_parts_when_due(std::span<const TensorPart> parts, const Snapshot& snapshot) {
    return implementation_->is_due_everywhere(snapshot.step) && implementation_->save_parts(parts, snapshot);
}

void CheckpointManager::claim() { implementation_->claim(); }
void CheckpointManager::wait() { implementation_->wait(); }
std::string CheckpointManager::last_failure() { return implementation_->last_failure(); }
std::vector<CheckpointInfo> CheckpointManager::checkpoints() const { return implementation_->checkpoints(); }

std::optional<CheckpointInfo> CheckpointManager::restore(std::span<const NamedTensor> model,
                                                         std::span<const NamedTensor> state, WhichCheckpoint which) {
    wait();
    return restore_whole(implementation_->restore_request(which), model, state);
}

std::optional<CheckpointInfo> CheckpointManager::restore_parts(std::span<const TensorPart> parts,
                                                               std::span<const NamedTensor> state,
                                                               WhichCheckpoint which) {
    run_on_every_rank([&] { check_rows_of(parts); });
    wait();
    return restore_in_parts(implementation_->restore_request(which), parts, state);
}

}  // namespace rueda::training
