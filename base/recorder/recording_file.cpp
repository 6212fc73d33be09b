// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/recorder/recording_file.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/numbers.hpp"

namespace rueda::base {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "rueda-recorder";
constexpr int kVersion = 1;
constexpr std::int32_t kLargestSize = 1 << 20;  // the limit of RUEDA_SIZE
constexpr std::string_view kNamePrefix = "recorder-rank";
constexpr std::string_view kNameSuffix = ".json";

// ---- writing --------------------------------------------------------------------------------------------------------

Json json_of(const RecordedOperation& operation) {
    Json json{{"number", operation.number},
              {"kind", name_of_record_kind(operation.kind)},
              {"ordinal", operation.ordinal},
              {"announced_ns", operation.announced_ns}};
    if (operation.kind == RecordKind::kStep) {
        return json;
    }
    if (operation.kind == RecordKind::kScope) {
        json["name"] = operation.name;
        json["ended_ns"] = operation.ended_ns.value_or(operation.announced_ns);
        return json;
    }
    if (operation.has_name_record) {
        json["set"] = operation.set_id;
        json["name"] = operation.name;
        json["name_hash"] = operation.name_hash;
    }
    json["generation"] = operation.generation;
    json["bytes"] = operation.bytes;
    json["dtype"] = operation.dtype;
    json["reduce_op"] = operation.reduce_op;
    json["blocking"] = operation.is_blocking;
    if (operation.batch) {
        json["batch"] = *operation.batch;
    }
    if (operation.started_ns) {
        json["started_ns"] = *operation.started_ns;
    }
    if (operation.ended_ns) {
        json["ended_ns"] = *operation.ended_ns;
        json["status"] = operation.status;
    }
    return json;
}

Json json_of(const RecordedCounters& counters) {
    Json json{{"announced", counters.announced},
              {"ended", counters.ended},
              {"failed", counters.failed},
              {"bytes", counters.bytes},
              {"batches", counters.batches},
              {"waited_ns", counters.waited_ns},
              {"executed_ns", counters.executed_ns},
              {"steps", counters.steps},
              {"scopes", counters.scopes}};
    if (counters.step_began_ns) {
        json["step_began_ns"] = *counters.step_began_ns;
    }
    if (counters.step_ns) {
        json["step_ns"] = *counters.step_ns;
    }
    return json;
}

/// One line. A name may have bytes that are not UTF-8; they are replaced.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// ---- reading --------------------------------------------------------------------------------------------------------

/// What is wrong with the file.
struct Damage {
    std::string text;
};

const Json* find(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() ? &*found : nullptr;
}

/// Throws Damage if the number does not fit.
template <class T>
T number_of(const Json& value, const char* key) {
    constexpr auto kLeast = std::numeric_limits<T>::min();
    constexpr auto kMost = std::numeric_limits<T>::max();
    if (value.is_number_unsigned()) {
        if (const auto number = value.get<std::uint64_t>(); std::cmp_less_equal(number, kMost)) {
            return static_cast<T>(number);
        }
    } else if (value.is_number_integer()) {
        if (const auto number = value.get<std::int64_t>();
            std::cmp_greater_equal(number, kLeast) && std::cmp_less_equal(number, kMost)) {
            return static_cast<T>(number);
        }
    }
    throw Damage{fmt::format("'{}' is not a number between {} and {}", key, kLeast, kMost)};
}

template <class T>
void read(const Json& object, const char* key, T& into) {
    const Json* const value = find(object, key);
    if (value == nullptr) {
        throw Damage{fmt::format("'{}' is missing", key)};
    }
    if constexpr (std::is_same_v<T, std::string>) {
        if (!value->is_string()) {
            throw Damage{fmt::format("'{}' is not a text", key)};
        }
        into = value->get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
        if (!value->is_boolean()) {
            throw Damage{fmt::format("'{}' is neither true nor false", key)};
        }
        into = value->get<bool>();
    } else {
        into = number_of<T>(*value, key);
    }
}

template <class T>
void read(const Json& object, const char* key, std::optional<T>& into) {
    if (find(object, key) != nullptr) {
        read(object, key, into.emplace());
    }
}
/// A time. Sums and differences of times that were read do not overflow.
void read_ns(const Json& object, const char* key, std::int64_t& into) {
    constexpr std::int64_t kMostNs = std::int64_t{1} << 61;  // 73 years
    read(object, key, into);
    if (into <= -kMostNs || into >= kMostNs) {
        throw Damage{fmt::format("'{}' is not a time", key)};
    }
}
void read_ns(const Json& object, const char* key, std::optional<std::int64_t>& into) {
    if (find(object, key) != nullptr) {
        read_ns(object, key, into.emplace());
    }
}

const Json& array_of(const Json& object, const char* key) {
    const Json* const value = find(object, key);
    if (value == nullptr || !value->is_array()) {
        throw Damage{fmt::format("'{}' is not a list", key)};
    }
    return *value;
}

std::uint8_t kind_of(const std::string& name) {
    for (unsigned kind = 0; kind <= RecordKind::kScope; ++kind) {
        if (name_of_record_kind(static_cast<std::uint8_t>(kind)) == name) {
            return static_cast<std::uint8_t>(kind);
        }
    }
    throw Damage{"the kind of an operation is not known"};
}

RecordedOperation operation_of(const Json& json) {
    if (!json.is_object()) {
        throw Damage{"an operation is not an object"};
    }
    RecordedOperation operation;
    std::string kind;
    read(json, "kind", kind);
    operation.kind = kind_of(kind);
    read(json, "number", operation.number);
    read(json, "ordinal", operation.ordinal);
    read_ns(json, "announced_ns", operation.announced_ns);
    if (operation.kind == RecordKind::kStep) {
        return operation;
    }
    if (operation.kind == RecordKind::kScope) {
        read(json, "name", operation.name);
        read_ns(json, "ended_ns", operation.ended_ns.emplace());
        operation.has_name_record = true;
        return operation;
    }
    operation.has_name_record = find(json, "name") != nullptr;
    if (operation.has_name_record) {
        read(json, "set", operation.set_id);
        read(json, "name", operation.name);
        read(json, "name_hash", operation.name_hash);
    }
    read(json, "generation", operation.generation);
    read(json, "bytes", operation.bytes);
    read(json, "dtype", operation.dtype);
    read(json, "reduce_op", operation.reduce_op);
    read(json, "blocking", operation.is_blocking);
    read(json, "batch", operation.batch);
    read_ns(json, "started_ns", operation.started_ns);
    read_ns(json, "ended_ns", operation.ended_ns);
    if (operation.ended_ns) {
        read(json, "status", operation.status);
    }
    return operation;
}

RecordedCounters counters_of(const Json& json) {
    RecordedCounters counters;
    read(json, "announced", counters.announced);
    read(json, "ended", counters.ended);
    read(json, "failed", counters.failed);
    read(json, "bytes", counters.bytes);
    read(json, "batches", counters.batches);
    read_ns(json, "waited_ns", counters.waited_ns);
    read_ns(json, "executed_ns", counters.executed_ns);
    read(json, "steps", counters.steps);
    if (find(json, "scopes") != nullptr) {  // an older file has none
        read(json, "scopes", counters.scopes);
    }
    read_ns(json, "step_began_ns", counters.step_began_ns);
    read_ns(json, "step_ns", counters.step_ns);
    return counters;
}

void check_format(const Json& json) {
    const Json* const format = json.is_object() ? find(json, "format") : nullptr;
    if (format == nullptr || *format != kFormat) {
        throw Damage{"it is not a file of the flight recorder"};
    }
    std::int32_t version = 0;
    read(json, "version", version);
    if (version != kVersion) {
        throw Damage{fmt::format("it has version {}; this program reads version {}", version, kVersion)};
    }
}

Recording recording_of(const Json& json) {
    check_format(json);
    Recording recording;
    read(json, "rank", recording.rank);
    read(json, "size", recording.size);
    if (recording.size > kLargestSize) {
        throw Damage{fmt::format("'size' is not a number of ranks up to {}", kLargestSize)};
    }
    if (recording.rank < 0 || recording.rank >= recording.size) {
        throw Damage{fmt::format("rank {} of {} ranks", recording.rank, recording.size)};
    }
    read(json, "host", recording.host);
    read(json, "pid", recording.pid);
    read(json, "state", recording.state);
    read(json, "written_by", recording.written_by);
    read(json, "reason", recording.reason);
    read_ns(json, "written_ns", recording.written_ns);
    read_ns(json, "began_ns", recording.began_ns);
    read_ns(json, "realtime_offset_ns", recording.realtime_offset_ns);
    read(json, "step", recording.step);
    read(json, "busy", recording.busy);
    const Json* const counters = find(json, "counters");
    if (counters == nullptr || !counters->is_object()) {
        throw Damage{"'counters' is not an object"};
    }
    recording.counters = counters_of(*counters);
    for (const Json& set : array_of(json, "sets")) {
        if (!set.is_object()) {
            throw Damage{"a process set is not an object"};
        }
        read(set, "id", recording.sets.emplace_back().id);
        read(set, "ranks", recording.sets.back().ranks);
    }
    for (const Json& operation : array_of(json, "operations")) {
        recording.operations.push_back(operation_of(operation));
        if (const std::size_t count = recording.operations.size();
            count > 1 && recording.operations[count - 2].number >= recording.operations[count - 1].number) {
            throw Damage{"the operations are not in order"};
        }
    }
    return recording;
}

}  // namespace

