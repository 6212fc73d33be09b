// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/nccl_failure.hpp"

#include <string>

#include "base/text.hpp"

namespace rueda::collectives::cuda {

const char* name_of_nccl_result(NcclResult result) {
    switch (result) {
        case kNcclSuccess:
            return "ncclSuccess";
        case kNcclUnhandledCudaError:
            return "ncclUnhandledCudaError";
        case kNcclSystemError:
            return "ncclSystemError";
        case kNcclInternalError:
            return "ncclInternalError";
        case kNcclInvalidArgument:
            return "ncclInvalidArgument";
        case kNcclInvalidUsage:
            return "ncclInvalidUsage";
        case kNcclRemoteError:
            return "ncclRemoteError";
        case kNcclInProgress:
            return "ncclInProgress";
        default:
            return "an error without a name";
    }
}

Status nccl_failure(const NcclApi& api, const char* call, NcclResult result, NcclCommunicator communicator,
                    const FailedMember& where) {
    const char* const text = api.get_error_string(result);
    // NCCL keeps the text of the last error for the whole process, so the text may come from another communicator.
    // Still, this text helps the user most.
    const char* const last = api.get_last_error(communicator);
    const std::string detail = last == nullptr || *last == '\0' ? "" : "; NCCL's last error: " + base::printable(last);
    return failure(ErrorCode::aborted,
                   "{} failed on rank {} (its GPU {}): {} ({}): {}{}; set NCCL_DEBUG=WARN to see where NCCL failed",
                   call, where.rank, where.device, name_of_nccl_result(result), result,
                   text == nullptr ? "no text" : base::printable(text), detail);
}

Result<bool> is_in_progress(const NcclApi& api, NcclCommunicator communicator, const char* what,
                            const FailedMember& where) {
    NcclResult state = kNcclSuccess;
    const NcclResult result = api.get_async_error(communicator, &state);
    if (result != kNcclSuccess) {
        return nccl_failure(api, "ncclCommGetAsyncError", result, communicator, where);
    }
    if (!was_accepted(state)) {
        return nccl_failure(api, what, state, communicator, where);
    }
    return state == kNcclInProgress;
}

}  // namespace rueda::collectives::cuda
