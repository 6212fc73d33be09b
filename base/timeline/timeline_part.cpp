// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/timeline_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json_fields.hpp"
#include "base/timeline/rank_rows.hpp"
#include "base/timeline/trace_text.hpp"

namespace rueda::base {

namespace {

using json_fields::Json;

constexpr std::string_view kTimelineFormat = "rueda-timeline";
constexpr int kTimelineVersion = 1;
constexpr std::string_view kHeaderName = "rueda_timeline";
constexpr std::string_view kEndName = "rueda_timeline_end";
constexpr std::int32_t kMostTimelineRanks = 1 << 20;  // the largest value that RUEDA_SIZE may have
constexpr std::string_view kNegotiate = "NEGOTIATE_";

TimelineHeader header_of(const Json& args) {
    std::string format;
    std::int32_t version = 0;
    json_fields::read(args, "format", format);
    json_fields::read(args, "version", version);
    if (format != kTimelineFormat || version != kTimelineVersion) {
        throw json_fields::Damage{
            fmt::format("it has version {}; this program reads version {}", version, kTimelineVersion)};
    }
    TimelineHeader header;
    json_fields::read(args, "host", header.host);
    json_fields::read(args, "host_index", header.host_index);
    json_fields::read(args, "hosts", header.host_count);
    json_fields::read(args, "size", header.size);
    json_fields::read(args, "marks_cycles", header.marks_cycles);
    json_fields::read(args, "merged", header.is_merged);
    json_fields::read_ns(args, "began_realtime_ns", header.began_realtime_ns);
    json_fields::read_ns(args, "clock_offset_ns", header.clock_offset_ns);
    json_fields::read_ns(args, "clock_uncertainty_ns", header.clock_uncertainty_ns);
    if (header.size < 1 || header.size > kMostTimelineRanks || header.host_count < 1 ||
        header.host_count > header.size || header.host_index < 0 || header.host_index >= header.host_count) {
        throw json_fields::Damage{
            fmt::format("host {} of {} hosts and {} ranks", header.host_index, header.host_count, header.size)};
    }
    return header;
}

std::optional<std::int64_t> optional_time_of(const Json& value) {
    return value.is_null() ? std::nullopt : std::optional(json_fields::time_of(value, "ns"));
}

std::uint8_t kind_of_event(std::string_view upper_name) {
    for (unsigned kind = 0; kind < RecordKind::kStep; ++kind) {
        if (upper_name_of_kind(static_cast<std::uint8_t>(kind)) == upper_name) {
            return static_cast<std::uint8_t>(kind);
        }
    }
    throw json_fields::Damage{"the kind of an operation is not known"};
}

/// Reads the fields that an operation and a message have in common.
void read_common(const Json& args, RecordedOperation& record) {
    json_fields::read(args, "set", record.set_id);
    json_fields::read(args, "number", record.number);
    json_fields::read(args, "bytes", record.bytes);
    json_fields::read(args, "dtype", record.dtype);
    json_fields::read(args, "blocking", record.is_blocking);
    json_fields::read(args, "status", record.status);
    const Json& ns = json_fields::member_of(args, "ns");
    if (!ns.is_array() || ns.size() != 3 || ns[0].is_null()) {
        throw json_fields::Damage{"'ns' is not a list of three times"};
    }
    record.announced_ns = json_fields::time_of(ns[0], "ns");
    record.started_ns = optional_time_of(ns[1]);
    record.ended_ns = optional_time_of(ns[2]);
}

RecordedOperation record_of(const Json& args, std::string_view event_name) {
    RecordedOperation record;
    record.kind = kind_of_event(event_name.substr(std::min(kNegotiate.size(), event_name.size())));
    record.has_name_record = true;
    read_common(args, record);
    json_fields::read(args, "name", record.name);
    json_fields::read(args, "hash", record.name_hash);
    json_fields::read(args, "generation", record.generation);
    if (!json_fields::member_of(args, "batch").is_null()) {
        json_fields::read(args, "batch", record.batch.emplace());
    }
    json_fields::read(args, "ordinal", record.ordinal);
    json_fields::read(args, "reduce_op", record.reduce_op);
    return record;
}

/// Returns the record of the message that this event describes.
RecordedOperation message_record_of(const Json& args) {
    RecordedOperation record;
    std::string kind;
    json_fields::read(args, "kind", kind);
    record.kind = kind == name_of_record_kind(RecordKind::kSend) ? RecordKind::kSend : RecordKind::kReceive;
    json_fields::read(args, "peer", record.message.peer);
    json_fields::read(args, "tag", record.message.tag);
    read_common(args, record);
    return record;
}

class Reader {
public:
    void add_line(std::string_view line) {
        const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!event.is_object()) {
            throw json_fields::Damage{"an event is not an object"};
        }
        std::string name;
        json_fields::read(event, "name", name);
        if (!has_header_) {
            if (name != kHeaderName) {
                throw json_fields::Damage{"it is not a timeline of Rueda"};
            }
            part_.header = header_of(json_fields::object_of(event, "args"));
            has_header_ = true;
            return;
        }
        if (name == kEndName) {
            const Json& args = json_fields::object_of(event, "args");
            json_fields::read(args, "operations", part_.end.operations);
            json_fields::read(args, "lost", part_.end.lost);
            part_.has_end = true;
            return;
        }
        add_event(event, name, line);
    }
    [[nodiscard]] TimelinePart take() {
        if (!has_header_) {
            throw json_fields::Damage{"it is not a timeline of Rueda"};
        }
        return std::move(part_);
    }

private:
    void add_event(const Json& event, const std::string& name, std::string_view line) {
        const std::int32_t rank = rank_of(event);
        if (name == "process_name") {
            part_.ranks.push_back(rank);
            return;
        }
        const auto category = event.find("cat");
        if (category == event.end() || !category->is_string()) {
            return;  // events that give rows their names are left out, because the merge makes such events itself
        }
        if (*category == "negotiation") {
            part_.operations.push_back({rank, record_of(json_fields::object_of(event, "args"), name)});
        } else if (*category == "message") {
            part_.operations.push_back({rank, message_record_of(json_fields::object_of(event, "args"))});
        } else if (*category == "step" || *category == "scope" || *category == "part" || *category == "lost") {
            part_.others.emplace_back(line);
        }
    }
    [[nodiscard]] std::int32_t rank_of(const Json& event) const {
        std::int32_t rank = 0;
        json_fields::read(event, "pid", rank);
        if (rank < 0 || rank >= part_.header.size) {
            throw json_fields::Damage{
                fmt::format("an event is of rank {}, and the job has {} ranks", rank, part_.header.size)};
        }
        return rank;
    }

