// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/timeline_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/timeline/rank_rows.hpp"
#include "base/timeline/trace_text.hpp"

namespace rueda::base {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "rueda-timeline";
constexpr int kVersion = 1;
constexpr std::string_view kHeaderName = "rueda_timeline";
constexpr std::string_view kEndName = "rueda_timeline_end";
constexpr std::int32_t kMostRanks = 1 << 20;             // the limit of RUEDA_SIZE
constexpr std::int64_t kMostNs = std::int64_t{1} << 61;  // 73 years: sums of two times do not overflow
constexpr std::string_view kNegotiate = "NEGOTIATE_";

/// What is wrong with the file.
struct Damage {
    std::string text;
};

const Json& member_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) {
        throw Damage{fmt::format("'{}' is missing", key)};
    }
    return *found;
}

std::int64_t integer_of(const Json& value, const char* key, std::int64_t least, std::int64_t most) {
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                 : value.is_number_integer() && value.get<std::int64_t>() <= most;
    if (!fits || value.get<std::int64_t>() < least) {
        throw Damage{fmt::format("'{}' is not a number between {} and {}", key, least, most)};
    }
    return value.get<std::int64_t>();
}

template <class T>
void read(const Json& object, const char* key, T& into) {
    constexpr std::int64_t kLeast = std::max<std::int64_t>(std::numeric_limits<T>::min(), -kMostNs);
    constexpr std::int64_t kMost = std::cmp_less(std::numeric_limits<T>::max(), kMostNs)
                                       ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                                       : kMostNs;
    into = static_cast<T>(integer_of(member_of(object, key), key, kLeast, kMost));
}
void read(const Json& object, const char* key, bool& into) {
    const Json& value = member_of(object, key);
    if (!value.is_boolean()) {
        throw Damage{fmt::format("'{}' is neither true nor false", key)};
    }
    into = value.get<bool>();
}
void read(const Json& object, const char* key, std::string& into) {
    const Json& value = member_of(object, key);
    if (!value.is_string()) {
        throw Damage{fmt::format("'{}' is not a text", key)};
    }
    into = value.get<std::string>();
}

const Json& object_of(const Json& object, const char* key) {
    const Json& value = member_of(object, key);
    if (!value.is_object()) {
        throw Damage{fmt::format("'{}' is not an object", key)};
    }
    return value;
}

TimelineHeader header_of(const Json& args) {
    std::string format;
    std::int32_t version = 0;
    read(args, "format", format);
    read(args, "version", version);
    if (format != kFormat || version != kVersion) {
        throw Damage{fmt::format("it has version {}; this program reads version {}", version, kVersion)};
    }
    TimelineHeader header;
    read(args, "host", header.host);
    read(args, "host_index", header.host_index);
    read(args, "hosts", header.host_count);
    read(args, "size", header.size);
    read(args, "marks_cycles", header.marks_cycles);
    read(args, "merged", header.is_merged);
    read(args, "began_realtime_ns", header.began_realtime_ns);
    read(args, "clock_offset_ns", header.clock_offset_ns);
    read(args, "clock_uncertainty_ns", header.clock_uncertainty_ns);
    if (header.size < 1 || header.size > kMostRanks || header.host_count < 1 || header.host_count > header.size ||
        header.host_index < 0 || header.host_index >= header.host_count) {
        throw Damage{
            fmt::format("host {} of {} hosts and {} ranks", header.host_index, header.host_count, header.size)};
    }
    return header;
}

std::optional<std::int64_t> time_of(const Json& value) {
    return value.is_null() ? std::nullopt : std::optional(integer_of(value, "ns", -kMostNs, kMostNs));
}

std::uint8_t kind_of(std::string_view upper_name) {
    for (unsigned kind = 0; kind < RecordKind::kStep; ++kind) {
        if (upper_name_of_kind(static_cast<std::uint8_t>(kind)) == upper_name) {
            return static_cast<std::uint8_t>(kind);
        }
    }
    throw Damage{"the kind of an operation is not known"};
}

RecordedOperation record_of(const Json& args, std::string_view event_name) {
    RecordedOperation record;
    record.kind = kind_of(event_name.substr(std::min(kNegotiate.size(), event_name.size())));
    record.has_name_record = true;
    read(args, "set", record.set_id);
    read(args, "name", record.name);
    read(args, "hash", record.name_hash);
    read(args, "generation", record.generation);
    if (!member_of(args, "batch").is_null()) {
        read(args, "batch", record.batch.emplace());
    }
    read(args, "number", record.number);
    read(args, "ordinal", record.ordinal);
    read(args, "bytes", record.bytes);
    read(args, "dtype", record.dtype);
    read(args, "reduce_op", record.reduce_op);
    read(args, "blocking", record.is_blocking);
    read(args, "status", record.status);
    const Json& ns = member_of(args, "ns");
    if (!ns.is_array() || ns.size() != 3 || ns[0].is_null()) {
        throw Damage{"'ns' is not a list of three times"};
    }
    record.announced_ns = *time_of(ns[0]);
    record.started_ns = time_of(ns[1]);
    record.ended_ns = time_of(ns[2]);
    return record;
}

class Reader {
public:
    void add_line(std::string_view line) {
        const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!event.is_object()) {
            throw Damage{"an event is not an object"};
        }
        std::string name;
        read(event, "name", name);
        if (!has_header_) {
            if (name != kHeaderName) {
                throw Damage{"it is not a timeline of Rueda"};
            }
            part_.header = header_of(object_of(event, "args"));
            has_header_ = true;
            return;
        }
        if (name == kEndName) {
            const Json& args = object_of(event, "args");
            read(args, "operations", part_.end.operations);
            read(args, "lost", part_.end.lost);
            part_.has_end = true;
            return;
        }
        add_event(event, name, line);
    }
    [[nodiscard]] TimelinePart take() {
        if (!has_header_) {
            throw Damage{"it is not a timeline of Rueda"};
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
            return;  // the name of a row: it is made again
        }
        if (*category == "negotiation") {
            part_.operations.push_back({rank, record_of(object_of(event, "args"), name)});
        } else if (*category == "step" || *category == "scope" || *category == "lost") {
            part_.others.emplace_back(line);
        }
    }
    [[nodiscard]] std::int32_t rank_of(const Json& event) const {
        std::int32_t rank = 0;
        read(event, "pid", rank);
        if (rank < 0 || rank >= part_.header.size) {
            throw Damage{fmt::format("an event is of rank {}, and the job has {} ranks", rank, part_.header.size)};
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
                   kFormat, kVersion, json_text(header.host), header.host_index, header.host_count, header.size,
                   header.marks_cycles, header.is_merged, header.began_realtime_ns, header.clock_offset_ns,
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
    } catch (const Damage& damage) {
        return failure(ErrorCode::invalid_argument, "line {}: {}", number, damage.text);
    } catch (const Json::exception& error) {
        return failure(ErrorCode::invalid_argument, "line {}: {}", number, error.what());
    }
}

}  // namespace rueda::base
