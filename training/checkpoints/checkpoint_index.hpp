// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The index of a checkpoint, which is the metadata of its file state.safetensors. The program's values are stored
/// beside the entries below.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoints/checkpoint_store.hpp"

namespace rueda::training {

/// The keys of an index. The files of the model also have kStepKey in their metadata.
inline constexpr std::string_view kStepKey = "rueda.step";  ///< the number of the step
inline constexpr std::string_view kSizeKey = "rueda.size";  ///< the number of ranks that saved the checkpoint
/// The metric; a checkpoint without a metric does not have this key.
inline constexpr std::string_view kMetricKey = "rueda.metric";
inline constexpr std::string_view kFilesKey = "rueda.files";  ///< the files: JSON [["model.safetensors", <bytes>], …]
/// The key in the metadata of a file with a part of the model. Its value says which rows the file has: JSON
/// {"<tensor>": [first, end, whole]}. `whole` is the number of rows of the whole tensor.
inline constexpr std::string_view kRowsKey = "rueda.rows";

/// A file of the model, as the index names it.
struct IndexedFile {
    std::string name;
    std::uint64_t bytes = 0;
};

/// What an index says.
struct ParsedIndex {
    CheckpointFacts facts;
    std::vector<IndexedFile> files;
};

/// facts_as_metadata() writes the facts as metadata, and parse_facts() reads them. If parse_facts() fails, the error
/// names the entry, the value that was found, and what was expected.
[[nodiscard]] Metadata facts_as_metadata(const CheckpointFacts& facts);
Result<CheckpointFacts> parse_facts(const Metadata& metadata);

/// Returns the index as metadata. Reads the sizes of the files.
Result<Metadata> make_index(const std::filesystem::path& folder, const CheckpointFacts& facts,
                            const std::vector<std::string>& files);
Result<ParsedIndex> parse_index(const Metadata& index);

/// Parses the rows of a part. `whole_rows` is the number of rows of the whole tensor.
struct PartRows {
    Range rows;
    std::int64_t whole_rows = 0;
};
Result<std::map<std::string, PartRows>> parse_rows(const std::string& text);

/// Returns the extent of the first dimension; a scalar has one row.
[[nodiscard]] inline std::int64_t rows_of(const Shape& shape) { return shape.ndim() == 0 ? 1 : shape.extents()[0]; }

}  // namespace rueda::training
