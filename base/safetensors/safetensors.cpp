// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/safetensors/safetensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/safetensors/checksum.hpp"

namespace rueda::training {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
    DType dtype;
    std::string_view name;
};
constexpr std::array kDTypeNames = {DTypeName{DType::float64, "F64"},        DTypeName{DType::float32, "F32"},
                                    DTypeName{DType::float16, "F16"},        DTypeName{DType::bfloat16, "BF16"},
                                    DTypeName{DType::int64, "I64"},          DTypeName{DType::int32, "I32"},
                                    DTypeName{DType::int16, "I16"},          DTypeName{DType::int8, "I8"},
                                    DTypeName{DType::uint64, "U64"},         DTypeName{DType::uint32, "U32"},
                                    DTypeName{DType::uint16, "U16"},         DTypeName{DType::uint8, "U8"},
                                    DTypeName{DType::boolean, "BOOL"},       DTypeName{DType::float8_e4m3fn, "F8_E4M3"},
                                    DTypeName{DType::float8_e5m2, "F8_E5M2"}};
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

/// Formats a piece of JSON for a message. The text is short, and is ASCII even if the file contains other characters.
std::string excerpt(const Json& json) {
    constexpr std::size_t kLimit = 60;
    std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= kLimit ? text : text.substr(0, kLimit) + "...";
}

/// Returns the number of bytes of a tensor, or nothing if the number does not fit into 64 bits.
std::optional<std::uint64_t> bytes_of(DType dtype, std::span<const std::int64_t> extents) {
    const std::size_t element = size_of(dtype);
    const auto count = detail::count_of_elements(extents, std::numeric_limits<std::uint64_t>::max() / element);
    return count ? std::optional(*count * element) : std::nullopt;
}

/// Parses the text. Fails if a key occurs twice in one object. JSON libraries report no error in this case, and keep
/// only one of the values.
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
        // The parser throws this if a number is too large for a double, for example 1e999.
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
    return StoredTensor{{key, *dtype, shape.value()}, begin, end, 0};
}

/// Returns indices into `tensors`, ordered by the names of the tensors.
std::vector<std::size_t> in_order_of_names(std::span<const StoredTensor> tensors) {
    std::vector<std::size_t> sorted(tensors.size());
    std::iota(sorted.begin(), sorted.end(), std::size_t{0});
    std::sort(sorted.begin(), sorted.end(),
              [&](std::size_t a, std::size_t b) { return tensors[a].info.name < tensors[b].info.name; });
    return sorted;
}

/// Returns the checksum of the header's content. The comment of kChecksumsKey says what it covers.
std::uint64_t checksum_of_header(const Header& header) {
    Checksum checksum;
    checksum.add_number(header.metadata.size());
    for (const auto& [key, value] : header.metadata) {
        checksum.add_text(key);
        checksum.add_text(value);
    }
    for (const std::size_t i : in_order_of_names(header.tensors)) {
        const StoredTensor& tensor = header.tensors[i];
        const auto extents = tensor.info.shape.extents();
        checksum.add_text(tensor.info.name);
        checksum.add_text(stored_name(tensor.info.dtype));
        checksum.add_number(extents.size());
        checksum.add(std::as_bytes(extents));
        checksum.add_number(tensor.checksum);
    }
    return checksum.value();
}

std::string checksums_text(const Header& header) {
    std::string text = fmt::format("{} {}", kChecksumsMark, checksum_text(checksum_of_header(header)));
    for (const std::size_t i : in_order_of_names(header.tensors)) {
        text += ' ';
        text += checksum_text(header.tensors[i].checksum);
    }
    return text;
}

