// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/rank_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/timeline/trace_text.hpp"

namespace rueda::base {

namespace {

/// The largest number of rows for messages, and for operations without a name. Messages (or operations) that are
/// pending at the same time are drawn in different rows. If there are not enough rows, the first row is used again.
constexpr std::size_t kMostLanes = 8;
static_assert(RankRows::kMessages + static_cast<std::int32_t>(kMostLanes) <= RankRows::kGpus);

/// Appends the name of a row. `category` is "part" for a row that shows parts of executions. `rueda timeline` copies
/// the events of this category without changes.
void append_row_name(std::string& text, std::int32_t pid, std::int32_t tid, std::string_view name,
                     std::string_view category = "") {
    append_event(text, {.name = R"("thread_name")",
                        .category = category,
                        .phase = 'M',
                        .pid = pid,
                        .tid = tid,
                        .args = fmt::format(R"({{"name":{}}})", json_text(name))});
    append_event(text, {.name = R"("thread_sort_index")",
                        .category = category,
                        .phase = 'M',
                        .pid = pid,
                        .tid = tid,
                        .args = fmt::format(R"({{"sort_index":{}}})", tid)});
}

std::string name_of_row(const RecordedOperation& record) {
    std::string name =
        record.name.empty() ? fmt::format("{} without a name", name_of_record_kind(record.kind)) : record.name;
    if (record.set_id != 0) {
        name += fmt::format(" (set {})", record.set_id);
    }
    return name;
}

/// Returns all fields of the record of a message, so that `rueda timeline` can restore the record from the event.
std::string args_of_message(const RecordedOperation& record) {
    return fmt::format(
        R"({{"kind":"{}","set":{},"peer":{},"tag":{},"number":{},"bytes":{},"dtype":{},"blocking":{},"status":{},)"
        R"("ns":[{},{},{}]}})",
        name_of_record_kind(record.kind), record.set_id, record.message.peer, record.message.tag, record.number,
        record.bytes, record.dtype, record.is_blocking, record.status, record.announced_ns,
        number_or_null(record.started_ns), number_or_null(record.ended_ns));
}

std::string name_of_part(PartKind kind, std::int32_t awaited) {
    switch (kind) {
        case PartKind::copy_in:
            return "COPY_IN";
        case PartKind::reduce:
            return "REDUCE";
        case PartKind::copy_out:
            return "COPY_OUT";
        case PartKind::network:
            return "NETWORK";
        case PartKind::wait:
            return awaited >= 0 ? fmt::format("waiting for rank {}", awaited) : "waiting for another rank";
        case PartKind::wait_for_hosts:
            return "waiting for other hosts";
        case PartKind::wait_for_gpu:
            return "waiting for the GPU or NCCL";
        case PartKind::rest:
            return "FURTHER_CHUNKS";
        case PartKind::gpu:
        case PartKind::work:
            break;
    }
    return "WORK";
}

std::string name_of_rank(std::int32_t rank) { return rank < 0 ? "any rank" : fmt::format("rank {}", rank); }

}  // namespace

std::string upper_name_of_kind(std::uint8_t kind) {
    std::string name(name_of_record_kind(kind));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return name;
}

void RankRows::append_names(std::string& text, std::string_view host) const {
    append_event(text, {.name = R"("process_name")",
                        .phase = 'M',
                        .pid = rank_,
                        .args = fmt::format(R"({{"name":{}}})", json_text(fmt::format("rank {} on {}", rank_, host)))});
    append_event(text, {.name = R"("process_sort_index")",
                        .phase = 'M',
                        .pid = rank_,
                        .args = fmt::format(R"({{"sort_index":{}}})", rank_)});
    append_row_name(text, rank_, kSteps, "steps");
    append_row_name(text, rank_, kScopes, "program");
    append_row_name(text, rank_, kWaits, "waiting for other ranks");
    append_row_name(text, rank_, kBatches, "execution");
}

std::int32_t RankRows::new_row(std::string_view name, std::string& text) {
    const std::int32_t tid = kFirstName + names_;
    if (names_ == kMostNames) {
        return tid;
    }
    ++names_;
    append_row_name(text, rank_, tid, names_ == kMostNames ? "further names" : name);
    return tid;
}

template <class MakeRow>
std::int32_t RankRows::lane_for(std::vector<Lane>& lanes, std::int64_t begin_ns, std::int64_t end_ns, bool may_add,
                                MakeRow&& make_row) {
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& one) { return one.end_ns <= begin_ns; });
    if (lane == lanes.end()) {
        if (lanes.size() < kMostLanes && may_add) {
            lanes.push_back({make_row(lanes.size()), end_ns});
            return lanes.back().tid;
        }
        lane = lanes.begin();
    }
    lane->end_ns = std::max(lane->end_ns, end_ns);
    return lane->tid;
}

