// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/recorder/recording_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/json_fields.hpp"
#include "base/numbers.hpp"

namespace rueda::base {

namespace {

using json_fields::Json;

constexpr std::string_view kRecordingFormat = "rueda-recorder";
constexpr int kRecordingVersion = 1;
constexpr std::int32_t kLargestSize = 1 << 20;  // the largest number of ranks, as for the setting RUEDA_SIZE
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
    json["bytes"] = operation.bytes;
    json["dtype"] = operation.dtype;
    json["blocking"] = operation.is_blocking;
    if (RecordKind::is_message(operation.kind)) {
        json["set"] = operation.set_id;
        json["peer"] = operation.message.peer;
        json["tag"] = operation.message.tag;
        json.erase("ordinal");
    } else {
        json["generation"] = operation.generation;
        json["reduce_op"] = operation.reduce_op;
    }
    if (operation.has_name_record) {
        json["set"] = operation.set_id;
        json["name"] = operation.name;
        json["name_hash"] = operation.name_hash;
    }
    if (operation.batch) {
        json["batch"] = *operation.batch;
    }
    if (operation.started_ns) {
        json["started_ns"] = *operation.started_ns;
    }
    if (operation.is_launched) {
        json["launched"] = true;
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
              {"scopes", counters.scopes},
              {"messages", counters.messages},
              {"parts", counters.parts}};
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

bool is_message(const RecordedOperation& operation) { return RecordKind::is_message(operation.kind); }

/// Formats a field whose value is a list: either the sends and receives, or all other records. Parts of executions are
/// left out, because only timelines use them.
void append_list(std::string& text, std::string_view key, const std::vector<RecordedOperation>& operations,
                 bool messages) {
    text += fmt::format("\"{}\":[", key);
    const char* separator = "\n";
    for (const RecordedOperation& operation : operations) {
        if (is_message(operation) == messages && operation.kind != RecordKind::kPart) {
            text += separator;
            text += line_of(json_of(operation));
            separator = ",\n";
        }
    }
    text += "\n]";
}

// ---- reading --------------------------------------------------------------------------------------------------------

std::uint8_t kind_of(const std::string& name) {
    for (unsigned kind = 0; kind <= RecordKind::kReceive; ++kind) {
        if (name_of_record_kind(static_cast<std::uint8_t>(kind)) == name) {
            return static_cast<std::uint8_t>(kind);
        }
    }
    throw json_fields::Damage{"the kind of an operation is not known"};
}

/// The fields that an operation has if it is neither a step nor a scope.
void read_transfer(const Json& json, RecordedOperation& operation) {
    json_fields::read(json, "bytes", operation.bytes);
    json_fields::read(json, "dtype", operation.dtype);
    json_fields::read(json, "blocking", operation.is_blocking);
    json_fields::read_ns(json, "started_ns", operation.started_ns);
    json_fields::read_ns(json, "ended_ns", operation.ended_ns);
    operation.is_launched = json_fields::find(json, "launched") != nullptr;
    if (operation.ended_ns) {
        json_fields::read(json, "status", operation.status);
    }
}

RecordedOperation operation_of(const Json& json) {
    RecordedOperation operation;
    std::string kind;
    json_fields::read(json, "kind", kind);
    operation.kind = kind_of(kind);
    json_fields::read(json, "number", operation.number);
    json_fields::read_ns(json, "announced_ns", operation.announced_ns);
    if (RecordKind::is_message(operation.kind)) {
        json_fields::read(json, "set", operation.set_id);
        json_fields::read(json, "peer", operation.message.peer);
        json_fields::read(json, "tag", operation.message.tag);
        read_transfer(json, operation);
        return operation;
    }
    json_fields::read(json, "ordinal", operation.ordinal);
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
    json_fields::read(json, "reduce_op", operation.reduce_op);
    json_fields::read(json, "batch", operation.batch);
    read_transfer(json, operation);
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
    // A file that an earlier version of Rueda wrote may lack some of the fields that are read with read_if_there().
    const auto read_if_there = [&json](const char* key, std::uint64_t& into) {
        if (json_fields::find(json, key) != nullptr) {
            json_fields::read(json, key, into);
        }
    };
    read_if_there("scopes", counters.scopes);
    read_if_there("messages", counters.messages);
    read_if_there("parts", counters.parts);
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

/// Takes the operations out of the JSON while the JSON is parsed, so that the tree of the JSON does not contain them. A
/// file may have thousands of operations. To build a tree with an object for each of them would take more time than
/// everything else.
class OperationLists {
public:
    /// A callback for Json::parse(). Returns false for elements that must not become a part of the tree.
    bool see(int depth, Json::parse_event_t event, const Json& parsed) {
        if (event == Json::parse_event_t::key && depth == 1) {
            list_ = parsed == "operations" ? &operations_ : parsed == "messages" ? &messages_ : nullptr;
        }
        const bool is_element = event == Json::parse_event_t::object_end && depth == 2 && list_ != nullptr;
        if (is_element && !damage_) {
            try {
                list_->push_back(operation_of(parsed));
            } catch (const json_fields::Damage& damage) {
                // The damage is only noted here, and take() reports it after the whole file was parsed. The head of the
                // file may show that this is another kind of file, and that is the better error.
                damage_ = damage;
            }
        }
        return !is_element;
    }

    /// Returns all operations, in the order of their numbers. `json` is the tree without the operations.
    [[nodiscard]] std::vector<RecordedOperation> take(const Json& json) {
        if (damage_) {
            throw json_fields::Damage(*damage_);
        }
        // A file that an earlier version of Rueda wrote has no list "messages".
        if (!json_fields::array_of(json, "operations").empty() ||
            (json_fields::find(json, "messages") != nullptr && !json_fields::array_of(json, "messages").empty())) {
            throw json_fields::Damage{"an operation is not an object"};
        }
        const auto middle = static_cast<std::ptrdiff_t>(operations_.size());
        const auto is_before = [](const RecordedOperation& a, const RecordedOperation& b) {
            return a.number < b.number;
        };
        std::move(messages_.begin(), messages_.end(), std::back_inserter(operations_));
        std::inplace_merge(operations_.begin(), operations_.begin() + middle, operations_.end(), is_before);
        const auto is_wrong = [&](const RecordedOperation& a, const RecordedOperation& b) { return !is_before(a, b); };
        if (std::adjacent_find(operations_.begin(), operations_.end(), is_wrong) != operations_.end()) {
            throw json_fields::Damage{"the operations are not in order"};
        }
        return std::move(operations_);
    }

private:
    std::vector<RecordedOperation> operations_;
    std::vector<RecordedOperation> messages_;
    std::vector<RecordedOperation>* list_ = nullptr;  // the list whose elements are being parsed
    std::optional<json_fields::Damage> damage_;       // the first damage that was found
};

Recording recording_of(const Json& json, OperationLists& lists) {
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
    recording.operations = lists.take(json);
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
    // The operations come last, one on each line, so that the file can also be read with `tail`. Sends and receives are
    // in a list of their own. Readers of earlier versions of Rueda do not know this list and ignore it.
    std::string text = line_of(head);
    text.back() = ',';
    text += '\n';
    append_list(text, "operations", recording.operations, /*messages=*/false);
    if (std::any_of(recording.operations.begin(), recording.operations.end(), is_message)) {
        text += ",\n";
        append_list(text, "messages", recording.operations, /*messages=*/true);
    }
    text += "}\n";
    return text;
}

Result<Recording> parse_recording(std::string_view text) {
    OperationLists lists;
    try {
        const Json json = Json::parse(
            text,
            [&lists](int depth, Json::parse_event_t event, Json& parsed) { return lists.see(depth, event, parsed); },
            /*allow_exceptions=*/false);
        if (json.is_discarded()) {
            return failure(ErrorCode::invalid_argument, "it is not whole JSON");
        }
        return recording_of(json, lists);
    } catch (const json_fields::Damage& damage) {
        return Status(ErrorCode::invalid_argument, damage.text);
    } catch (const Json::exception& error) {
        return failure(ErrorCode::invalid_argument, "{}", error.what());
    }
}

}  // namespace rueda::base