    TimelinePart part_;
    bool has_header_ = false;
};

}  // namespace

std::string format_header(const TimelineHeader& header) {
    std::string text;
    append_event(
        text, {.name = R"("rueda_timeline")",
               .phase = 'M',
               .args = fmt::format(
                   R"({{"format":"{}","version":{},"host":{},"host_index":{},"hosts":{},"size":{},"marks_cycles":{},)"
                   R"("merged":{},"began_realtime_ns":{},"clock_offset_ns":{},"clock_uncertainty_ns":{}}})",
                   kTimelineFormat, kTimelineVersion, json_text(header.host), header.host_index, header.host_count,
                   header.size, header.marks_cycles, header.is_merged, header.began_realtime_ns, header.clock_offset_ns,
                   header.clock_uncertainty_ns)});
    return text;
}

std::string format_end(const TimelineEnd& end) {
    return fmt::format(R"({{"name":"{}","ph":"M","pid":0,"tid":0,"args":{{"operations":{},"lost":{}}}}})", kEndName,
                       end.operations, end.lost);
}

Result<TimelinePart> parse_timeline(std::string_view text) {
    Reader reader;
    std::size_t number = 0;
    try {
        while (!text.empty()) {
            ++number;
            const std::size_t end = std::min(text.find('\n'), text.size());
            std::string_view line = text.substr(0, end);
            const bool is_cut = end == text.size();
            text.remove_prefix(is_cut ? end : end + 1);
            if (line.ends_with(',')) {
                line.remove_suffix(1);
            }
            if (line.empty() || line == "[" || line == "]" || (is_cut && !Json::accept(line))) {
                continue;
            }
            reader.add_line(line);
        }
        return reader.take();
    } catch (const json_fields::Damage& damage) {
        return failure(ErrorCode::invalid_argument, "line {}: {}", number, damage.text);
    } catch (const Json::exception& error) {
        return failure(ErrorCode::invalid_argument, "line {}: {}", number, error.what());
    }
}

}  // namespace rueda::base
