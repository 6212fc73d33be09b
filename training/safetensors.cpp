// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/safetensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace rueda::training {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
    DType dtype;
    std::string_view name;
};
constexpr std::array kDTypeNames = {
    DTypeName{DType::float64, "F64"},   DTypeName{DType::float32, "F32"}, DTypeName{DType::float16, "F16"},
    DTypeName{DType::bfloat16, "BF16"}, DTypeName{DType::int64, "I64"},   DTypeName{DType::int32, "I32"},
    DTypeName{DType::int16, "I16"},     DTypeName{DType::int8, "I8"},     DTypeName{DType::uint64, "U64"},
    DTypeName{DType::uint32, "U32"},    DTypeName{DType::uint16, "U16"},  DTypeName{DType::uint8, "U8"},
    DTypeName{DType::boolean, "BOOL"}};
static_assert(kDTypeNames.size() == kDTypeCount);

std::string_view stored_name(DType dtype) {
    const auto found = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                    [dtype](const DTypeName& entry) { return entry.dtype == dtype; });
    return found == kDTypeNames.end() ? std::string_view() : found->name;
}

std::string all_stored_names() {
    std::vector<std::string_view> names;
    for (const DTypeName& entry : kDTypeNames) {
        names.push_back(entry.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<DType> stored_dtype(std::string_view name) {
    const auto found = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                    [name](const DTypeName& entry) { return entry.name == name; });
    return found == kDTypeNames.end() ? std::nullopt : std::optional(found->dtype);
}

template <class... Args>
Status refuse(fmt::format_string<Args...> text, Args&&... args) {
    return failure(ErrorCode::invalid_argument, text, std::forward<Args>(args)...);
}

/// A piece of JSON for a message: short, and in ASCII whatever the file holds.
std::string excerpt(const Json& json) {
    constexpr std::size_t kLimit = 60;
    std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= kLimit ? text : text.substr(0, kLimit) + "...";
}

/// Bytes of a tensor, or nothing where that number does not fit.
std::optional<std::uint64_t> bytes_of(DType dtype, std::span<const std::int64_t> extents) {
    // One extent of zero makes the tensor empty, however large the others are.
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) {
        return 0;
    }
    std::uint64_t bytes = size_of(dtype);
    for (const std::int64_t extent : extents) {
        if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
            return std::nullopt;
        }
    }
    return bytes;
}

/// Parses, and finds keys that stand twice in one object: JSON libraries keep one of them in silence.
Result<Json> parse_json(std::string_view text) {
    std::vector<std::set<std::string>> keys;
    std::string doubled;
    const auto watch = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start) {
            keys.emplace_back();
        } else if (event == Json::parse_event_t::object_end) {
            keys.pop_back();
        } else if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
            doubled = doubled.empty() ? excerpt(parsed) : doubled;
        }
        return true;
    };
    try {
        Json json = Json::parse(text, watch);
        if (!doubled.empty()) {
            return refuse("the name {} stands twice in the header; every name must be there once", doubled);
        }
        return json;
    } catch (const Json::parse_error& error) {
        return refuse("the header is not JSON (at its byte {})", error.byte);
    } catch (const Json::out_of_range&) {
        // Such as 1e999, which is JSON and no double.
        return refuse("the header holds a number that fits no type; expected whole numbers of at most 64 bits");
    }
}

Result<Metadata> parse_metadata(const Json& json) {
    if (!json.is_object()) {
        return refuse("{} is {}; it must be an object of strings", kMetadataKey, excerpt(json));
    }
    Metadata metadata;
    for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) {
            return refuse("{} has {} under {}; it must be a string", kMetadataKey, excerpt(value), excerpt(Json(key)));
        }
        metadata.emplace(key, value.get<std::string>());
    }
    return metadata;
}

bool is_count(const Json& json) {
    return json.is_number_unsigned() &&
           json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

Result<Shape> parse_shape(const std::string& name, const Json& json) {
    if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_count)) {
        return refuse("tensor {} has the shape {}; it must be a list of whole numbers from 0 on", name, excerpt(json));
    }
    if (json.size() > RUEDA_MAX_DIMENSIONS) {
        return refuse("tensor {} has {} dimensions; at most {} are supported", name, json.size(), RUEDA_MAX_DIMENSIONS);
    }
    const auto extents = json.get<std::vector<std::int64_t>>();
    return Shape(std::span(extents));
}

