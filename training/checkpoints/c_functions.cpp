// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/checkpoints.h.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checkpoint_name.hpp"
#include "base/text.hpp"
#include "core/c_interface/guarded.hpp"
#include "rueda/checkpoints.h"
#include "training/checkpoints/checkpoint_index.hpp"
#include "training/checkpoints/checkpoint_store.hpp"
#include "training/checkpoints/store_claim.hpp"

/// The objects to which the pointers of the C interface point.
struct rueda_checkpoint {
    rueda::training::OpenedCheckpoint opened;
};
struct rueda_checkpoint_claim {
    rueda::training::StoreClaim claim;
};

namespace {

using rueda::DType;
using rueda::ErrorCode;
using rueda::failure;
using rueda::Result;
using rueda::Status;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::guarded;
using rueda::training::CheckpointFacts;
using rueda::training::CheckpointInfo;
using rueda::training::Metadata;
using rueda::training::NamedTensor;
using rueda::training::OpenedCheckpoint;
using rueda::training::prune_store;
using rueda::training::status_of;
using rueda::training::StoreListing;
using rueda::training::TensorInfo;
using rueda::training::TensorPart;
using Json = nlohmann::json;

Status check_path(const char* path) {
    return path != nullptr && *path != 0
               ? Status()
               : failure(ErrorCode::invalid_argument, "checkpoints: the folder is empty; expected a path");
}

/// Checks a tensor of the caller, and converts it.
Result<NamedTensor> tensor_of(const char* name, const rueda_tensor& tensor) {
    if (name == nullptr || tensor.ndim < 0 || tensor.ndim > RUEDA_MAX_DIMENSIONS ||
        (tensor.ndim > 0 && tensor.shape == nullptr) || tensor.dtype < 0 ||
        static_cast<std::size_t>(tensor.dtype) >= rueda::kDTypeCount) {
        return failure(ErrorCode::invalid_argument,
                       "checkpoints: tensor {} has {} dimensions and the dtype number {}; expected a name, 0 to {} "
                       "dimensions and a dtype from 0 to {}",
                       name != nullptr ? rueda::base::quote(name) : "NULL", tensor.ndim, tensor.dtype,
                       RUEDA_MAX_DIMENSIONS, rueda::kDTypeCount - 1);
    }
    const rueda::Shape shape(std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
    return NamedTensor{name, rueda::TensorView(tensor.data, static_cast<DType>(tensor.dtype), shape)};
}

Status check_array(const void* given, std::size_t count) {
    return given != nullptr || count == 0
               ? Status()
               : failure(ErrorCode::invalid_argument,
                         "checkpoints: the array of tensors is NULL, but its count is {}; expected an array or 0",
                         count);
}

/// Converts tensors of the caller.
Result<std::vector<NamedTensor>> tensors_of(const rueda_named_tensor* given, std::size_t count) {
    RUEDA_RETURN_IF_FAILED(check_array(given, count));
    std::vector<NamedTensor> tensors;
    for (const rueda_named_tensor& each : std::span(given, count)) {
        Result<NamedTensor> tensor = tensor_of(each.name, each.tensor);
        RUEDA_RETURN_IF_FAILED(tensor.status());
        tensors.push_back(std::move(tensor).value());
    }
    return tensors;
}

/// Converts the caller's parts of tensors, and checks their rows.
Result<std::vector<TensorPart>> parts_of(const rueda_tensor_part* given, std::size_t count) {
    RUEDA_RETURN_IF_FAILED(check_array(given, count));
    std::vector<TensorPart> parts;
    for (const rueda_tensor_part& each : std::span(given, count)) {
        Result<NamedTensor> tensor = tensor_of(each.name, each.tensor);
        RUEDA_RETURN_IF_FAILED(tensor.status());
        const std::int64_t rows = rueda::training::rows_of(tensor.value().tensor.shape());
        if (each.first_row < 0 || each.first_row > each.whole_rows || rows > each.whole_rows - each.first_row) {
            return failure(ErrorCode::invalid_argument,
                           "checkpoint: tensor {} has {} rows on this rank, which begin at row {} of {}; they must lie "
                           "inside the whole tensor",
                           rueda::base::quote(each.name), rows, each.first_row, each.whole_rows);
        }
        parts.push_back({each.name, tensor.value().tensor, {each.first_row, each.first_row + rows}, each.whole_rows});
    }
    return parts;
}

Result<Metadata> values_of(const char* text) {
    if (text == nullptr) {
        return Metadata();
    }
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        return failure(ErrorCode::invalid_argument, "checkpoint: the values are no JSON object of strings");
    }
    Metadata values;
    for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) {
            return failure(ErrorCode::invalid_argument, "checkpoint: the value {} is no text; expected a text",
                           rueda::base::quote(key));
        }
        if (key.starts_with(rueda::training::kReservedPrefix)) {
            return failure(
                ErrorCode::invalid_argument,
                "checkpoint: the value {} has a key that Rueda uses itself; choose a key that does not begin "
                "with \"rueda.\"",
                rueda::base::quote(key));
        }
        values.emplace(key, value.get<std::string>());
    }
    return values;
}

