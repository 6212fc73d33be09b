// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/recorder/recording_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/json_fields.hpp"
#include "base/numbers.hpp"

namespace rueda::base {

namespace {

using json_fields::Json;

constexpr std::string_view kRecordingFormat = "rueda-recorder";
constexpr int kRecordingVersion = 1;
constexpr std::int32_t kLargestSize = 1 << 20;  // the limit of the setting RUEDA_SIZE
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

/// Formats JSON as one line. Bytes that are not UTF-8 (names may contain them) are replaced.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// ---- reading --------------------------------------------------------------------------------------------------------

std::uint8_t kind_of(const std::string& name) {
    for (unsigned kind = 0; kind <= RecordKind::kScope; ++kind) {
        if (name_of_record_kind(static_cast<std::uint8_t>(kind)) == name) {
            return static_cast<std::uint8_t>(kind);
        }
    }
    throw json_fields::Damage{"the kind of an operation is not known"};
}

RecordedOperation operation_of(const Json& json) {
    if (!json.is_object()) {
        throw json_fields::Damage{"an operation is not an object"};
    }
    RecordedOperation operation;
    std::string kind;
    json_fields::read(json, "kind", kind);
    operation.kind = kind_of(kind);
    json_fields::read(json, "number", operation.number);
    json_fields::read(json, "ordinal", operation.ordinal);
    json_fields::read_ns(json, "announced_ns", operation.announced_ns);
    if (operation.kind == RecordKind::kStep) {
        return operation;
    }
    if (operation.kind == RecordKind::kScope) {
        json_fields::read(json, "name", operation.name);
        json_fields::read_ns(json, "ended_ns", operation.ended_ns.emplace());
        operation.has_name_record = true;
        return operation;
    }
    operation.has_name_record = json_fields::find(json, "name") != nullptr;
    if (operation.has_name_record) {
        json_fields::read(json, "set", operation.set_id);
        json_fields::read(json, "name", operation.name);
        json_fields::read(json, "name_hash", operation.name_hash);
    }
    json_fields::read(json, "generation", operation.generation);
    json_fields::read(json, "bytes", operation.bytes);
    json_fields::read(json, "dtype", operation.dtype);
    json_fields::read(json, "reduce_op", operation.reduce_op);
    json_fields::read(json, "blocking", operation.is_blocking);
    json_fields::read(json, "batch", operation.batch);
    json_fields::read_ns(json, "started_ns", operation.started_ns);
    json_fields::read_ns(json, "ended_ns", operation.ended_ns);
    if (operation.ended_ns) {
        json_fields::read(json, "status", operation.status);
    }
    return operation;
}

RecordedCounters counters_of(const Json& json) {
    RecordedCounters counters;
    json_fields::read(json, "announced", counters.announced);
    json_fields::read(json, "ended", counters.ended);
    json_fields::read(json, "failed", counters.failed);
    json_fields::read(json, "bytes", counters.bytes);
    json_fields::read(json, "batches", counters.batches);
    json_fields::read_ns(json, "waited_ns", counters.waited_ns);
    json_fields::read_ns(json, "executed_ns", counters.executed_ns);
    json_fields::read(json, "steps", counters.steps);
    if (json_fields::find(json, "scopes") != nullptr) {  // files of older versions do not have this field
        json_fields::read(json, "scopes", counters.scopes);
    }
    json_fields::read_ns(json, "step_began_ns", counters.step_began_ns);
    json_fields::read_ns(json, "step_ns", counters.step_ns);
    return counters;
}

void check_format(const Json& json) {
    const Json* const format = json.is_object() ? json_fields::find(json, "format") : nullptr;
    if (format == nullptr || *format != kRecordingFormat) {
        throw json_fields::Damage{"it is not a file of the flight recorder"};
    }
    std::int32_t version = 0;
    json_fields::read(json, "version", version);
    if (version != kRecordingVersion) {
        throw json_fields::Damage{
            fmt::format("it has version {}; this program reads version {}", version, kRecordingVersion)};
    }
}

Recording recording_of(const Json& json) {
    check_format(json);
    Recording recording;
    json_fields::read(json, "rank", recording.rank);
    json_fields::read(json, "size", recording.size);
    if (recording.size > kLargestSize) {
        throw json_fields::Damage{fmt::format("'size' is not a number of ranks up to {}", kLargestSize)};
    }
    if (recording.rank < 0 || recording.rank >= recording.size) {
        throw json_fields::Damage{fmt::format("rank {} of {} ranks", recording.rank, recording.size)};
    }
    json_fields::read(json, "host", recording.host);
    json_fields::read(json, "pid", recording.pid);
    json_fields::read(json, "state", recording.state);
    json_fields::read(json, "written_by", recording.written_by);
    json_fields::read(json, "reason", recording.reason);
    json_fields::read_ns(json, "written_ns", recording.written_ns);
    json_fields::read_ns(json, "began_ns", recording.began_ns);
    json_fields::read_ns(json, "realtime_offset_ns", recording.realtime_offset_ns);
    json_fields::read(json, "step", recording.step);
    json_fields::read(json, "busy", recording.busy);
    const Json* const counters = json_fields::find(json, "counters");
    if (counters == nullptr || !counters->is_object()) {
        throw json_fields::Damage{"'counters' is not an object"};
    }
    recording.counters = counters_of(*counters);
    for (const Json& set : json_fields::array_of(json, "sets")) {
        if (!set.is_object()) {
            throw json_fields::Damage{"a process set is not an object"};
        }
        json_fields::read(set, "id", recording.sets.emplace_back().id);
        json_fields::read(set, "ranks", recording.sets.back().ranks);
    }
    for (const Json& operation : json_fields::array_of(json, "operations")) {
        recording.operations.push_back(operation_of(operation));
        if (const std::size_t count = recording.operations.size();
            count > 1 && recording.operations[count - 2].number >= recording.operations[count - 1].number) {
            throw json_fields::Damage{"the operations are not in order"};
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
    Json head{{"format", kRecordingFormat},
              {"version", kRecordingVersion},
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
    // The operations come last in the file, one on each line. `tail` therefore shows the newest operations.
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
    } catch (const json_fields::Damage& damage) {
        return Status(ErrorCode::invalid_argument, damage.text);
    } catch (const Json::exception& error) {
        return failure(ErrorCode::invalid_argument, "{}", error.what());
    }
}

}  // namespace rueda::base
