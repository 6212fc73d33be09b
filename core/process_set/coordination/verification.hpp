// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/announcing/input_inspection.hpp"
#include "core/process_set/batches/called_batch.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Compares the findings of the ranks (docs/design/0009-verify.md). A finding is what a rank found when it checked an
/// operation. After a checked operation, the ranks exchange their findings in a second operation. Only then does the
/// checked operation end for its caller.
///
/// Threads: begin() and settle() run in the thread that drives progress and take the enqueue lock.
class Verification {
public:
    /// All references must outlive this object.
    Verification(const SetView& view, const InputInspection& inspection, Announcer& announcer, OperationEnds& ends)
        : view_(view), inspection_(inspection), announcer_(announcer), ends_(ends) {}

    /// Call this after an operation was executed. Returns true if the ranks will compare their findings about the
    /// operation. It then ends only after the comparison.
    [[nodiscard]] bool begin(TensorEntry& entry);
    /// Call this when all ranks have announced their findings; the first dimensions in `batch` are the findings.
    /// `entry` is the second operation, which compares them.
    [[nodiscard]] Status settle(TensorEntry& entry, const CalledBatch& batch);
    /// The name of the operation that compares the findings about `entry`.
    [[nodiscard]] static std::string name_of_check_of(const TensorEntry& entry);

private:
    struct Check;
    [[nodiscard]] bool is_compared(collectives::Operation operation);
    [[nodiscard]] bool announce(TensorEntry& entry, std::int64_t verdict);
    void end(Check& check);
    [[nodiscard]] std::string name_for_people(const TensorEntry& entry) const;

    const SetView& view_;
    const InputInspection& inspection_;
    Announcer& announcer_;
    OperationEnds& ends_;
    std::uint64_t allreduces_called_ = 0;
    std::string first_difference_;  // the name of the first tensor whose results differed
};

}  // namespace rueda::core
