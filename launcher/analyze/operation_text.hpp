// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::launcher {

/// An operation of a process set, as several ranks may have called it; or a send or a receive.
struct OperationText {
    std::string kind;                         ///< "allreduce"
    std::string name;                         ///< "" for an operation without a name
    std::uint32_t generation = 0;             ///< of an operation without a name: the number of the call
    std::optional<base::MessageEnd> message;  ///< of a send or a receive
    /// "allreduce 'x'", or "allreduce without a name (call 17)", or "receive from rank 0, tag 7".
    [[nodiscard]] std::string describe() const;
};

[[nodiscard]] OperationText text_of_operation(const base::RecordedOperation& operation);

/// Whether the operation had not ended when its rank ended, or when the file was written.
[[nodiscard]] bool was_pending(const base::RecordedOperation& operation);

}  // namespace rueda::launcher
