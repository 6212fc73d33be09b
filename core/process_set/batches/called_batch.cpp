// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/called_batch.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/rows.hpp"

namespace rueda::core {

using collectives::has_variable_rows;
using collectives::Location;
using collectives::Operation;

void CalledBatch::begin(std::uint64_t begin, std::uint64_t end) {
    begin_ = begin;
    end_ = end;
    entries_.clear();
    segments_.clear();
    locations_.clear();
    splits_.clear();
}

Status CalledBatch::add(TensorEntry& entry, const Call& called, std::uint64_t position) {
    entries_.push_back(&entry);
    // Only operations of one kind may share a batch (core/negotiation/batch_end.hpp). No slot can occur twice in a
    // batch, because the next operation in a slot is called only after the previous one has ended.
    const Fusion fusion = fusion_of(entry.request.metadata);
    const bool may_share = fusion != Fusion::alone && fusion == fusion_of(first().request.metadata);
    if (entry.called_at == begin_ || (end_ > begin_ + 1 && !may_share)) {
        return failure(ErrorCode::internal, "entry {} of the log calls slot {} in a batch in which it cannot be",
                       position, called.slot);
    }
    entry.called_at = begin_;
    RUEDA_RETURN_IF_FAILED(read_rows(called.attachment));
    return add_segment(entry, called);
}

Status CalledBatch::add_segment(TensorEntry& entry, const Call& called) {
    const std::uint32_t slot = called.slot;
    const Request& request = entry.request;
    if (request.is_refused) [[unlikely]] {
        return failure(ErrorCode::internal, "tensor '{}': the log calls what no rank can do", entry.name);
    }
    const Metadata& metadata = request.metadata;
    segments_.push_back({.dtype = static_cast<DType>(metadata.dtype),
                         .reduce_op = static_cast<ReduceOp>(metadata.reduce_op),
                         .prescale = metadata.prescale,
                         .postscale = metadata.postscale,
                         .root = static_cast<std::uint32_t>(metadata.root),
                         .count = request.count,
                         .input = request.input,
                         .output = request.output,
                         .compression = static_cast<Compression>(metadata.compression)});
    for (std::uint32_t member = 0; member < view_.extent().members; ++member) {
        RUEDA_RETURN_IF_FAILED(announced_.locate(entry, slot, member, locations_.emplace_back()));
        if (locations_.back().absent) [[unlikely]] {
            ++segments_.back().absent;
            segments_.back().uncounted += locations_.back().counted ? 0U : 1U;
        }
    }
    // `called.uncounted` is the number of ranks that an average does not count. On several hosts, the root of the tree
    // sends this number, which includes the ranks of this host. On one host, it is 0.
    segments_.back().uncounted = std::max(segments_.back().uncounted, called.uncounted);
    if (const std::uint32_t absent = segments_.back().absent;
        absent >= view_.set_size || segments_.back().uncounted >= view_.set_size ||
        (absent > 0 && !collectives::goes_on_without_joined(static_cast<Operation>(metadata.operation)))) {
        return failure(ErrorCode::internal, "tensor '{}': the log calls its {} with {} of {} ranks joined", entry.name,
                       collectives::name_of(static_cast<Operation>(metadata.operation)), absent,
                       view_.extent().members);
    }
    return has_variable_rows(static_cast<Operation>(metadata.operation)) ? prepare_output(entry, slot) : Status();
}

/// Reads the first dimensions of all ranks of the set from the attachment (the data that the log entry refers to). On
/// several hosts, the root of the tree sends these dimensions; on one host, there is no attachment.
Status CalledBatch::read_rows(std::uint32_t attachment) {
    rows_.clear();
    if (attachment == 0) {
        return {};
    }
    if (attachment > view_.extent().attachments ||
        view_.set_size * sizeof(std::int64_t) > view_.extent().attachment_bytes) {
        return failure(ErrorCode::internal, "the log has an attachment {}, of {}", attachment,
                       view_.extent().attachments);
    }
    rows_.resize(view_.set_size);
    std::memcpy(rows_.data(), view_.memory.attachment(attachment - 1), view_.set_size * sizeof(std::int64_t));
    return {};
}

/// Completes `rows_`, the first dimensions of all members. If the call has no attachment, all members are on this host,
/// and their announcements hold these dimensions.
Status CalledBatch::complete_rows(const TensorEntry& entry) {
    if (rows_.empty()) {
        for (const Location& location : locations_) {
            rows_.push_back(location.absent ? kJoinedRows : location.first_dimension);
        }
    }
    if (rows_.size() != view_.set_size) {
        return failure(ErrorCode::internal, "tensor '{}': the log calls it without the first dimensions of its ranks",
                       entry.name);
    }
    if (!entry.stands_in) {
        // this rank's own value comes from the caller's request, because other ranks can overwrite the announcement
        rows_[view_.set_rank] = entry.request.first_dimension;
    }
    return {};
}

/// Prepares the output of an operation of variable size. Such an operation is the only operation in its batch.
Status CalledBatch::prepare_output(TensorEntry& entry, std::uint32_t slot) {
    RUEDA_RETURN_IF_FAILED(complete_rows(entry));
    switch (static_cast<Operation>(entry.request.metadata.operation)) {
        case Operation::gather:
            return prepare_gather(entry);
        case Operation::alltoall:
        case Operation::scatter:
            // On several hosts, the arena has no table of splits. The ranks then exchange the splits first
            // (begin_splits()), so nothing can be prepared here.
            return view_.extent().has_splits() ? prepare_alltoall(entry, slot) : Status();
        case Operation::reducescatter:
            return prepare_reducescatter(entry);
        case Operation::group:
            return {};
        default:
            return prepare_allgather(entry);
    }
}

Status CalledBatch::prepare_reducescatter(TensorEntry& entry) {
    RUEDA_RETURN_IF_FAILED(announced_.check_rows(entry, rows_));
    return set_output(outputs_.of_share(entry));
}

Status CalledBatch::prepare_alltoall(TensorEntry& entry, std::uint32_t slot) {
    const Result<std::int64_t> rows = announced_.read_splits(entry, slot, locations_, splits_);
    RUEDA_RETURN_IF_FAILED(rows.status());
    RUEDA_RETURN_IF_FAILED(announced_.check_source(entry));
    return set_output(outputs_.of_all(entry, rows.value(), 0));
}

/// Every rank computes the splits of a gather itself: all rows go to the root.
Status CalledBatch::prepare_gather(TensorEntry& entry) {
    const auto root = static_cast<std::size_t>(entry.request.metadata.root);
    if (view_.extent().has_splits()) {
        splits_.assign(rows_.size() * rows_.size(), 0);
        for (std::size_t member = 0; member < rows_.size(); ++member) {
            splits_[member * rows_.size() + root] = rows_[member];
        }
    } else {
        splits_.assign(2 * rows_.size(), 0);
        splits_[root] = entry.request.first_dimension;
        if (view_.set_rank == root) {
            std::copy(rows_.begin(), rows_.end(), splits_.begin() + static_cast<std::ptrdiff_t>(rows_.size()));
        }
    }
    return set_output(outputs_.on_root(entry, rows_));
}

Status CalledBatch::prepare_allgather(TensorEntry& entry) { return set_output(outputs_.of_gathered(entry, rows_)); }

Status CalledBatch::set_output(Result<std::byte*> output) {
    RUEDA_RETURN_IF_FAILED(output.status());
    segments_.back().output = output.value();
    return {};
}

CalledBatch::Splits CalledBatch::begin_splits() {
    splits_.assign(std::size_t{2} * view_.set_size, 0);
    const std::vector<std::int64_t>& to = first().request.splits;
    std::copy_n(to.begin(), std::min<std::size_t>(to.size(), view_.set_size), splits_.begin());
    const std::span<std::int64_t> all(splits_);
    return {all.first(view_.set_size), all.last(view_.set_size)};
}

Status CalledBatch::take_splits() {
    TensorEntry& entry = first();
    std::vector<std::int64_t>& received = entry.completion->received_splits;
    received.assign(splits_.begin() + view_.set_size, splits_.end());
    std::int64_t rows = 0;
    for (std::uint32_t member = 0; member < view_.set_size; ++member) {
        if (received[member] < 0) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} says that it sends {} rows", entry.name,
                           view_.identity.ranks[member], received[member]);
        }
        if (__builtin_add_overflow(rows, received[member], &rows)) {
            return failure(ErrorCode::resource_exhausted, "tensor '{}': the received first dimensions overflow",
                           entry.name);
        }
    }
    RUEDA_RETURN_IF_FAILED(announced_.check_source(entry));
    return set_output(outputs_.of_all(entry, rows, 0));
}

void CalledBatch::own_splits(std::vector<std::int64_t>& splits) const {
    const std::size_t size = view_.set_size;
    if (splits_.size() != size * size || !view_.extent().has_splits()) {
        splits = splits_;  // here `splits_` is empty, or holds only this rank's splits
        return;
    }
    splits.clear();
    for (std::size_t to = 0; to < size; ++to) {
        splits.push_back(splits_[view_.set_rank * size + to]);
    }
    for (std::size_t from = 0; from < size; ++from) {
        splits.push_back(splits_[from * size + view_.set_rank]);
    }
}

void CalledBatch::release() {
    std::vector<TensorEntry*>().swap(entries_);
    std::vector<collectives::Segment>().swap(segments_);
    std::vector<collectives::Location>().swap(locations_);
    std::vector<std::int64_t>().swap(rows_);
    std::vector<std::int64_t>().swap(splits_);
}

}  // namespace rueda::core
