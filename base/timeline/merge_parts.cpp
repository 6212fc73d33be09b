// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/merge_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "base/timeline/operation_groups.hpp"
#include "base/timeline/trace_events.hpp"
#include "base/timeline/trace_text.hpp"

namespace rueda::base {

namespace {

/// The merger collects its text in memory, and writes it whenever it has this many bytes.
constexpr std::size_t kMergedTextAtATime = std::size_t{1} << 20U;
/// After each further 4096 operations, the merger writes the spans that are complete. A span may cover several
/// operations, for example all operations of a batch. The operations of a batch end together, so usually the merger
/// has read all of them before it writes the batch's span.
constexpr std::uint64_t kOperationsUntilSettled = 4096;

Status check_same_job(const std::vector<PartReader>& parts) {
    const TimelineHeader& first = parts.front().header();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const TimelineHeader& header = parts[i].header();
        if (header.is_merged && parts.size() > 1) {
            return failure(ErrorCode::invalid_argument, "one of the files is merged already; give the parts only");
        }
        if (!are_of_one_job(header, first)) {
            return failure(ErrorCode::invalid_argument, "the parts of {} and of {} are of different jobs",
                           quote(first.host), quote(header.host));
        }
        const auto same = [&](const PartReader& other) { return other.header().host_index == header.host_index; };
        if (std::any_of(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), same)) {
            return failure(ErrorCode::invalid_argument, "two parts are of the host {}", quote(header.host));
        }
    }
    return {};
}

std::string clock_line(const TimelineHeader& header) {
    std::string text;
    append_event(text,
                 {.name = R"("rueda_timeline_host")",
                  .phase = 'M',
                  .args = fmt::format(R"({{"host":{},"host_index":{},"clock_offset_ns":{},"clock_uncertainty_ns":{}}})",
                                      json_text(header.host), header.host_index, header.clock_offset_ns,
                                      header.clock_uncertainty_ns)});
    return text;
}

/// A part contains its operations in the order in which they ended. Operations that had not ended come last.
std::int64_t place_of(const TimelineOperation& operation) {
    return operation.record.ended_ns.value_or(std::numeric_limits<std::int64_t>::max());
}

/// Threads: one.
class PartMerger {
public:
    PartMerger(std::vector<PartReader>& parts, std::size_t most_held, const WriteMerged& write)
        : parts_(parts),
          write_(write),
          events_(parts.front().header().marks_cycles),
          groups_(most_held),
          queues_(parts.size()) {}

    Result<MergedTotals> run() {
        begin();
        for (std::size_t part = 0; part < parts_.size(); ++part) {
            RUEDA_RETURN_IF_FAILED(refill(part));
        }
        while (const std::optional<std::size_t> part = earliest()) {
            TimelineOperation operation = std::move(queues_[*part].front());
            queues_[*part].pop_front();
            take(std::move(operation));
            RUEDA_RETURN_IF_FAILED(refill(*part));
            RUEDA_RETURN_IF_FAILED(write_if_much());
        }
        std::vector<OperationGroup> rest;
        groups_.release_all(rest);
        RUEDA_RETURN_IF_FAILED(add_groups(rest));
        events_.finish(last_ns_, text_);
        text_ += format_end(totals_.end) + "\n]\n";
        RUEDA_RETURN_IF_FAILED(write_(text_));
        return totals_;
    }

private:
    void begin() {
        TimelineHeader header = parts_.front().header();
        header.is_merged = header.host_count > 1;
        text_ = "[\n";
        std::string clocks;
        for (const PartReader& part : parts_) {
            header.clock_uncertainty_ns = std::max(header.clock_uncertainty_ns, part.header().clock_uncertainty_ns);
            clocks += clock_line(part.header());
        }
        text_ += format_header(header) + clocks;
    }

    /// Reads pieces of the file with the index `part` until a piece contains an operation, or until the file ends.
    Status refill(std::size_t part) {
        while (queues_[part].empty()) {
            Result<std::optional<TimelinePart>> piece = parts_[part].next();
            RUEDA_RETURN_IF_FAILED(piece.status());
            if (!piece.value()) {
                return {};
            }
            take_piece(*std::move(piece).value(), part);
        }
        return {};
    }

    void take_piece(TimelinePart piece, std::size_t part) {
        for (const std::int32_t rank : piece.ranks) {
            events_.add_rank(rank, parts_[part].header().host, text_);
        }
        totals_.ranks += piece.ranks.size();
        totals_.end.lost += piece.end.lost;
        for (const std::string& line : piece.others) {
            text_ += line + ",\n";
        }
        queues_[part].assign(std::make_move_iterator(piece.operations.begin()),
                             std::make_move_iterator(piece.operations.end()));
    }

    [[nodiscard]] std::optional<std::size_t> earliest() const {
        std::optional<std::size_t> found;
        for (std::size_t part = 0; part < queues_.size(); ++part) {
            if (!queues_[part].empty() &&
                (!found || place_of(queues_[part].front()) < place_of(queues_[*found].front()))) {
                found = part;
            }
        }
        return found;
    }

    void take(TimelineOperation operation) {
        const RecordedOperation& record = operation.record;
        last_ns_ = std::max(last_ns_, record.ended_ns.value_or(record.announced_ns));
        events_.add_alone(operation, last_ns_, text_);
        if (!RecordKind::is_collective(record.kind)) {
            return;
        }
        ++totals_.end.operations;
        // Set 0 is the world, so all ranks are its members. The merger keeps an operation of the world in memory until
        // it has the records of all ranks. The merger does not know the members of other sets. It therefore cannot tell
        // when it has all records of their operations, and keeps these operations longer.
        const std::size_t members = record.set_id == 0 ? static_cast<std::size_t>(parts_.front().header().size)
                                                       : std::numeric_limits<std::size_t>::max();
        groups_.add(std::move(operation), members, last_ns_, ready_);
    }

    Status write_if_much() {
        if (!ready_.empty()) {
            RUEDA_RETURN_IF_FAILED(add_groups(ready_));
        }
        if (++taken_ % kOperationsUntilSettled == 0) {
            events_.settle(text_);
        }
        return text_.size() >= kMergedTextAtATime ? write_text() : Status();
    }

    /// Empties the list.
    Status add_groups(std::vector<OperationGroup>& groups) {
        for (const OperationGroup& group : groups) {
            events_.add_group(group, last_ns_, text_);
            if (text_.size() >= kMergedTextAtATime) {
                RUEDA_RETURN_IF_FAILED(write_text());
            }
        }
        groups.clear();
        return {};
    }

    Status write_text() {
        Status written = write_(text_);
        text_.clear();
        return written;
    }

    std::vector<PartReader>& parts_;
    const WriteMerged& write_;
    TraceEvents events_;
    OperationGroups groups_;
    // Contains a queue for each part: the operations of the part's newest piece that are not merged yet.
    std::vector<std::deque<TimelineOperation>> queues_;
    std::vector<OperationGroup> ready_;
    std::string text_;  // the text that is not written yet
    std::int64_t last_ns_ = 0;
    std::size_t taken_ = 0;  // the number of records so far
    MergedTotals totals_;
};

}  // namespace

Result<MergedTotals> merge_parts(std::vector<PartReader>& parts, std::size_t most_held, const WriteMerged& write) {
    RUEDA_RETURN_IF_FAILED(check_same_job(parts));
    std::sort(parts.begin(), parts.end(),
              [](const PartReader& a, const PartReader& b) { return a.header().host_index < b.header().host_index; });
    return PartMerger(parts, most_held, write).run();
}

}  // namespace rueda::base
