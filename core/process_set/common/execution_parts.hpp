// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/recorder/recorder_writer.hpp"
#include "collectives/communicator.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Records the parts of the execution of a batch, while a timeline is on (docs/design/0017-timeline.md). A part is a
/// run of steps that do the same, or a wait. A task of many chunks has many parts, so the first kMostParts are
/// recorded, and the rest as one.
///
/// Threads: the thread that drives progress.
class ExecutionParts {
public:
    /// Sixteen parts show the first chunks of a large tensor, and fill the ring of a rank with 4096 records after more
    /// than 200 batches.
    static constexpr int kMostParts = 16;

    explicit ExecutionParts(const SetView& view)
        : view_(view), writer_(view.arena.recorder(view.rank)), set_id_(view.identity.id) {}

    /// Whether step() is to be called instead of the task's.
    [[nodiscard]] bool is_on() const { return writer_.notes_parts(); }
    /// Steps the task. `batch` is a number that no other batch in a row has. When the task is done, its last part is
    /// recorded.
    collectives::StepResult step(collectives::Task& task, std::uint64_t batch);

private:
    using Part = base::RecorderWriter::Part;

    void note_work(collectives::StepWork work, std::uint64_t begin, std::uint64_t end);
    void note_wait(base::PartKind kind, std::uint64_t begin, std::uint64_t end);
    void close(std::uint64_t next_begin);
    void finish(std::uint64_t end);
    [[nodiscard]] std::int32_t awaited_rank() const;

    SetView view_;
    base::RecorderWriter writer_;
    std::int32_t set_id_;
    std::uint64_t batch_ = ~std::uint64_t{0};
    Part open_;  // steps is 0: there is none
    int recorded_ = 0;
    Part rest_;  // the parts after the first ones; steps is 0: there are none
};

}  // namespace rueda::core
