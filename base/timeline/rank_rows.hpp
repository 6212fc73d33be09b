// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/timeline/timeline_operation.hpp"

namespace rueda::base {

/// The rows of one rank in a trace: steps, scopes, waits for other ranks, executed batches, sends and receives, and one
/// row for each name.
class RankRows {
public:
    // The numbers of the first rows. The trace format calls a row "thread".
    static constexpr std::int32_t kSteps = 1;
    static constexpr std::int32_t kScopes = 2;
    static constexpr std::int32_t kWaits = 3;
    static constexpr std::int32_t kBatches = 4;
    /// The first row for messages. Further rows follow it, because several messages may be pending at the same time.
    static constexpr std::int32_t kMessages = 5;
    /// The first of the rows for the rank's GPUs. A rank rarely uses more than one GPU.
    static constexpr std::int32_t kGpus = 13;
    static constexpr std::int32_t kFirstName = 16;
    static constexpr std::int32_t kMostNames = 4096;

    explicit RankRows(std::int32_t rank) : rank_(rank) {}

    /// Appends the events that give the rank and its first rows their names.
    void append_names(std::string& text, std::string_view host) const;
    /// Returns the row for an operation that ended, or was last seen, at `end_ns`. The first use of a row also appends
    /// the row's name. Operations with the same name never overlap, so they share a row. Operations without a name may
    /// be pending at the same time, so they are spread over several rows.
    [[nodiscard]] std::int32_t row_of(const RecordedOperation& record, std::int64_t end_ns, std::string& text);

    void begin_step(std::uint64_t step, std::int64_t ns, std::string& text);
    void add_scope(const RecordedOperation& record, std::string& text) const;
    /// Adds the time that this rank waited for `last_rank` in one operation. Waits that overlap become one span.
    void add_wait(std::int64_t begin_ns, std::int64_t end_ns, std::int32_t last_rank) {
        waits_.push_back({begin_ns, end_ns, last_rank, 1});
    }
    /// Adds a send or a receive. If it has not ended, its event ends at `now_ns`.
    void add_message(const RecordedOperation& record, std::int64_t now_ns, std::string& text);
    /// Adds the execution of an operation. The rank may have executed it together with other operations of its batch.
    void add_execution(const RecordedOperation& record);

    /// Adds a part of the execution of a batch. The part lies inside of the batch's span.
    void add_part(const RecordedOperation& record, std::string& text);

    /// Appends the spans of waits and batches that are complete.
    void settle(std::string& text, bool marks_cycles);
    /// Appends all spans that are still open. The last step ends at `now_ns`.
    void finish(std::int64_t now_ns, std::string& text, bool marks_cycles);

private:
    struct Wait {
        std::int64_t begin_ns = 0;
        std::int64_t end_ns = 0;
        std::int32_t last_rank = 0;
        std::uint64_t operations = 0;
    };
    struct Batch {
        std::int32_t set_id = 0;
        std::uint8_t kind = 0;
        std::optional<std::uint32_t> position;
        std::int64_t begin_ns = 0;
        std::int64_t end_ns = 0;
        std::uint64_t operations = 0;
        std::uint64_t bytes = 0;
        bool is_new = true;  ///< whether an operation was added after the last settle()
    };
    struct Lane {
        std::int32_t tid = 0;
        std::int64_t end_ns = 0;
    };
    using RowKey = std::tuple<std::int32_t, std::string, std::uint8_t>;  // the key is the process set, the name, and,
                                                                         // if there is no name, the kind

    /// Returns a row for a span from `begin_ns` to `end_ns`. A lane is a row whose spans must not overlap. The function
    /// takes the first lane that is free at `begin_ns`. If no lane is free, it calls `make_row(index)` for a new lane.
    /// If there are too many lanes or `may_add` is false, it takes the first lane instead.
    template <class MakeRow>
    [[nodiscard]] static std::int32_t lane_for(std::vector<Lane>& lanes, std::int64_t begin_ns, std::int64_t end_ns,
                                               bool may_add, MakeRow&& make_row);
    [[nodiscard]] std::int32_t row_of_message(const RecordedOperation& record, std::int64_t end_ns, std::string& text);
    void add_gpu_part(const RecordedOperation& record, std::string& text);
    void settle_waits(std::string& text);
    void append_wait(const Wait& wait, std::string& text) const;
    void append_batch(const Batch& batch, std::string& text, bool marks_cycles) const;
    void append_step(std::int64_t end_ns, std::string& text) const;
    [[nodiscard]] std::int32_t new_row(std::string_view name, std::string& text);

    std::int32_t rank_;
    std::map<RowKey, std::vector<Lane>> rows_;
    std::int32_t names_ = 0;
    std::optional<std::uint64_t> step_;
    std::int64_t step_began_ns_ = 0;
    std::vector<Wait> waits_;   // waits that were added after the last settle()
    std::optional<Wait> wait_;  // the last span of waits, which may still grow
    std::vector<Batch> batches_;
    std::vector<Lane> messages_;
    std::vector<std::int32_t> gpus_;  // the GPUs that have a row, in the order of the rows
};

/// Returns the kind's name in capitals, for example "ALLREDUCE".
[[nodiscard]] std::string upper_name_of_kind(std::uint8_t kind);

}  // namespace rueda::base