Status check_step(std::int64_t step) {
    return step >= 0 ? Status()
                     : failure(ErrorCode::invalid_argument, "checkpoint: step is {}; it must be 0 or more", step);
}

Status check_snapshot(const rueda_snapshot* snapshot) {
    if (snapshot == nullptr || snapshot->struct_size != sizeof(rueda_snapshot)) {
        return failure(ErrorCode::invalid_argument,
                       "checkpoint: rueda_snapshot::struct_size is {}; expected {}: begin with RUEDA_SNAPSHOT_INIT",
                       snapshot != nullptr ? snapshot->struct_size : 0, sizeof(rueda_snapshot));
    }
    RUEDA_RETURN_IF_FAILED(check_step(snapshot->step));
    if (snapshot->max_to_keep < 1 || snapshot->size < 1) {
        return failure(ErrorCode::invalid_argument,
                       "checkpoint: max_to_keep is {} and size is {}; both must be at least 1", snapshot->max_to_keep,
                       snapshot->size);
    }
    if (snapshot->has_metric != 0 && !std::isfinite(snapshot->metric)) {
        return failure(ErrorCode::invalid_argument, "checkpoint of step {}: the metric is {}; it must be finite",
                       snapshot->step, snapshot->metric);
    }
    return check_path(snapshot->folder);
}

/// Writes all files of the checkpoint. If one of them cannot be written, removes all of them.
Status write_whole(const std::filesystem::path& store, const CheckpointFacts& facts, std::span<const NamedTensor> model,
                   std::span<const NamedTensor> state) {
    const Result<std::filesystem::path> folder = rueda::training::begin_checkpoint(store, facts.step);
    RUEDA_RETURN_IF_FAILED(folder.status());
    Status written = rueda::training::write_model(folder.value(), model, facts.step);
    if (written.is_ok()) {
        written = rueda::training::complete_checkpoint(folder.value(), facts, state, /*parts=*/0);
    }
    if (!written.is_ok()) {
        rueda::training::remove_checkpoint(folder.value());
    }
    return written;
}

/// Copies a text to memory that rueda_checkpoint_free_text() frees.
char* text_for_caller(std::string_view text) {
    auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (copy == nullptr) {
        throw std::bad_alloc();
    }
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = 0;
    return copy;
}

/// Replaces bytes that are not UTF-8, because texts that name paths may contain such bytes.
char* json_for_caller(const Json& json) {
    return text_for_caller(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json facts_as_json(const CheckpointInfo& info) {
    return {{"name", info.folder.filename().string()},
            {"step", info.step},
            {"size", info.size},
            {"metric", info.metric ? Json(*info.metric) : Json()},
            {"values", info.values}};
}

Json tensors_as_json(const std::vector<TensorInfo>& tensors) {
    Json list = Json::array();
    for (const TensorInfo& each : tensors) {
        const auto extents = each.shape.extents();
        list.push_back(
            {each.name, static_cast<int>(each.dtype), std::vector<std::int64_t>(extents.begin(), extents.end())});
    }
    return list;
}

CheckpointFacts facts_of(const rueda_snapshot& snapshot, Metadata values) {
    return {snapshot.step, snapshot.size,
            snapshot.has_metric != 0 ? std::optional<double>(snapshot.metric) : std::nullopt, std::move(values)};
}

/// Removes checkpoints that are too old. If this fails, stores the reason in `pruning_failure`. Throws nothing, even if
/// no memory is left: after an exception, the caller would remove the new checkpoint, which is complete.
void prune_after(const rueda_snapshot& snapshot, char** pruning_failure) {
    const Status pruned = status_of([&] {
        prune_store(snapshot.folder, snapshot.max_to_keep, static_cast<rueda::training::BetterMetric>(snapshot.better))
            .throw_if_failed();
    });
    if (pruning_failure != nullptr && !pruned.is_ok()) {
        (void)status_of([&] { *pruning_failure = text_for_caller(pruned.message()); });
    }
}

Status check_rank(std::int32_t rank, std::int32_t size) {
    return 0 <= rank && rank < size
               ? Status()
               : failure(ErrorCode::invalid_argument,
                         "checkpoint: rank is {} of {}; it must be 0 or more, and less than the number of ranks", rank,
                         size);
}

/// Checks the arguments of the functions for the part of one rank. `path` is the folder of one checkpoint.
Status check_part(const char* path, std::int32_t rank, std::int32_t size) {
    RUEDA_RETURN_IF_FAILED(check_path(path));
    RUEDA_RETURN_IF_FAILED(check_rank(rank, size));
    return rueda::base::parse_checkpoint_name(std::filesystem::path(path).filename().string())
               ? Status()
               : failure(ErrorCode::invalid_argument, "checkpoint: {} is not the path of a checkpoint",
                         rueda::base::quote(path));
}

Status read_into(const OpenedCheckpoint& opened, std::span<const TensorPart> parts,
                 std::span<const NamedTensor> state) {
    RUEDA_RETURN_IF_FAILED(opened.check_parts(parts));
    RUEDA_RETURN_IF_FAILED(opened.read_parts(parts));
    return opened.read_state(state);
}

Status check_opened(const rueda_checkpoint* checkpoint) { return check_place(checkpoint, "checkpoint"); }

}  // namespace

extern "C" {

int rueda_checkpoint_create_folder(const char* folder) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_path(folder));
        return rueda::training::create_store(folder);
    });
}