std::int32_t RankRows::row_of(const RecordedOperation& record, std::int64_t end_ns, std::string& text) {
    const bool has_name = !record.name.empty();
    const RowKey key{record.set_id, record.name, has_name ? std::uint8_t{0} : record.kind};
    if (names_ >= kMostNames && rows_.find(key) == rows_.end()) {
        return kFirstName + kMostNames - 1;
    }
    return lane_for(rows_[key], record.announced_ns, end_ns, names_ < kMostNames,
                    [&](std::size_t) { return new_row(name_of_row(record), text); });
}

std::int32_t RankRows::row_of_message(const RecordedOperation& record, std::int64_t end_ns, std::string& text) {
    return lane_for(messages_, record.announced_ns, end_ns, /*may_add=*/true, [&](std::size_t index) {
        const std::int32_t tid = kMessages + static_cast<std::int32_t>(index);
        append_row_name(text, rank_, tid, "sends and receives");
        return tid;
    });
}

void RankRows::add_message(const RecordedOperation& record, std::int64_t now_ns, std::string& text) {
    const std::int64_t end = std::max(record.ended_ns.value_or(now_ns), record.announced_ns);
    const std::int64_t started = std::clamp(record.started_ns.value_or(end), record.announced_ns, end);
    const std::int32_t tid = row_of_message(record, end, text);
    const auto span = [&](std::string_view name, std::string_view category, std::int64_t from, std::int64_t to,
                          std::string_view args) {
        append_event(text, {.name = name,
                            .category = category,
                            .pid = rank_,
                            .tid = tid,
                            .begin_ns = from,
                            .end_ns = to,
                            .args = args});
    };
    const std::int32_t peer = record.message.peer;
    const bool sends = record.kind == RecordKind::kSend;
    span(fmt::format(R"("{} {}")", sends ? "SEND to" : "RECEIVE from", name_of_rank(peer)), "message",
         record.announced_ns, end, args_of_message(record));
    if (started > record.announced_ns && peer != rank_) {
        span(fmt::format(R"("waiting for {}")", name_of_rank(peer)), "wait", record.announced_ns, started,
             fmt::format(R"({{"rank":{}}})", peer));
        if (record.is_blocking && peer >= 0) {
            add_wait(record.announced_ns, started, peer);
        }
    }
    if (record.started_ns) {
        span(R"("TRANSFER")", "execution", started, end, "");
    }
}

void RankRows::append_step(std::int64_t end_ns, std::string& text) const {
    append_event(text, {.name = fmt::format(R"("step {}")", *step_),
                        .category = "step",
                        .pid = rank_,
                        .tid = kSteps,
                        .begin_ns = step_began_ns_,
                        .end_ns = end_ns,
                        .args = fmt::format(R"({{"step":{}}})", *step_)});
}

void RankRows::begin_step(std::uint64_t step, std::int64_t ns, std::string& text) {
    if (step_) {
        append_step(ns, text);
    }
    step_ = step;
    step_began_ns_ = ns;
}

void RankRows::add_scope(const RecordedOperation& record, std::string& text) const {
    append_event(text, {.name = json_text(record.name),
                        .category = "scope",
                        .pid = rank_,
                        .tid = kScopes,
                        .begin_ns = record.announced_ns,
                        .end_ns = record.ended_ns.value_or(record.announced_ns)});
}

/// For the rank, a batch ends when its work is given to the GPU. The GPU does the work later, so this work is drawn in
/// a row of the GPU, outside of the batch's span. A stream does its work in order, so the spans of a GPU do not
/// overlap.
void RankRows::add_gpu_part(const RecordedOperation& record, std::string& text) {
    constexpr std::size_t kMostGpus = kFirstName - kGpus;
    const GpuPart gpu = GpuPart::of(record.message.tag);
    auto row = std::find(gpus_.begin(), gpus_.end(), gpu.device);
    if (row == gpus_.end()) {
        if (gpus_.size() == kMostGpus) {
            return;
        }
        row = gpus_.insert(gpus_.end(), gpu.device);
        append_row_name(text, rank_, kGpus + static_cast<std::int32_t>(row - gpus_.begin()),
                        fmt::format("GPU {}", gpu.device), "part");
    }
    const std::string kind = upper_name_of_kind(static_cast<std::uint8_t>(record.message.peer));
    append_event(
        text,
        {.name = json_text(gpu.operations == 1 ? kind : fmt::format("{} of {} tensors", kind, gpu.operations)),
         .category = "part",
         .pid = rank_,
         .tid = kGpus + static_cast<std::int32_t>(row - gpus_.begin()),
         .begin_ns = record.announced_ns,
         .end_ns = record.ended_ns.value_or(record.announced_ns),
         .args = fmt::format(R"({{"set":{},"gpu":{},"operations":{}}})", record.set_id, gpu.device, gpu.operations)});
}

