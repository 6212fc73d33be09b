// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/c_interface/options_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fields.hpp"
#include "base/text.hpp"
#include "rueda/data/hash.hpp"
#include "rueda/data/pinned.hpp"
#include "rueda/data/resident.hpp"

namespace rueda::data {
namespace {

using base::json_fields::array_of;
using base::json_fields::Damage;
using base::json_fields::find;
using base::json_fields::Json;
using base::json_fields::object_of;
using base::json_fields::read;

/// Reads a member of the JSON object. If the member is missing, `into` keeps its value.
template <class T>
void read_if_there(const Json& object, const char* key, T& into) {
    if (find(object, key) != nullptr) {
        read(object, key, into);
    }
}

void check_members(const Json& object, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : object.items()) {
        if (std::none_of(known.begin(), known.end(), [&key = key](const char* name) { return key == name; })) {
            throw Damage{fmt::format("there is no option {}", base::quote(key))};
        }
    }
}

template <class T>
T one_of(const std::string& text, const char* key, std::initializer_list<std::pair<const char*, T>> choices) {
    for (const auto& [name, value] : choices) {
        if (text == name) {
            return value;
        }
    }
    std::vector<const char*> names;
    std::transform(choices.begin(), choices.end(), std::back_inserter(names),
                   [](const auto& choice) { return choice.first; });
    throw Damage{fmt::format("'{}' is {}; it must be one of {}", key, base::quote(text), fmt::join(names, ", "))};
}

std::string text_of(const Json& object, const char* key) {
    std::string text;
    read(object, key, text);
    return text;
}

DType dtype_in(const Json& object) {
    if (find(object, "dtype") == nullptr) {
        return DType::float32;
    }
    try {
        return one_of<DType>(text_of(object, "dtype"), "dtype",
                             {{"float32", DType::float32},
                              {"float64", DType::float64},
                              {"int64", DType::int64},
                              {"uint8", DType::uint8}});
    } catch (const Damage& damage) {
        throw Damage{fmt::format("column {}: {}", base::quote(text_of(object, "name")), damage.text)};
    }
}

/// Reads "missing", a number or nothing. JSON has no NaN and no infinity, so the texts "nan", "inf" and "-inf" stand
/// for them.
std::optional<double> missing_in(const Json& object) {
    const Json* const value = find(object, "missing");
    if (value == nullptr || value->is_null()) {
        return std::nullopt;
    }
    if (*value == "nan") {
        return std::numeric_limits<double>::quiet_NaN();
    }
    if (*value == "inf" || *value == "-inf") {
        return std::copysign(std::numeric_limits<double>::infinity(), *value == "inf" ? 1.0 : -1.0);
    }
    if (!value->is_number()) {
        throw Damage{"'missing' is neither a number nor \"nan\", \"inf\" or \"-inf\""};
    }
    return value->get<double>();
}

std::vector<std::string> texts_of(const Json& object, const char* key) {
    std::vector<std::string> texts;
    for (const Json& text : array_of(object, key)) {
        if (!text.is_string()) {
            throw Damage{fmt::format("a member of '{}' is not a text", key)};
        }
        texts.push_back(text.get<std::string>());
    }
    return texts;
}

/// Returns the value of `key` in the JSON object. The value is an index into a list of `count` elements that the caller
/// of the C interface passed.
std::size_t index_in(const Json& object, const char* key, std::size_t count) {
    std::size_t index = 0;
    read(object, key, index);
    if (index >= count) {
        throw Damage{fmt::format("'{}' is {}, and the call has only {} of them", key, index, count)};
    }
    return index;
}

using Contents = std::span<const std::string_view>;

std::vector<Source> sources_of(const Json& source, Contents contents) {
    check_members(source, {"kind", "patterns", "path", "channel", "name", "index", "compression"});
    auto compression = FileCompression::automatic;
    if (find(source, "compression") != nullptr) {
        compression = one_of<FileCompression>(text_of(source, "compression"), "compression",
                                              {{"automatic", FileCompression::automatic},
                                               {"none", FileCompression::none},
                                               {"gzip", FileCompression::gzip},
                                               {"zstd", FileCompression::zstd}});
    }
    enum class Kind { files, fifo, memory, sagemaker };
    switch (one_of<Kind>(
        text_of(source, "kind"), "kind",
        {{"files", Kind::files}, {"fifo", Kind::fifo}, {"memory", Kind::memory}, {"sagemaker", Kind::sagemaker}})) {
        case Kind::files:
            return files(texts_of(source, "patterns"), compression);
        case Kind::fifo:
            return fifo(text_of(source, "path"), compression);
        case Kind::memory:
            return memory(text_of(source, "name"), std::string(contents[index_in(source, "index", contents.size())]),
                          compression);
        case Kind::sagemaker:
            break;
    }
    return sagemaker_channel(text_of(source, "channel"), compression);
}

Format examples_of(const Json& object) {
    check_members(object, {"type", "features", "check_data"});
    Examples examples;
    read_if_there(object, "check_data", examples.check_data);
    for (const Json& each : array_of(object, "features")) {
        check_members(each, {"name", "dtype", "length", "missing"});
        Feature feature{text_of(each, "name"), dtype_in(each), 1, missing_in(each)};
        read_if_there(each, "length", feature.length);
        examples.features.push_back(std::move(feature));
    }
    return examples;
}

Format csv_of(const Json& object) {
    check_members(object, {"type", "columns", "separator", "header", "quotes"});
    Csv csv;
    read_if_there(object, "header", csv.header);
    read_if_there(object, "quotes", csv.quotes);
    if (find(object, "separator") != nullptr) {
        const std::string separator = text_of(object, "separator");
        if (separator.size() != 1) {
            throw Damage{fmt::format("'separator' is {}; it must be one byte", base::quote(separator))};
        }
        csv.separator = separator.front();
    }
    for (const Json& each : array_of(object, "columns")) {
        check_members(each, {"name", "dtype", "missing"});
        csv.columns.push_back({text_of(each, "name"), dtype_in(each), missing_in(each)});
    }
    return csv;
}

Format libsvm_of(const Json& object) {
    check_members(object, {"type", "one_based", "fields", "query_ids"});
    Libsvm libsvm;
    read_if_there(object, "one_based", libsvm.one_based);
    read_if_there(object, "fields", libsvm.fields);
    read_if_there(object, "query_ids", libsvm.query_ids);
    return libsvm;
}

Format tfrecords_of(const Json& object) {
    check_members(object, {"type", "check_data"});
    Tfrecords tfrecords;
    read_if_there(object, "check_data", tfrecords.check_data);
    return tfrecords;
}

Format lines_of(const Json& object) {
    check_members(object, {"type"});
    return Lines();
}

Format safetensors_of(const Json& object) {
    check_members(object, {"type", "tensors", "check_data"});
    Safetensors safetensors;
    read_if_there(object, "check_data", safetensors.check_data);
    for (const Json& each : array_of(object, "tensors")) {
        check_members(each, {"name", "dtype", "width"});
        ArrayColumn column{text_of(each, "name"), dtype_in(each)};
        read_if_there(each, "width", column.width);
        safetensors.tensors.push_back(std::move(column));
    }
    return safetensors;
}

Format whole_files_of(const Json& object) {
    check_members(object, {"type"});
    return WholeFiles();
}

Format format_of(const Json& object) {
    using Reader = Format (*)(const Json&);
    const auto reader = one_of<Reader>(text_of(object, "type"), "type",
                                       {{"examples", examples_of},
                                        {"libsvm", libsvm_of},
                                        {"csv", csv_of},
                                        {"tfrecords", tfrecords_of},
                                        {"lines", lines_of},
                                        {"safetensors", safetensors_of},
                                        {"whole_files", whole_files_of}});
    return reader(object);
}

using Vocabularies = std::span<const std::shared_ptr<const Vocabulary>>;

std::function<void(Batch&)> stage_of(const Json& object, Vocabularies vocabularies) {
    check_members(object, {"kind", "columns", "buckets", "seed", "vocabulary"});
    enum class Kind { hash, look_up };
    if (one_of<Kind>(text_of(object, "kind"), "kind", {{"hash", Kind::hash}, {"look_up", Kind::look_up}}) ==
        Kind::hash) {
        HashOptions options;
        read(object, "buckets", options.buckets);
        read_if_there(object, "seed", options.seed);
        return hash_columns(texts_of(object, "columns"), options);
    }
    return look_up_columns(texts_of(object, "columns"),
                           vocabularies[index_in(object, "vocabulary", vocabularies.size())]);
}

std::shared_ptr<const BatchMemory> memory_of(const Json& object) {
    enum class Kind { ordinary, resident, pinned };
    switch (one_of<Kind>(text_of(object, "memory"), "memory",
                         {{"ordinary", Kind::ordinary}, {"resident", Kind::resident}, {"pinned", Kind::pinned}})) {
        case Kind::ordinary:
            return nullptr;
        case Kind::resident:
            return resident_memory();
        case Kind::pinned:
            break;
    }
    int device = 0;
    read_if_there(object, "device", device);
    return pinned_memory(device);
}

PipelineOptions options_of(const Json& object, Vocabularies vocabularies, Contents contents) {
    check_members(object, {"sources", "format",         "batch",     "rank",    "size",   "seed",   "shuffle",
                           "lanes",   "drop_remainder", "remainder", "weights", "device", "epochs", "malformed_limit",
                           "threads", "prefetch",       "start",     "stages",  "memory", "cache"});
    PipelineOptions options;
    for (const Json& source : array_of(object, "sources")) {
        std::ranges::move(sources_of(source, contents), std::back_inserter(options.sources));
    }
    options.format = format_of(object_of(object, "format"));
    read(object, "batch", options.batch);
    read_if_there(object, "rank", options.rank);
    read_if_there(object, "size", options.size);
    read_if_there(object, "seed", options.seed);
    read_if_there(object, "shuffle", options.shuffle);
    read_if_there(object, "lanes", options.lanes);
    read_if_there(object, "drop_remainder", options.drop_remainder);
    if (find(object, "remainder") != nullptr) {
        options.remainder =
            one_of<Remainder>(text_of(object, "remainder"), "remainder",
                              {{"keep", Remainder::keep}, {"drop", Remainder::drop}, {"pad", Remainder::pad}});
    }
    read_if_there(object, "weights", options.weights);
    read_if_there(object, "epochs", options.epochs);
    read_if_there(object, "malformed_limit", options.malformed_limit);
    read_if_there(object, "threads", options.threads);
    read_if_there(object, "prefetch", options.prefetch);
    read_if_there(object, "cache", options.cache);
    if (find(object, "stages") != nullptr) {
        for (const Json& stage : array_of(object, "stages")) {
            options.maps.push_back(stage_of(stage, vocabularies));
        }
    }
    if (find(object, "memory") != nullptr) {
        options.memory = memory_of(object);
    }
    if (find(object, "start") != nullptr) {
        options.start = Position::from_text(text_of(object, "start"));
    }
    return options;
}

VocabularyRequest request_of(const Json& object) {
    check_members(object,
                  {"path", "terms", "most_terms", "unknown_buckets", "seed", "grows", "min_count", "most_unknown"});
    VocabularyRequest request;
    if (find(object, "path") != nullptr) {
        request.path = text_of(object, "path");
    } else {
        request.terms = texts_of(object, "terms");
    }
    read_if_there(object, "most_terms", request.options.most_terms);
    read_if_there(object, "unknown_buckets", request.options.unknown_buckets);
    read_if_there(object, "seed", request.options.seed);
    read_if_there(object, "grows", request.options.grows);
    read_if_there(object, "min_count", request.options.min_count);
    read_if_there(object, "most_unknown", request.options.most_unknown);
    return request;
}

/// Parses a text that contains a JSON object, and calls the function `read_object` with this object. Error messages
/// begin with `what`.
template <class T, class ReadObject>
Result<T> from_object(std::string_view text, const char* what, const ReadObject& read_object) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
        return failure(ErrorCode::invalid_argument, "{}: the options are no JSON object in UTF-8", what);
    }
    try {
        return read_object(json);
    } catch (const Damage& damage) {
        return failure(ErrorCode::invalid_argument, "{}: reading the options: {}", what, damage.text);
    }
}

}  // namespace

Result<PipelineOptions> options_from_text(std::string_view text, Vocabularies vocabularies, Contents contents) {
    return from_object<PipelineOptions>(text, "pipeline",
                                        [&](const Json& object) { return options_of(object, vocabularies, contents); });
}

Result<VocabularyRequest> vocabulary_from_text(std::string_view text) {
    return from_object<VocabularyRequest>(text, "vocabulary", request_of);
}

}  // namespace rueda::data