Result<StoredTensor> parse_tensor(const std::string& key, const Json& json, std::uint64_t data_bytes) {
    const std::string name = excerpt(Json(key));
    if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
        !json.contains("data_offsets")) {
        return refuse("tensor {} is {}; it must have dtype, shape and data_offsets, and nothing else", name,
                      excerpt(json));
    }
    const std::optional<DType> dtype =
        json["dtype"].is_string() ? stored_dtype(json["dtype"].get_ref<const std::string&>()) : std::nullopt;
    if (!dtype) {
        return refuse("tensor {} has the dtype {}; supported are {}", name, excerpt(json["dtype"]), all_stored_names());
    }
    const Result<Shape> shape = parse_shape(name, json["shape"]);
    RUEDA_RETURN_IF_FAILED(shape.status());
    const Json& places = json["data_offsets"];
    if (!places.is_array() || places.size() != 2 || !std::all_of(places.begin(), places.end(), is_count)) {
        return refuse("tensor {} has the data_offsets {}; they must be two whole numbers from 0 on", name,
                      excerpt(places));
    }
    const auto begin = places[0].get<std::uint64_t>();
    const auto end = places[1].get<std::uint64_t>();
    if (begin > end || end > data_bytes) {
        return refuse(
            "tensor {} lies at bytes {} to {} of the data, which has {} bytes; the file is truncated or damaged", name,
            begin, end, data_bytes);
    }
    const std::optional<std::uint64_t> bytes = bytes_of(*dtype, shape.value().extents());
    if (!bytes || *bytes != end - begin) {
        return refuse("tensor {} of dtype {} and shape {} has {} bytes in the file; it must have {}", name,
                      name_of(*dtype), excerpt(json["shape"]), end - begin,
                      bytes ? std::to_string(*bytes) : std::string("more than 2^64"));
    }
    return StoredTensor{{key, *dtype, shape.value()}, begin, end};
}

/// Neither gap nor overlap, from the first byte of the data to the last.
Status check_places(std::span<const StoredTensor> tensors, std::uint64_t data_bytes) {
    std::uint64_t expected = 0;
    for (const StoredTensor& tensor : tensors) {
        if (tensor.begin != expected) {
            return refuse(
                "tensor {} begins at byte {} of the data, {} byte {}; tensors must follow one another exactly",
                excerpt(Json(tensor.info.name)), tensor.begin,
                tensor.begin < expected ? "inside the one before it, which ends at" : "but the one before it ends at",
                expected);
        }
        expected = tensor.end;
    }
    if (expected != data_bytes) {
        return refuse("the tensors end at byte {} of the data, which has {} bytes; nothing may follow them", expected,
                      data_bytes);
    }
    return {};
}

}  // namespace

Result<Header> lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata) {
    Header header{metadata, {}};
    std::set<std::string_view> names;
    for (const NamedTensor& tensor : tensors) {
        if (tensor.name.empty() || tensor.name == kMetadataKey) {
            return refuse("a tensor has the name '{}', which checkpoints reserve; give it another", tensor.name);
        }
        if (!names.insert(tensor.name).second) {
            return refuse("two tensors have the name '{}'; names in a checkpoint must differ", tensor.name);
        }
        const auto extents = tensor.tensor.shape().extents();
        if (std::any_of(extents.begin(), extents.end(), [](std::int64_t extent) { return extent < 0; })) {
            return refuse("tensor '{}' has a negative extent; extents are 0 or more", tensor.name);
        }
        header.tensors.push_back({{tensor.name, tensor.tensor.dtype(), tensor.tensor.shape()}, 0, 0});
    }
    std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return size_of(a.info.dtype) > size_of(b.info.dtype);
    });
    std::uint64_t place = 0;
    for (StoredTensor& tensor : header.tensors) {
        const std::optional<std::uint64_t> bytes = bytes_of(tensor.info.dtype, tensor.info.shape.extents());
        tensor.begin = place;
        if (!bytes || __builtin_add_overflow(place, *bytes, &place)) {
            return refuse("tensor '{}' has more bytes than a file can", tensor.info.name);
        }
        tensor.end = place;
    }
    return header;
}

Result<std::string> format_header(const Header& header) {
    // Ordered, so that the same checkpoint is the same bytes, and the header lists the tensors by place.
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (!header.metadata.empty()) {
        json[std::string(kMetadataKey)] = header.metadata;
    }
    for (const StoredTensor& tensor : header.tensors) {
        const auto extents = tensor.info.shape.extents();
        json[tensor.info.name] = {{"dtype", stored_name(tensor.info.dtype)},
                                  {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                                  {"data_offsets", {tensor.begin, tensor.end}}};
    }
    std::string text;
    try {
        text = json.dump();
    } catch (const Json::type_error&) {
        return refuse("a tensor's name or the metadata is not UTF-8; checkpoints hold UTF-8 only");
    }
    text.resize((text.size() + 7) / 8 * 8, ' ');
    if (text.size() > kMaxHeaderBytes) {
        return refuse("names, shapes and metadata make a header of {} bytes; a checkpoint's may have at most {}",
                      text.size(), kMaxHeaderBytes);
    }
    return text;
}

Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes) {
    const Result<Json> json = parse_json(text);
    RUEDA_RETURN_IF_FAILED(json.status());
    if (text.front() != '{' || !json.value().is_object()) {
        return refuse("the header begins with {}; it must be a JSON object",
                      excerpt(Json(std::string(text.substr(0, 8)))));
    }
    Header header;
    for (const auto& [key, value] : json.value().items()) {
        if (key == kMetadataKey) {
            Result<Metadata> metadata = parse_metadata(value);
            RUEDA_RETURN_IF_FAILED(metadata.status());
            header.metadata = std::move(metadata).value();
            continue;
        }
        Result<StoredTensor> tensor = parse_tensor(key, value, data_bytes);
        RUEDA_RETURN_IF_FAILED(tensor.status());
        header.tensors.push_back(std::move(tensor).value());
    }
    std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    RUEDA_RETURN_IF_FAILED(check_places(header.tensors, data_bytes));
    return header;
}

}  // namespace rueda::training
