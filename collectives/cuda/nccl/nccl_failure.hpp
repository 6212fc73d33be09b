// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "collectives/cuda/nccl_api.hpp"

namespace rueda::collectives::cuda {

/// The member whose call failed.
struct FailedMember {
    std::uint32_t member = 0;  ///< the member's number in the process set, which NCCL uses
    std::uint32_t members = 1;
    int device = -1;
    std::int32_t rank = 0;  ///< the member's rank in the job, for error texts
};

/// Whether the function was called successfully. A function of a non-blocking communicator may still be in progress.
[[nodiscard]] constexpr bool was_accepted(NcclResult result) {
    return result == kNcclSuccess || result == kNcclInProgress;
}

/// For example "ncclSystemError".
[[nodiscard]] const char* name_of_nccl_result(NcclResult result);

/// Describes an error of NCCL in one line, with NCCL's own text about it. `communicator` may be null.
[[nodiscard]] Status nccl_failure(const NcclApi& api, const char* call, NcclResult result,
                                  NcclCommunicator communicator, const FailedMember& where);

/// Whether NCCL still works on a call of a non-blocking communicator. If the communicator has an asynchronous error,
/// returns this error. `what` becomes a part of the error's text, and says what failed.
[[nodiscard]] Result<bool> is_in_progress(const NcclApi& api, NcclCommunicator communicator, const char* what,
                                          const FailedMember& where);

}  // namespace rueda::collectives::cuda
