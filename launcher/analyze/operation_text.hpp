// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::launcher {

/// Describes what a rank has called: an operation of a process set, a send or a receive.
struct OperationText {
    std::string kind;                         ///< "allreduce"
    std::string name;                         ///< the operation's name; "" for an operation without a name
    std::uint32_t generation = 0;             ///< the number of the call, for an operation without a name
    std::optional<base::MessageEnd> message;  ///< the peer and the tag of a send or a receive; empty for operations of
                                              ///< a process set
    /// Returns, for example, "allreduce 'x'", "allreduce without a name (call 17)" or "receive from rank 0, tag 7".
    [[nodiscard]] std::string describe() const;
};

[[nodiscard]] OperationText text_of_operation(const base::RecordedOperation& operation);

/// Whether the operation had not ended when the file was written, or had failed because the job ended.
[[nodiscard]] bool was_pending(const base::RecordedOperation& operation);

}  // namespace rueda::launcher
