// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/operation_text.hpp"

#include <fmt/format.h>

#include "base/status.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

std::string OperationText::describe() const {
    if (message) {
        const bool sends = kind == base::name_of_record_kind(base::RecordKind::kSend);
        return fmt::format("{} {} {}, tag {}", kind, sends ? "to" : "from",
                           message->peer < 0 ? "any rank" : fmt::format("rank {}", message->peer), message->tag);
    }
    return name.empty() ? fmt::format("{} without a name (call {})", kind, generation)
                        : fmt::format("{} {}", kind, base::quote(name, 200));
}

OperationText text_of_operation(const base::RecordedOperation& operation) {
    OperationText text{std::string(base::name_of_record_kind(operation.kind)), operation.name, operation.generation,
                       std::nullopt};
    if (base::RecordKind::is_message(operation.kind)) {
        text.message = operation.message;
    }
    return text;
}

bool was_pending(const base::RecordedOperation& operation) {
    return !operation.ended_ns || operation.status == static_cast<std::uint8_t>(ErrorCode::aborted);
}

}  // namespace rueda::launcher
