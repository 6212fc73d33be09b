// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/data/pipeline.hpp"
#include "rueda/data/vocabulary.hpp"

namespace rueda::data {

/// Parses the options of rueda_data_open_from. A stage in the text names one of the `vocabularies` by its index. A
/// memory source in the text names one of the `contents` by its index, and gets a copy of it. If a member of the
/// options is wrong, the error names the member. Throws InvalidArgument if a pattern of files matches no file, if the
/// position cannot be parsed, or if a stage cannot be used.
[[nodiscard]] Result<PipelineOptions> options_from_text(
    std::string_view text, std::span<const std::shared_ptr<const Vocabulary>> vocabularies = {},
    std::span<const std::string_view> contents = {});

/// The options of rueda_data_vocabulary_open.
struct VocabularyRequest {
    std::string path;  ///< the file with the terms; if the path is empty, the terms are in `terms`
    std::vector<std::string> terms;
    VocabularyOptions options;
};
[[nodiscard]] Result<VocabularyRequest> vocabulary_from_text(std::string_view text);

}  // namespace rueda::data