std::string recording_file_name(std::int32_t rank) { return fmt::format("{}{}{}", kNamePrefix, rank, kNameSuffix); }

std::optional<std::int32_t> rank_of_recording_file(std::string_view name) {
    if (!name.starts_with(kNamePrefix) || !name.ends_with(kNameSuffix) ||
        name.size() < kNamePrefix.size() + kNameSuffix.size()) {
        return std::nullopt;
    }
    const std::optional<std::int32_t> rank = parse_integer<std::int32_t>(
        name.substr(kNamePrefix.size(), name.size() - kNamePrefix.size() - kNameSuffix.size()));
    return rank && *rank >= 0 ? rank : std::nullopt;
}

std::string format_recording(const Recording& recording) {
    Json head{{"format", kFormat},
              {"version", kVersion},
              {"rank", recording.rank},
              {"size", recording.size},
              {"host", recording.host},
              {"pid", recording.pid},
              {"state", recording.state},
              {"written_by", recording.written_by},
              {"reason", recording.reason},
              {"written_ns", recording.written_ns},
              {"began_ns", recording.began_ns},
              {"realtime_offset_ns", recording.realtime_offset_ns},
              {"step", recording.step},
              {"busy", recording.busy},
              {"counters", json_of(recording.counters)},
              {"sets", Json::array()}};
    for (const RecordedSet& set : recording.sets) {
        head["sets"].push_back({{"id", set.id}, {"ranks", set.ranks}});
    }
    // The operations come last, one on each line, so that the file can also be read with `tail`.
    std::string text = line_of(head);
    text.back() = ',';
    text += "\n\"operations\":[";
    const char* separator = "\n";
    for (const RecordedOperation& operation : recording.operations) {
        text += separator;
        text += line_of(json_of(operation));
        separator = ",\n";
    }
    text += "\n]}\n";
    return text;
}

Result<Recording> parse_recording(std::string_view text) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
        return failure(ErrorCode::invalid_argument, "it is not whole JSON");
    }
    try {
        return recording_of(json);
    } catch (const Damage& damage) {
        return Status(ErrorCode::invalid_argument, damage.text);
    } catch (const Json::exception& error) {
        return failure(ErrorCode::invalid_argument, "{}", error.what());
    }
}

}  // namespace rueda::base
