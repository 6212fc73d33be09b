// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/batches/payload_reduction.hpp"
#include "core/process_set/batches/row_outputs.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Executes an operation that all members have announced directly. This rank computes its result from the inputs in the
/// announcements of all members. It needs nothing else from them.
///
/// Threads: the thread that drives progress.
class DirectExecution {
public:
    /// The objects behind all arguments except `view` must outlive this object.
    DirectExecution(const SetView& view, const PayloadReduction& reduction, const Announced& announced,
                    const RowOutputs& outputs)
        : view_(view), memory_(view.memory), reduction_(reduction), announced_(announced), outputs_(outputs) {}

    /// Fails if a member announced data that do not match the agreed metadata. Throws std::bad_alloc if memory runs
    /// out.
    [[nodiscard]] Status run(TensorEntry& entry);

private:
    using Locations = std::array<collectives::Location, kInlineMembers>;  ///< for each member: its input

    Status reduce_or_copy(const TensorEntry& entry);
    Status locate(const TensorEntry& entry, Locations& of) const;
    Status gather(TensorEntry& entry);
    Status scatter(TensorEntry& entry);
    Status exchange(TensorEntry& entry);

    SetView view_;
    const NegotiationMemory<base::StdAtomics>& memory_;
    const PayloadReduction& reduction_;
    const Announced& announced_;
    const RowOutputs& outputs_;
    std::vector<std::int64_t> splits_;
};

}  // namespace rueda::core