int rueda_checkpoint_save(const rueda_snapshot* snapshot, char** pruning_failure) {
    if (pruning_failure != nullptr) {
        *pruning_failure = nullptr;
    }
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_snapshot(snapshot));
        Result<Metadata> values = values_of(snapshot->values);
        RUEDA_RETURN_IF_FAILED(values.status());
        const Result<std::vector<NamedTensor>> model = tensors_of(snapshot->model, snapshot->model_count);
        RUEDA_RETURN_IF_FAILED(model.status());
        const Result<std::vector<NamedTensor>> state = tensors_of(snapshot->state, snapshot->state_count);
        RUEDA_RETURN_IF_FAILED(state.status());
        const CheckpointFacts facts = facts_of(*snapshot, std::move(values).value());
        RUEDA_RETURN_IF_FAILED(write_whole(snapshot->folder, facts, model.value(), state.value()));
        prune_after(*snapshot, pruning_failure);
        return {};
    });
}

int rueda_checkpoint_begin(const char* folder, std::int64_t step, char** name) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_path(folder));
        RUEDA_RETURN_IF_FAILED(check_place(name, "name"));
        RUEDA_RETURN_IF_FAILED(check_step(step));
        const Result<std::filesystem::path> begun = rueda::training::begin_checkpoint(folder, step);
        RUEDA_RETURN_IF_FAILED(begun.status());
        *name = text_for_caller(begun.value().filename().string());
        return {};
    });
}

int rueda_checkpoint_write_part(const char* path, std::int64_t step, const rueda_tensor_part* parts, size_t part_count,
                                std::int32_t rank, std::int32_t size) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_part(path, rank, size));
        RUEDA_RETURN_IF_FAILED(check_step(step));
        const Result<std::vector<TensorPart>> converted = parts_of(parts, part_count);
        RUEDA_RETURN_IF_FAILED(converted.status());
        return rueda::training::write_part(path, converted.value(), step, rank, size);
    });
}

int rueda_checkpoint_missing_part(const char* path, std::int32_t* rank, std::int32_t size) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(rank, "rank"));
        RUEDA_RETURN_IF_FAILED(check_part(path, *rank, size));
        const Result<int> missing = rueda::training::missing_part(path, *rank, size);
        RUEDA_RETURN_IF_FAILED(missing.status());
        *rank = missing.value();
        return {};
    });
}

int rueda_checkpoint_complete(const rueda_snapshot* snapshot, const char* name, char** pruning_failure) {
    if (pruning_failure != nullptr) {
        *pruning_failure = nullptr;
    }
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_snapshot(snapshot));
        if (name == nullptr || !rueda::base::parse_checkpoint_name(name) || snapshot->model_count != 0) {
            return failure(ErrorCode::invalid_argument,
                           "checkpoint: the name is {} and the model has {} tensors; expected the name that "
                           "rueda_checkpoint_begin returned, and no model",
                           name != nullptr ? rueda::base::quote(name) : "NULL", snapshot->model_count);
        }
        Result<Metadata> values = values_of(snapshot->values);
        RUEDA_RETURN_IF_FAILED(values.status());
        const Result<std::vector<NamedTensor>> state = tensors_of(snapshot->state, snapshot->state_count);
        RUEDA_RETURN_IF_FAILED(state.status());
        const CheckpointFacts facts = facts_of(*snapshot, std::move(values).value());
        RUEDA_RETURN_IF_FAILED(rueda::training::complete_checkpoint(std::filesystem::path(snapshot->folder) / name,
                                                                    facts, state.value(), snapshot->size));
        prune_after(*snapshot, pruning_failure);
        return {};
    });
}

