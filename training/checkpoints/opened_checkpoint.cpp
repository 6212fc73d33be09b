// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/checkpoint_name.hpp"
#include "training/checkpoints/checkpoint_index.hpp"
#include "training/checkpoints/checkpoint_store.hpp"

namespace rueda::training {
namespace {

Status damaged_checkpoint(const std::filesystem::path& path, std::string_view what) {
    return failure(ErrorCode::invalid_argument,
                   "checkpoint {}: {}; the checkpoint is damaged: use an earlier one, or another copy of it",
                   path.string(), what);
}

Status other_model(const std::filesystem::path& folder, std::string_view what) {
    return failure(ErrorCode::invalid_argument,
                   "checkpoint {}: it belongs to another model: {}; name the folder of a job with this model",
                   folder.string(), what);
}

/// Returns whether the two shapes differ at most in the first extent.
bool have_equal_rows(const Shape& a, const Shape& b) {
    const auto first = a.extents();
    const auto second = b.extents();
    return first.size() == second.size() &&
           (first.empty() || std::equal(first.begin() + 1, first.end(), second.begin() + 1));
}

std::string form_of(DType dtype, std::int64_t rows, const Shape& shape) {
    const auto extents = shape.extents();
    return extents.empty() ? fmt::format("{} []", name_of(dtype))
                           : fmt::format("{} [{}{}{}]", name_of(dtype), rows, extents.size() > 1 ? ", " : "",
                                         fmt::join(extents.subspan(1), ", "));
}

std::uint64_t bytes_in(DType dtype, const Shape& shape) {
    return static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
}

Range common_rows(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

/// Opens a file, and checks that it belongs to this step.
Result<Checkpoint> open_file(const std::filesystem::path& path, std::int64_t step) {
    std::optional<Checkpoint> file;
    RUEDA_RETURN_IF_FAILED(status_of([&] { file.emplace(path); }));
    const auto found = file->metadata().find(std::string(kStepKey));
    const std::string text = found != file->metadata().end() ? found->second : "missing";
    if (text != std::to_string(step)) {
        return damaged_checkpoint(
            path, fmt::format("\"{}\" is {}; the index of this checkpoint expects {}", kStepKey, text, step));
    }
    return std::move(*file);
}

}  // namespace

std::vector<TensorPart> as_whole_parts(std::span<const NamedTensor> tensors) {
    std::vector<TensorPart> parts;
    for (const NamedTensor& each : tensors) {
        const std::int64_t rows = rows_of(each.tensor.shape());
        parts.push_back({each.name, each.tensor, {0, rows}, rows});
    }
    return parts;
}

Result<OpenedCheckpoint> OpenedCheckpoint::open(const std::filesystem::path& folder) {
    OpenedCheckpoint opened;
    RUEDA_RETURN_IF_FAILED(status_of([&] { opened.state_.emplace(folder / base::kCheckpointStateFile); }));
    Result<ParsedIndex> index = parse_index(opened.state_->metadata());
    if (!index.is_ok()) {
        return damaged_checkpoint(folder / base::kCheckpointStateFile, index.status().message());
    }
    CheckpointFacts& facts = index.value().facts;
    opened.info_ = {folder, facts.step, facts.size, facts.metric, std::move(facts.values)};
    std::vector<std::string> names;
    for (const IndexedFile& file : index.value().files) {
        std::error_code error;
        const std::uint64_t bytes = std::filesystem::file_size(folder / file.name, error);
        if (error || bytes != file.bytes) {
            return damaged_checkpoint(
                folder / file.name,
                error ? fmt::format("stat failed: {}", error.message())
                      : fmt::format("the file has {} bytes; its index expects {}", bytes, file.bytes));
        }
        names.push_back(file.name);
    }
    RUEDA_RETURN_IF_FAILED(opened.open_model(names));
    return opened;
}

Status OpenedCheckpoint::open_model(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        RUEDA_RETURN_IF_FAILED(add_file(info_.folder / name));
    }
    for (auto& [name, stored] : tensors_) {
        std::sort(stored.pieces.begin(), stored.pieces.end(),
                  [](const Piece& a, const Piece& b) { return a.rows.begin < b.rows.begin; });
    }
    return check_rows();
}

Status OpenedCheckpoint::add_file(const std::filesystem::path& path) {
    Result<Checkpoint> file = open_file(path, info_.step);
    RUEDA_RETURN_IF_FAILED(file.status());
    const Metadata& metadata = file.value().metadata();
    std::map<std::string, PartRows> rows;
    const auto found = metadata.find(std::string(kRowsKey));
    if (found != metadata.end()) {
        Result<std::map<std::string, PartRows>> parsed = parse_rows(found->second);
        if (!parsed.is_ok()) {
            return damaged_checkpoint(path, parsed.status().message());
        }
        rows = std::move(parsed).value();
    }
    for (const TensorInfo& info : file.value().tensors()) {
        const std::int64_t count = rows_of(info.shape);
        const auto entry = rows.find(info.name);
        const PartRows part = entry != rows.end() ? entry->second : PartRows{{0, count}, count};
        StoredParts& stored = tensors_[info.name];
        const bool is_first = stored.pieces.empty();
        if (part.rows.size() != count || part.rows.end > part.whole_rows ||
            (!is_first && (stored.whole_rows != part.whole_rows || stored.pieces.front().info.dtype != info.dtype ||
                           !have_equal_rows(stored.pieces.front().info.shape, info.shape)))) {
            return damaged_checkpoint(
                path, fmt::format("tensor '{}' has the rows {} to {} of {} in the form {}, which does not fit the "
                                  "other parts",
                                  info.name, part.rows.begin, part.rows.end, part.whole_rows,
                                  form_of(info.dtype, count, info.shape)));
        }
        stored.whole_rows = part.whole_rows;
        stored.pieces.push_back({paths_.size(), info, part.rows});
    }
    paths_.push_back(path);
    return {};
}

Status OpenedCheckpoint::check_rows() const {
    for (const auto& [name, stored] : tensors_) {
        std::int64_t expected = 0;
        for (const Piece& piece : stored.pieces) {
            if (piece.rows.begin > expected) {
                break;
            }
            expected = std::max(expected, piece.rows.end);
        }
        if (expected != stored.whole_rows) {
            return damaged_checkpoint(info_.folder,
                                      fmt::format("tensor '{}' has {} rows, but no part has row {}: give every row to "
                                                  "a rank when you save",
                                                  name, stored.whole_rows, expected));
        }
    }
    return {};
}

std::vector<TensorInfo> OpenedCheckpoint::model_tensors() const {
    std::vector<TensorInfo> tensors;
    for (const auto& [name, stored] : tensors_) {
        const TensorInfo& piece = stored.pieces.front().info;
        const auto extents = piece.shape.extents();
        std::vector<std::int64_t> whole(extents.begin(), extents.end());
        if (!whole.empty()) {
            whole.front() = stored.whole_rows;
        }
        tensors.push_back({name, piece.dtype, Shape(std::span<const std::int64_t>(whole))});
    }
    return tensors;
}

Status OpenedCheckpoint::check_parts(std::span<const TensorPart> parts) const {
    for (const TensorPart& part : parts) {
        const auto found = tensors_.find(part.name);
        const DType dtype = part.tensor.dtype();
        const std::string wanted = form_of(dtype, part.whole_rows, part.tensor.shape());
        if (found == tensors_.end()) {
            return other_model(info_.folder, fmt::format("'{}' ({}) is not in it", part.name, wanted));
        }
        const TensorInfo& info = found->second.pieces.front().info;
        if (info.dtype != dtype || found->second.whole_rows != part.whole_rows ||
            !have_equal_rows(info.shape, part.tensor.shape())) {
            return other_model(info_.folder,
                               fmt::format("'{}' is {} in it and {} in the model", part.name,
                                           form_of(info.dtype, found->second.whole_rows, info.shape), wanted));
        }
    }
    return {};
}

Status OpenedCheckpoint::check_nothing_else(std::span<const NamedTensor> model) const {
    for (const auto& [name, stored] : tensors_) {
        const auto is_it = [&, &name = name](const NamedTensor& each) { return each.name == name; };
        if (std::none_of(model.begin(), model.end(), is_it)) {
            const TensorInfo& info = stored.pieces.front().info;
            return other_model(info_.folder, fmt::format("'{}' ({}) is not in the model", name,
                                                         form_of(info.dtype, stored.whole_rows, info.shape)));
        }
    }
    return {};
}

Status OpenedCheckpoint::check_state(std::span<const NamedTensor> state) const {
    return state.empty() ? Status() : status_of([&] { state_->check_against(state); });
}

Status OpenedCheckpoint::read_state(std::span<const NamedTensor> state) const {
    return state.empty() ? Status() : status_of([&] { state_->read(state); });
}

Status OpenedCheckpoint::read_parts(std::span<const TensorPart> parts) const {
    struct Wanted {
        const Piece* piece;
        const TensorPart* part;
    };
    std::vector<Wanted> wanted;
    for (const TensorPart& part : parts) {
        for (const Piece& piece : tensors_.find(part.name)->second.pieces) {
            const bool is_whole_tensor = part.rows.size() == part.whole_rows && piece.rows.size() == part.whole_rows;
            if (is_whole_tensor || common_rows(piece.rows, part.rows).size() > 0) {
                wanted.push_back({&piece, &part});
            }
        }
    }
    // The pieces are read in the order of the files, so that each file is opened once.
    std::stable_sort(wanted.begin(), wanted.end(),
                     [](const Wanted& a, const Wanted& b) { return a.piece->file < b.piece->file; });
    std::optional<Checkpoint> file;
    const Piece* previous = nullptr;
    for (const Wanted& each : wanted) {
        if (previous == nullptr || previous->file != each.piece->file) {
            file.reset();
            // open_file() checks the file again, because the file was closed since the last check and may have changed.
            Result<Checkpoint> opened = open_file(paths_[each.piece->file], info_.step);
            RUEDA_RETURN_IF_FAILED(opened.status());
            file.emplace(std::move(opened).value());
        }
        previous = each.piece;
        RUEDA_RETURN_IF_FAILED(status_of([&] { read_piece(*file, *each.piece, *each.part).throw_if_failed(); }));
    }
    return {};
}

/// `piece` has the rows of a tensor that are in one file, and `part` the rows that are wanted. Reads the rows that are
/// in both, into `part`.
Status OpenedCheckpoint::read_piece(const Checkpoint& file, const Piece& piece, const TensorPart& part) {
    const std::uint64_t bytes = bytes_in(part.tensor.dtype(), part.tensor.shape());
    const std::uint64_t row_bytes = part.rows.size() == 0 ? 0 : bytes / static_cast<std::uint64_t>(part.rows.size());
    const Range rows = common_rows(piece.rows, part.rows);
    auto* const target = static_cast<std::byte*>(part.tensor.data()) +
                         static_cast<std::uint64_t>(rows.begin - part.rows.begin) * row_bytes;
    if (rows.size() == piece.rows.size()) {
        file.read_tensor(part.name, TensorView(target, piece.info.dtype, piece.info.shape));
        return {};
    }
    // The checksum covers the whole stored tensor, so all of it is read, although only some of its rows are needed.
    std::vector<std::byte> buffer(bytes_in(piece.info.dtype, piece.info.shape));
    file.read_tensor(part.name, TensorView(buffer.data(), piece.info.dtype, piece.info.shape));
    std::memcpy(target, buffer.data() + static_cast<std::uint64_t>(rows.begin - piece.rows.begin) * row_bytes,
                static_cast<std::uint64_t>(rows.size()) * row_bytes);
    return {};
}

}  // namespace rueda::training
