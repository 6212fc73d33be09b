// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "core/runtime/completion.hpp"
#include "core/runtime/set_identity.hpp"
#include "rueda/rueda.h"
#include "rueda/types.hpp"

namespace rueda::core {

/// A send or a receive, as its caller asked for it.
struct MessageRequest {
    bool sends = false;
    int peer = 0;  ///< rank of the job; of a receive also RUEDA_ANY_PEER
    std::int32_t tag = 0;
    std::shared_ptr<const SetIdentity> set;
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
    std::byte* memory = nullptr;  ///< only read where it sends

    [[nodiscard]] bool is_from_anybody() const { return !sends && peer == RUEDA_ANY_PEER; }
    /// "send to rank 3, tag 7", "receive from any rank, tag 7", with the process set where that is not the world.
    [[nodiscard]] std::string describe() const;
};

/// One that is pending on this rank.
struct MessageOperation {
    MessageRequest request;
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
    std::uint64_t number = 0;  ///< of this rank's, in the order of the calls
    bool is_remote = false;    ///< begun, and a rank of another host has a part in it
    Status ends_with;          ///< a failure: of a send that ends when its receiver reads its memory no longer
    std::list<MessageOperation>::iterator place{};
};

/// Both sides say the same. `set`: of either's request.
struct MessageMismatch {
    int sender = 0;
    int receiver = 0;
    std::int32_t tag = 0;
    DType sent_dtype = DType::uint8;
    std::uint64_t sent_bytes = 0;
    DType received_dtype = DType::uint8;
    std::uint64_t received_bytes = 0;

    [[nodiscard]] Status status(const SetIdentity& set) const;
};

}  // namespace rueda::core