void RankRows::add_part(const RecordedOperation& record, std::string& text) {
    const auto kind = static_cast<PartKind>(record.dtype);
    if (kind == PartKind::gpu) {
        add_gpu_part(record, text);
        return;
    }
    std::string args = fmt::format(R"({{"set":{},"steps":{})", record.set_id, record.message.tag);
    if (kind == PartKind::wait) {
        args += fmt::format(R"(,"rank":{})", record.message.peer);
    } else if (kind == PartKind::rest) {
        args += fmt::format(R"(,"waited_ns":{})", record.bytes);
    }
    append_event(text, {.name = json_text(name_of_part(kind, record.message.peer)),
                        .category = "part",
                        .pid = rank_,
                        .tid = kBatches,
                        .begin_ns = record.announced_ns,
                        .end_ns = record.ended_ns.value_or(record.announced_ns),
                        .args = args + "}"});
}

void RankRows::add_execution(const RecordedOperation& record) {
    if (!record.started_ns || !record.ended_ns) {
        return;
    }
    // The operations of a batch have the same position in the log (the process set's list of batches), and were started
    // together. An operation that was executed alone is a batch of its own.
    const auto same = std::find_if(batches_.rbegin(), batches_.rend(), [&](const Batch& batch) {
        return record.batch && batch.position == record.batch && batch.set_id == record.set_id &&
               batch.kind == record.kind;
    });
    if (same == batches_.rend()) {
        batches_.push_back({.set_id = record.set_id,
                            .kind = record.kind,
                            .position = record.batch,
                            .begin_ns = *record.started_ns,
                            .end_ns = *record.ended_ns,
                            .operations = 1,
                            .bytes = record.bytes});
        return;
    }
    same->begin_ns = std::min(same->begin_ns, *record.started_ns);
    same->end_ns = std::max(same->end_ns, *record.ended_ns);
    ++same->operations;
    same->bytes += record.bytes;
    same->is_new = true;
}

void RankRows::append_batch(const Batch& batch, std::string& text, bool marks_cycles) const {
    if (marks_cycles) {
        append_event(text, {.name = R"("CYCLE_START")",
                            .category = "cycle",
                            .phase = 'i',
                            .pid = rank_,
                            .tid = kBatches,
                            .begin_ns = batch.begin_ns});
    }
    const std::string kind = upper_name_of_kind(batch.kind);
    const std::string position = batch.position ? std::to_string(*batch.position) : "null";
    append_event(text, {.name = batch.operations == 1 ? fmt::format(R"("{}")", kind)
                                                      : fmt::format(R"("{} of {} tensors")", kind, batch.operations),
                        .category = "batch",
                        .pid = rank_,
                        .tid = kBatches,
                        .begin_ns = batch.begin_ns,
                        .end_ns = batch.end_ns,
                        .args = fmt::format(R"({{"set":{},"batch":{},"operations":{},"bytes":{}}})", batch.set_id,
                                            position, batch.operations, batch.bytes)});
}

void RankRows::append_wait(const Wait& wait, std::string& text) const {
    append_event(text, {.name = fmt::format(R"("waiting for rank {}")", wait.last_rank),
                        .category = "waits",
                        .pid = rank_,
                        .tid = kWaits,
                        .begin_ns = wait.begin_ns,
                        .end_ns = wait.end_ns,
                        .args = fmt::format(R"({{"rank":{},"operations":{}}})", wait.last_rank, wait.operations)});
}

/// Appends the waits as spans that do not overlap, because the format does not allow spans in one row to overlap. If
/// waits for different ranks overlap, the earlier wait is drawn completely, and the later wait is drawn from the end of
/// the earlier one.
void RankRows::settle_waits(std::string& text) {
    std::sort(waits_.begin(), waits_.end(), [](const Wait& a, const Wait& b) { return a.begin_ns < b.begin_ns; });
    for (const Wait& wait : waits_) {
        if (wait_ && wait.last_rank == wait_->last_rank && wait.begin_ns <= wait_->end_ns) {
            wait_->end_ns = std::max(wait_->end_ns, wait.end_ns);
            wait_->operations += wait.operations;
            continue;
        }
        Wait rest = wait;
        if (wait_) {
            rest.begin_ns = std::max(rest.begin_ns, wait_->end_ns);
            if (rest.begin_ns >= rest.end_ns) {
                continue;
            }
            append_wait(*wait_, text);
        }
        wait_ = rest;
    }
    waits_.clear();
}

void RankRows::settle(std::string& text, bool marks_cycles) {
    settle_waits(text);
    std::stable_sort(batches_.begin(), batches_.end(),
                     [](const Batch& a, const Batch& b) { return a.begin_ns < b.begin_ns; });
    // If an operation was added to a batch since the last call of settle(), more operations of this batch may follow.
    // The batch is therefore kept until the next call of settle().
    std::erase_if(batches_, [&](Batch& batch) {
        if (batch.is_new && batch.position) {
            batch.is_new = false;
            return false;
        }
        append_batch(batch, text, marks_cycles);
        return true;
    });
}

void RankRows::finish(std::int64_t now_ns, std::string& text, bool marks_cycles) {
    settle(text, marks_cycles);
    settle(text, marks_cycles);
    if (wait_) {
        append_wait(*wait_, text);
        wait_.reset();
    }
    if (step_) {
        append_step(now_ns, text);
        step_.reset();
    }
}

}  // namespace rueda::base
