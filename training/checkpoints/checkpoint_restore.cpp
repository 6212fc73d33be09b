// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/checkpoints/checkpoint_restore.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rueda/training/agreement.hpp"
#include "training/checkpoints/checkpoint_index.hpp"
#include "training/checkpoints/checkpoint_store.hpp"
#include "training/checkpoints/metadata_text.hpp"

namespace rueda::training {
namespace {

/// The key under which rank 0 sends the name of the checkpoint's folder. This name is ASCII. The whole path is not
/// sent, because it may not be UTF-8, and metadata must be UTF-8.
constexpr const char* kFolderKey = "rueda.folder";

/// The checkpoints that rank 0 found, in the order in which it tries them. For the checkpoints that it left out, keeps
/// the reasons.
class Candidates {
public:
    explicit Candidates(const RestoreRequest& request) : request_(request) {}

    /// Throws if the store cannot be read. Also throws if the best checkpoint is wanted, but no checkpoint has a
    /// metric.
    void find() {
        Result<StoreListing> listing = list_store(request_.store);
        listing.status().throw_if_failed();
        for (const std::string& damage : listing.value().damaged) {
            leave_out(damage);
        }
        found_ = std::move(listing.value().complete);
        if (request_.which == WhichCheckpoint::best) {
            sort_by_metric();
        }
    }

    /// Remembers that a checkpoint is damaged, and warns.
    void leave_out(const std::string& damage) {
        damages_.push_back(damage);
        request_.warn(fmt::format("{}. This checkpoint is left out, and the one before it is used", damage));
    }

    [[nodiscard]] const std::vector<CheckpointInfo>& found() const { return found_; }

    /// Throws if there are checkpoints, but all are damaged. Without this error, the training would begin from the
    /// start, and nobody would notice the loss.
    void throw_if_all_are_damaged() const {
        if (!damages_.empty()) {
            throw InvalidArgument(
                fmt::format("no checkpoint in {} can be read; remove the folder to train from the "
                            "beginning: {}",
                            request_.store.string(), fmt::join(damages_, "; ")));
        }
    }

private:
    void sort_by_metric() {
        const bool had_some = !found_.empty();
        std::erase_if(found_, [](const CheckpointInfo& each) { return !each.metric; });
        if (had_some && found_.empty()) {
            throw InvalidArgument(
                fmt::format("checkpoints in {}: none has a metric, so none is the best; give "
                            "Snapshot::metric when you save, or restore the newest",
                            request_.store.string()));
        }
        const bool lower = request_.better == BetterMetric::lower;
        std::stable_sort(found_.begin(), found_.end(), [&](const CheckpointInfo& a, const CheckpointInfo& b) {
            return lower ? *a.metric < *b.metric : *a.metric > *b.metric;
        });
    }

    const RestoreRequest& request_;
    std::vector<CheckpointInfo> found_;
    std::vector<std::string> damages_;
};

/// Throws if descriptors or memory are used up on this rank. Such a failure does not mean that the checkpoint is
/// damaged.
void throw_if_used_up(const Status& status) {
    if (status.code() == ErrorCode::resource_exhausted) {
        status.throw_if_failed();
    }
}

/// Broadcasts the state. The names of its tensors get a prefix, because the model's tensors may have the same names.
void broadcast_state(std::span<const NamedTensor> state) {
    std::vector<NamedTensor> tensors(state.begin(), state.end());
    for (NamedTensor& tensor : tensors) {
        tensor.name = "state." + tensor.name;
    }
    broadcast_parameters(tensors);
}

/// Reads the checkpoint into the tensors. Returns a failure if the checkpoint is damaged. Throws if the checkpoint
/// belongs to another model.
Status read_whole(const std::filesystem::path& folder, std::span<const NamedTensor> model,
                  std::span<const NamedTensor> state) {
    const Result<OpenedCheckpoint> opened = OpenedCheckpoint::open(folder);
    RUEDA_RETURN_IF_FAILED(opened.status());
    const std::vector<TensorPart> parts = as_whole_parts(model);
    opened.value().check_parts(parts).throw_if_failed();
    opened.value().check_nothing_else(model).throw_if_failed();
    opened.value().check_state(state).throw_if_failed();
    RUEDA_RETURN_IF_FAILED(opened.value().read_parts(parts));
    return opened.value().read_state(state);
}

/// Runs `body`, which reads a checkpoint, on every rank. If it throws InvalidArgument on a rank, the checkpoint is
/// damaged. Then rank 0 leaves the checkpoint out, and this function returns false on all ranks.
bool is_readable_everywhere(Candidates& candidates, const std::function<void()>& body) {
    try {
        run_on_every_rank(body);
        return true;
    } catch (const InvalidArgument& error) {
        if (rank() == 0) {
            candidates.leave_out(error.what());
        }
        return false;
    }
}

}  // namespace

std::optional<CheckpointInfo> restore_whole(const RestoreRequest& request, std::span<const NamedTensor> model,
                                            std::span<const NamedTensor> state) {
    Metadata found;
    run_on_root([&] {
        const Busy busy("reading a checkpoint in " + request.store.string());
        Candidates candidates(request);
        candidates.find();
        for (const CheckpointInfo& each : candidates.found()) {
            if (const Status status = read_whole(each.folder, model, state); !status.is_ok()) {
                throw_if_used_up(status);
                candidates.leave_out(status.message());
                continue;
            }
            found = facts_as_metadata({each.step, each.size, each.metric, each.values});
            found[kFolderKey] = each.folder.filename().string();
            return;
        }
        candidates.throw_if_all_are_damaged();
    });
    found = broadcast_metadata(found, 0);
    if (found.empty()) {
        return std::nullopt;
    }
    broadcast_parameters(model);
    broadcast_state(state);
    Result<CheckpointFacts> facts = parse_facts(found);
    facts.status().throw_if_failed();
    return CheckpointInfo{request.store / found.at(kFolderKey), facts.value().step, facts.value().size,
                          facts.value().metric, std::move(facts.value().values)};
}

std::optional<CheckpointInfo> restore_in_parts(const RestoreRequest& request, std::span<const TensorPart> parts,
                                               std::span<const NamedTensor> state) {
    Candidates candidates(request);
    run_on_root([&] { candidates.find(); });
    for (std::size_t i = 0;; ++i) {
        const bool has_one = i < candidates.found().size();
        const Metadata next = broadcast_metadata(
            has_one ? Metadata{{kFolderKey, candidates.found()[i].folder.filename().string()}} : Metadata{}, 0);
        if (next.empty()) {
            run_on_root([&] { candidates.throw_if_all_are_damaged(); });
            return std::nullopt;
        }
        const std::filesystem::path folder = request.store / next.at(kFolderKey);
        std::optional<OpenedCheckpoint> opened;
        const auto open = [&] {
            Result<OpenedCheckpoint> result = OpenedCheckpoint::open(folder);
            result.status().throw_if_failed();
            opened.emplace(std::move(result).value());
        };
        const auto read = [&] {
            const Busy busy("reading the checkpoint " + folder.string());
            opened->read_parts(parts).throw_if_failed();
            opened->read_state(rank() == 0 ? state : std::span<const NamedTensor>()).throw_if_failed();
        };
        if (!is_readable_everywhere(candidates, open)) {
            continue;
        }
        run_on_every_rank([&] {
            opened->check_parts(parts).throw_if_failed();
            opened->check_state(state).throw_if_failed();
        });
        if (is_readable_everywhere(candidates, read)) {
            broadcast_state(state);
            return opened->info();
        }
    }
}

}  // namespace rueda::training