int rueda_checkpoint_give_up_part(const char* path, std::int32_t rank, std::int32_t size) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_part(path, rank, size));
        rueda::training::give_up_part(path, rank, size);
        return {};
    });
}

int rueda_checkpoint_list(const char* folder, char** text) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_path(folder));
        RUEDA_RETURN_IF_FAILED(check_place(text, "text"));
        const Result<StoreListing> listing = rueda::training::list_store(folder);
        RUEDA_RETURN_IF_FAILED(listing.status());
        Json complete = Json::array();
        for (const CheckpointInfo& each : listing.value().complete) {
            complete.push_back(facts_as_json(each));
        }
        *text = json_for_caller({{"complete", complete}, {"damaged", listing.value().damaged}});
        return {};
    });
}

void rueda_checkpoint_free_text(char* text) { std::free(text); }

int rueda_checkpoint_open(const char* path, rueda_checkpoint** checkpoint) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_path(path));
        RUEDA_RETURN_IF_FAILED(check_place(checkpoint, "checkpoint"));
        Result<OpenedCheckpoint> opened = OpenedCheckpoint::open(path);
        RUEDA_RETURN_IF_FAILED(opened.status());
        *checkpoint = new rueda_checkpoint{std::move(opened).value()};
        return {};
    });
}

int rueda_checkpoint_describe(const rueda_checkpoint* checkpoint, char** text) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_opened(checkpoint));
        RUEDA_RETURN_IF_FAILED(check_place(text, "text"));
        Json json = facts_as_json(checkpoint->opened.info());
        json["model"] = tensors_as_json(checkpoint->opened.model_tensors());
        json["state"] = tensors_as_json(checkpoint->opened.state_tensors());
        *text = json_for_caller(json);
        return {};
    });
}

int rueda_checkpoint_check_model(const rueda_checkpoint* checkpoint, const rueda_named_tensor* model,
                                 size_t model_count) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_opened(checkpoint));
        const Result<std::vector<NamedTensor>> tensors = tensors_of(model, model_count);
        RUEDA_RETURN_IF_FAILED(tensors.status());
        RUEDA_RETURN_IF_FAILED(checkpoint->opened.check_parts(rueda::training::as_whole_parts(tensors.value())));
        return checkpoint->opened.check_nothing_else(tensors.value());
    });
}

int rueda_checkpoint_read(const rueda_checkpoint* checkpoint, const rueda_named_tensor* model, size_t model_count,
                          const rueda_named_tensor* state, size_t state_count) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_opened(checkpoint));
        const Result<std::vector<NamedTensor>> model_tensors = tensors_of(model, model_count);
        RUEDA_RETURN_IF_FAILED(model_tensors.status());
        const Result<std::vector<NamedTensor>> state_tensors = tensors_of(state, state_count);
        RUEDA_RETURN_IF_FAILED(state_tensors.status());
        return read_into(checkpoint->opened, rueda::training::as_whole_parts(model_tensors.value()),
                         state_tensors.value());
    });
}

int rueda_checkpoint_check_parts(const rueda_checkpoint* checkpoint, const rueda_tensor_part* parts,
                                 size_t part_count) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_opened(checkpoint));
        const Result<std::vector<TensorPart>> converted = parts_of(parts, part_count);
        RUEDA_RETURN_IF_FAILED(converted.status());
        return checkpoint->opened.check_parts(converted.value());
    });
}

int rueda_checkpoint_read_parts(const rueda_checkpoint* checkpoint, const rueda_tensor_part* parts, size_t part_count,
                                const rueda_named_tensor* state, size_t state_count) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_opened(checkpoint));
        const Result<std::vector<TensorPart>> converted = parts_of(parts, part_count);
        RUEDA_RETURN_IF_FAILED(converted.status());
        const Result<std::vector<NamedTensor>> state_tensors = tensors_of(state, state_count);
        RUEDA_RETURN_IF_FAILED(state_tensors.status());
        return read_into(checkpoint->opened, converted.value(), state_tensors.value());
    });
}

void rueda_checkpoint_close(rueda_checkpoint* checkpoint) { delete checkpoint; }

int rueda_checkpoint_claim_folder(const char* folder, rueda_checkpoint_claim** claim) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_path(folder));
        RUEDA_RETURN_IF_FAILED(check_place(claim, "claim"));
        Result<rueda::training::StoreClaim> taken = rueda::training::StoreClaim::take(folder);
        RUEDA_RETURN_IF_FAILED(taken.status());
        *claim = taken.value().holds_lock() ? new rueda_checkpoint_claim{std::move(taken).value()} : nullptr;
        return {};
    });
}

void rueda_checkpoint_release(rueda_checkpoint_claim* claim) { delete claim; }

}  // extern "C"
