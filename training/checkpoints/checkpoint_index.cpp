// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/checkpoints/checkpoint_index.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace rueda::training {
namespace {

Status refuse_entry(std::string_view key, std::string_view found, std::string_view expected) {
    return failure(ErrorCode::invalid_argument, "\"{}\" is {}; expected {}: the file is no index of a checkpoint", key,
                   base::quote(found), expected);
}

template <class Number>
Result<Number> number_of(const Metadata& index, std::string_view key) {
    const auto found = index.find(std::string(key));
    const std::string text = found != index.end() ? found->second : std::string();
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !(number >= Number{0})) {
        return refuse_entry(key, text, "a number from 0 on");
    }
    return number;
}

Result<std::optional<double>> metric_of(const Metadata& index) {
    const auto found = index.find(std::string(kMetricKey));
    if (found == index.end()) {
        return std::optional<double>();
    }
    double metric = 0;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), metric);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(metric)) {
        return refuse_entry(kMetricKey, text, "a finite number");
    }
    return std::optional<double>(metric);
}

/// A name must not lead out of the checkpoint's folder.
bool is_indexed_file(const nlohmann::json& entry) {
    return entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number_unsigned() &&
           entry[0].get_ref<const std::string&>().find('/') == std::string::npos &&
           entry[0].get_ref<const std::string&>().ends_with(".safetensors");
}

Result<std::vector<IndexedFile>> files_of(const Metadata& index) {
    const auto found = index.find(std::string(kFilesKey));
    const std::string text = found != index.end() ? found->second : std::string();
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_array() || json.empty() || !std::all_of(json.begin(), json.end(), is_indexed_file)) {
        return refuse_entry(kFilesKey, text, "a list of names and sizes of files");
    }
    std::vector<IndexedFile> files;
    for (const auto& entry : json) {
        files.push_back({entry[0].get<std::string>(), entry[1].get<std::uint64_t>()});
    }
    return files;
}

bool is_row_entry(const nlohmann::json& entry) {
    return entry.is_array() && entry.size() == 3 && std::all_of(entry.begin(), entry.end(), [](const auto& each) {
               return each.is_number_unsigned() && each.template get<std::uint64_t>() <= INT64_MAX;
           });
}

}  // namespace

Result<Metadata> make_index(const std::filesystem::path& folder, const CheckpointFacts& facts,
                            const std::vector<std::string>& files) {
    nlohmann::json list = nlohmann::json::array();
    for (const std::string& name : files) {
        std::error_code error;
        const std::uint64_t bytes = std::filesystem::file_size(folder / name, error);
        if (error) {
            return failure(ErrorCode::invalid_argument, "{}: stat failed: {}", (folder / name).string(),
                           error.message());
        }
        list.push_back({name, bytes});
    }
    Metadata index = facts_as_metadata(facts);
    index[std::string(kFilesKey)] = list.dump();
    return index;
}

Metadata facts_as_metadata(const CheckpointFacts& facts) {
    Metadata metadata = facts.values;
    metadata[std::string(kStepKey)] = std::to_string(facts.step);
    metadata[std::string(kSizeKey)] = std::to_string(facts.size);
    if (facts.metric) {
        metadata[std::string(kMetricKey)] = fmt::format("{}", *facts.metric);
    }
    return metadata;
}

Result<CheckpointFacts> parse_facts(const Metadata& metadata) {
    const Result<std::int64_t> step = number_of<std::int64_t>(metadata, kStepKey);
    RUEDA_RETURN_IF_FAILED(step.status());
    const Result<int> size = number_of<int>(metadata, kSizeKey);
    RUEDA_RETURN_IF_FAILED(size.status());
    const Result<std::optional<double>> metric = metric_of(metadata);
    RUEDA_RETURN_IF_FAILED(metric.status());
    CheckpointFacts facts{step.value(), size.value(), metric.value(), {}};
    for (const auto& [key, value] : metadata) {
        if (!key.starts_with(kReservedPrefix)) {
            facts.values.emplace(key, value);
        }
    }
    return facts;
}

Result<ParsedIndex> parse_index(const Metadata& index) {
    Result<CheckpointFacts> facts = parse_facts(index);
    RUEDA_RETURN_IF_FAILED(facts.status());
    Result<std::vector<IndexedFile>> files = files_of(index);
    RUEDA_RETURN_IF_FAILED(files.status());
    return ParsedIndex{std::move(facts).value(), std::move(files).value()};
}

Result<std::map<std::string, PartRows>> parse_rows(const std::string& text) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !std::all_of(json.begin(), json.end(), is_row_entry)) {
        return refuse_entry(kRowsKey, text, "the first row, the end and the number of rows of each tensor");
    }
    std::map<std::string, PartRows> rows;
    for (const auto& [name, entry] : json.items()) {
        rows[name] = {{entry[0].get<std::int64_t>(), entry[1].get<std::int64_t>()}, entry[2].get<std::int64_t>()};
    }
    return rows;
}

}  // namespace rueda::training