/// Removes a checksum such as " 00112233445566ff" from the beginning of `text`, and returns it. Returns nothing if the
/// text does not begin with a checksum.
std::optional<std::uint64_t> take_checksum(std::string_view& text) {
    constexpr std::size_t kDigits = 16;
    if (text.size() < 1 + kDigits || text.front() != ' ') {
        return std::nullopt;
    }
    const std::string_view digits = text.substr(1, kDigits);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + kDigits, value, 16);
    if (error != std::errc() || end != digits.data() + kDigits || checksum_text(value) != digits) {
        return std::nullopt;
    }
    text.remove_prefix(1 + kDigits);
    return value;
}

constexpr std::string_view kIfDamaged =
    "the file is damaged: take another copy of it, or an earlier checkpoint. If a program changed it on purpose, that "
    "program has to remove \"rueda.checksums\" from __metadata__";

/// Removes the checksums from the metadata, and stores them with their tensors. Also checks the header's checksum.
Status take_checksums(Header& header) {
    const auto found = header.metadata.find(std::string(kChecksumsKey));
    const std::string text = found != header.metadata.end() ? found->second : std::string();
    const bool has_key = found != header.metadata.end();
    if (has_key) {
        header.metadata.erase(found);
    }
    for (const auto& [key, value] : header.metadata) {
        if (value.starts_with(kChecksumsMark)) {
            return refuse("{} has checksums under {}; expected them under \"{}\": {}", kMetadataKey, excerpt(Json(key)),
                          kChecksumsKey, kIfDamaged);
        }
    }
    if (!has_key) {
        return {};
    }
    std::string_view rest = text;
    std::optional<std::uint64_t> whole;
    if (rest.starts_with(kChecksumsMark)) {
        rest.remove_prefix(kChecksumsMark.size());
        whole = take_checksum(rest);
    }
    bool is_complete = whole.has_value();
    for (const std::size_t i : in_order_of_names(header.tensors)) {
        const std::optional<std::uint64_t> one = is_complete ? take_checksum(rest) : std::nullopt;
        is_complete = one.has_value();
        header.tensors[i].checksum = one.value_or(0);
    }
    if (!is_complete || !rest.empty()) {
        return refuse(
            "\"{}\" is {}; expected \"{}\" and {} checksums of 16 hexadecimal digits, of the header and of each "
            "tensor: {}",
            kChecksumsKey, excerpt(Json(text)), kChecksumsMark, header.tensors.size() + 1, kIfDamaged);
    }
    if (const std::uint64_t computed = checksum_of_header(header); computed != *whole) {
        return refuse("the header has the checksum {}; expected {}, which was recorded when it was saved: {}",
                      checksum_text(computed), checksum_text(*whole), kIfDamaged);
    }
    header.has_checksums = true;
    return {};
}

/// Checks that the tensors cover the data from the first byte to the last, without gap or overlap.
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

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

Status checksum_failure(const StoredTensor& tensor, std::uint64_t computed) {
    return refuse("the data of tensor {} have the checksum {}; expected {}, which was recorded when it was saved: {}",
                  excerpt(Json(tensor.info.name)), checksum_text(computed), checksum_text(tensor.checksum), kIfDamaged);
}

Result<Header> lay_out(std::span<const NamedTensor> tensors, const Metadata& metadata) {
    Header header{metadata, {}};
    for (const auto& [key, value] : metadata) {
        if (key == kChecksumsKey || value.starts_with(kChecksumsMark)) {
            return refuse("the metadata have '{}', which checkpoints reserve for their checksums; leave it out", key);
        }
    }
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
        header.tensors.push_back({{tensor.name, tensor.tensor.dtype(), tensor.tensor.shape()}, 0, 0, 0});
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
    // An ordered_json keeps the order of insertion. So the header lists the tensors by position, and the same
    // checkpoint always has the same bytes.
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    Metadata metadata = header.metadata;
    if (header.has_checksums) {
        metadata.emplace(kChecksumsKey, checksums_text(header));
    }
    if (!metadata.empty()) {
        json[std::string(kMetadataKey)] = metadata;
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
    RUEDA_RETURN_IF_FAILED(take_checksums(header));
    return header;
}

}  // namespace rueda::training
