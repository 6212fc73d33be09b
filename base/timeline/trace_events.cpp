// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/trace_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/timeline/trace_text.hpp"
#include "rueda/types.hpp"

namespace rueda::base {

namespace {

/// Returns all fields of the record, so that `rueda timeline` can restore the operation from the event.
std::string args_of_record(const RecordedOperation& record, std::int32_t last_rank) {
    return fmt::format(
        R"({{"set":{},"name":{},"hash":{},"generation":{},"batch":{},"number":{},"ordinal":{},"bytes":{},"dtype":{},)"
        R"("reduce_op":{},"blocking":{},"status":{},"ns":[{},{},{}],"last_rank":{}}})",
        record.set_id, json_text(record.name), record.name_hash, record.generation,
        record.batch ? std::to_string(*record.batch) : "null", record.number, record.ordinal, record.bytes,
        record.dtype, record.reduce_op, record.is_blocking, record.status, record.announced_ns,
        number_or_null(record.started_ns), number_or_null(record.ended_ns), last_rank);
}

/// Returns the fields of an event that describe the operation for people.
std::string args_of_operation(const RecordedOperation& record) {
    const char* const dtype = record.dtype < kDTypeCount ? name_of(static_cast<DType>(record.dtype)) : "unknown";
    return fmt::format(R"({{"bytes":{},"dtype":"{}","background":{},"status":{}{}}})", record.bytes, dtype,
                       !record.is_blocking, record.status, record.ended_ns ? "" : R"(,"unfinished":true)");
}

}  // namespace

void TraceEvents::add_rank(std::int32_t rank, std::string_view host, std::string& text) {
    rows_of(rank).append_names(text, host);
}

void TraceEvents::add_alone(const TimelineOperation& operation, std::int64_t now_ns, std::string& text) {
    RankRows& rows = rows_of(operation.rank);
    switch (operation.record.kind) {
        case RecordKind::kStep:
            rows.begin_step(operation.record.ordinal, operation.record.announced_ns, text);
            break;
        case RecordKind::kScope:
            rows.add_scope(operation.record, text);
            break;
        case RecordKind::kPart:
            rows.add_part(operation.record, text);
            break;
        case RecordKind::kSend:
        case RecordKind::kReceive:
            rows.add_message(operation.record, now_ns, text);
            break;
        default:
            rows.add_execution(operation.record);
    }
}

void TraceEvents::add_group(const OperationGroup& group, std::int64_t now_ns, std::string& text) {
    if (group.empty()) {
        return;
    }
    const TimelineOperation& last =
        *std::max_element(group.begin(), group.end(), [](const TimelineOperation& a, const TimelineOperation& b) {
            return a.record.announced_ns < b.record.announced_ns;
        });
    for (const TimelineOperation& operation : group) {
        add_operation(operation, last.rank, last.record.announced_ns, now_ns, text);
    }
}

void TraceEvents::add_operation(const TimelineOperation& operation, std::int32_t last_rank, std::int64_t ready_ns,
                                std::int64_t now_ns, std::string& text) {
    const RecordedOperation& record = operation.record;
    const std::int64_t end = std::max(record.ended_ns.value_or(now_ns), record.announced_ns);
    // `started_ns` is missing if the operation failed before its execution, or if not all ranks announced it. The
    // clocks of the hosts differ a little, so no time may be before the announcement or after the operation's end.
    const std::int64_t started = std::clamp(record.started_ns.value_or(end), record.announced_ns, end);
    const std::int64_t ready = std::clamp(ready_ns, record.announced_ns, started);
    RankRows& rows = rows_of(operation.rank);
    const std::int32_t tid = rows.row_of(record, end, text);
    const auto span = [&](std::string_view name, std::string_view category, std::int64_t from, std::int64_t to,
                          std::string_view args) {
        append_event(text, {.name = name,
                            .category = category,
                            .pid = operation.rank,
                            .tid = tid,
                            .begin_ns = from,
                            .end_ns = to,
                            .args = args});
    };
    const std::string kind = upper_name_of_kind(record.kind);
    const std::int64_t negotiated = record.started_ns ? ready : end;
    span(fmt::format(R"("NEGOTIATE_{}")", kind), "negotiation", record.announced_ns, negotiated,
         args_of_record(record, last_rank));
    if (last_rank != operation.rank && ready > record.announced_ns) {
        span(fmt::format(R"("waiting for rank {}")", last_rank), "wait", record.announced_ns, ready,
             fmt::format(R"({{"rank":{}}})", last_rank));
        rows.add_wait(record.announced_ns, ready, last_rank);
    }
    if (!record.started_ns) {
        return;
    }
    span(fmt::format(R"("{}")", kind), "operation", ready, end, args_of_operation(record));
    span(R"("QUEUE")", "queue", ready, started, "");
    span(R"("EXECUTE")", "execution", started, end, "");
}

void TraceEvents::add_lost(std::int32_t rank, std::uint64_t count, std::int64_t now_ns, std::string& text) const {
    append_event(text, {.name = R"("RECORDS_LOST")",
                        .category = "lost",
                        .phase = 'i',
                        .pid = rank,
                        .tid = RankRows::kBatches,
                        .begin_ns = now_ns,
                        .args = fmt::format(R"({{"records":{}}})", count)});
}

void TraceEvents::settle(std::string& text) {
    for (auto& [rank, rows] : ranks_) {
        rows.settle(text, marks_cycles_);
    }
}

void TraceEvents::finish(std::int64_t now_ns, std::string& text) {
    for (auto& [rank, rows] : ranks_) {
        rows.finish(now_ns, text, marks_cycles_);
    }
}

}  // namespace rueda::base
