// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/recorder/recorder_writer.hpp"
#include "collectives/communicator.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Records the parts of the execution of a batch, while a timeline is on (docs/design/0017-timeline.md). A part is a
/// wait, or a sequence of steps that did the same kind of work. A task of many chunks has many parts, so only the first
/// kMostParts parts are recorded one by one; the remaining parts are recorded together as one part.
///
/// Threads: the thread that drives progress.
class ExecutionParts {
public:
    /// Sixteen parts show the first chunks of a large tensor. A rank's ring has 4096 records, so with this limit the
    /// ring holds the parts of more than 200 batches.
    static constexpr int kMostParts = 16;

    explicit ExecutionParts(const SetView& view)
        : view_(view), writer_(view.arena.recorder(view.rank)), set_id_(view.identity.id) {}

    /// Whether parts are recorded. If so, the caller must call step() of this object, not step() of the task.
    [[nodiscard]] bool is_on() const { return writer_.notes_parts(); }
    /// Makes one step of the task. `batch` is a number that differs from the number of the previous batch. When the
    /// task is done, its last part is recorded.
    collectives::StepResult step(collectives::Task& task, std::uint64_t batch);

private:
    using Part = base::RecorderWriter::Part;

    /// Adds a step to the open part, or begins a new part if the open part is of another kind.
    void extend(base::PartKind kind, std::uint64_t begin, std::uint64_t end);
    void close(std::uint64_t next_begin);
    void finish(std::uint64_t end);
    [[nodiscard]] std::int32_t awaited_rank() const;

    SetView view_;
    base::RecorderWriter writer_;
    std::int32_t set_id_;
    std::uint64_t batch_ = ~std::uint64_t{0};
    Part open_;  // steps is 0: there is none
    int recorded_ = 0;
    Part rest_;  // all parts after the first kMostParts, as one part; if `steps` is 0, there are no such parts
};

}  // namespace rueda::core
