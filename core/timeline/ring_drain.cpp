// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/ring_drain.hpp"

#include <optional>
#include <utility>

namespace rueda::core {

namespace {

bool has_ended(const base::RecordedOperation& record) {
    return record.kind == base::RecordKind::kStep || record.ended_ns.has_value();
}

}  // namespace

RingDrain::Look RingDrain::look(const base::RecorderReader& reader, std::uint64_t number,
                                std::vector<base::TimelineOperation>& ended) {
    std::optional<base::RecordedOperation> record = reader.operation(number);
    if (!record) {
        // There is no complete record: either the rank is just writing it, or a later record has overwritten it.
        return reader.next_number() >= number + base::RankRecorder::kOperations ? Look::lost : Look::open;
    }
    if (!has_ended(*record)) {
        return Look::open;
    }
    add(*std::move(record), ended);
    return Look::ended;
}

void RingDrain::add(base::RecordedOperation record, std::vector<base::TimelineOperation>& to) const {
    record.announced_ns += offset_ns_;
    if (record.started_ns) {
        *record.started_ns += offset_ns_;
    }
    if (record.ended_ns) {
        *record.ended_ns += offset_ns_;
    }
    to.push_back({rank_, std::move(record)});
}

void RingDrain::revisit(const base::RecorderReader& reader, std::vector<base::TimelineOperation>& ended) {
    std::erase_if(open_, [&](std::uint64_t number) {
        const Look found = look(reader, number, ended);
        lost_ += found == Look::lost ? 1U : 0U;
        return found != Look::open;
    });
}

std::size_t RingDrain::advance(const base::RecorderReader& reader, std::size_t most,
                               std::vector<base::TimelineOperation>& ended) {
    const std::uint64_t end = reader.next_number();
    if (end > next_ && end - next_ > base::RankRecorder::kOperations) {
        lost_ += end - next_ - base::RankRecorder::kOperations;
        next_ = end - base::RankRecorder::kOperations;
    }
    std::size_t looked = 0;
    for (; next_ < end && looked < most; ++next_, ++looked) {
        switch (look(reader, next_, ended)) {
            case Look::ended:
                break;
            case Look::open:
                open_.push_back(next_);
                break;
            case Look::lost:
                ++lost_;
                break;
        }
    }
    // If the ring is damaged, its numbers may have any value, and open_ could grow without end. So the length of open_
    // is limited here.
    while (open_.size() > base::RankRecorder::kOperations) {
        open_.erase(open_.begin());
        ++lost_;
    }
    return looked;
}

void RingDrain::append_open(const base::RecorderReader& reader, std::vector<base::TimelineOperation>& open) const {
    for (const std::uint64_t number : open_) {
        if (std::optional<base::RecordedOperation> record = reader.operation(number)) {
            add(*std::move(record), open);
        }
    }
}

std::uint64_t RingDrain::take_lost() { return std::exchange(lost_, 0); }

}  // namespace rueda::core
