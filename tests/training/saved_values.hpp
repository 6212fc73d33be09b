// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rueda/training/checkpoint_manager.hpp"
#include "training/checkpoints/checkpoint_store.hpp"

namespace rueda::training::test {

/// A model and a state in which every value depends on the step, so that a mixture of two checkpoints is noticed.
struct SavedValues {
    std::vector<float> weights = std::vector<float>(24);
    std::vector<double> momentum = std::vector<double>(4);

    void set(std::int64_t step) {
        std::fill(weights.begin(), weights.end(), static_cast<float>(step));
        std::fill(momentum.begin(), momentum.end(), static_cast<double>(step));
    }
    [[nodiscard]] std::vector<NamedTensor> model() { return {{"weights", {weights.data(), DType::float32, {8, 3}}}}; }
    [[nodiscard]] std::vector<NamedTensor> state() { return {{"momentum", TensorView(momentum)}}; }
    [[nodiscard]] bool are_of(std::int64_t step) const {
        const auto count = [&](const auto& values) {
            using Value = typename std::decay_t<decltype(values)>::value_type;
            return std::count(values.begin(), values.end(), static_cast<Value>(step));
        };
        return count(weights) == 24 && count(momentum) == 4;
    }
};

/// Saves a checkpoint with the functions that a rank's thread calls. If `parts` is not 0, writes one part for each of
/// `parts` ranks, one after the other.
inline Status save_in_store(const std::filesystem::path& store, std::int64_t step, int parts, int max_to_keep,
                            std::optional<double> metric = {}) {
    SavedValues values;
    values.set(step);
    const Result<std::filesystem::path> folder = begin_checkpoint(store, step);
    RUEDA_RETURN_IF_FAILED(folder.status());
    Status status = parts == 0 ? write_model(folder.value(), values.model(), step) : Status();
    for (int rank = 0; rank < parts && status.is_ok(); ++rank) {
        status = write_part(folder.value(), split_rows(values.model(), rank, parts), step, rank, parts);
    }
    if (status.is_ok()) {
        status = complete_checkpoint(folder.value(), {step, std::max(parts, 1), metric, {}}, values.state(), parts);
    }
    if (!status.is_ok()) {
        remove_checkpoint(folder.value());
        return status;
    }
    return prune_store(store, max_to_keep, BetterMetric::lower);
}

/// Returns the step of the newest checkpoint that can be read, or −1. Returns −2 if the values are not those of its
/// step.
inline std::int64_t newest_readable_step(const std::filesystem::path& store) {
    const Result<StoreListing> listing = list_store(store);
    if (!listing.is_ok()) {
        return -1;
    }
    for (const CheckpointInfo& info : listing.value().complete) {
        SavedValues values;
        const Result<OpenedCheckpoint> opened = OpenedCheckpoint::open(info.folder);
        if (opened.is_ok() && opened.value().read_parts(as_whole_parts(values.model())).is_ok() &&
            opened.value().read_state(values.state()).is_ok()) {
            return values.are_of(info.step) ? info.step : -2;
        }
    }
    return -1;
}

}  // namespace rueda::training::test
