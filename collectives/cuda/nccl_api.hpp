// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <type_traits>

#include "collectives/cuda/cuda_api.hpp"

/// The functions of NCCL (libnccl.so.2) that Rueda calls, as a table of pointers that is filled at run time. A test
/// compares every type with those of NCCL's header.
namespace rueda::collectives::cuda {

/// A ncclResult_t.
using NcclResult = int;
inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclUnhandledCudaError = 1;
inline constexpr NcclResult kNcclSystemError = 2;
inline constexpr NcclResult kNcclInternalError = 3;
inline constexpr NcclResult kNcclInvalidArgument = 4;
inline constexpr NcclResult kNcclInvalidUsage = 5;
inline constexpr NcclResult kNcclRemoteError = 6;
inline constexpr NcclResult kNcclInProgress = 7;

/// ncclDataType_t. NCCL has no bool and no 16-bit integers.
using NcclType = int;
inline constexpr NcclType kNcclInt8 = 0;
inline constexpr NcclType kNcclUint8 = 1;
inline constexpr NcclType kNcclInt32 = 2;
inline constexpr NcclType kNcclUint32 = 3;
inline constexpr NcclType kNcclInt64 = 4;
inline constexpr NcclType kNcclUint64 = 5;
inline constexpr NcclType kNcclFloat16 = 6;
inline constexpr NcclType kNcclFloat32 = 7;
inline constexpr NcclType kNcclFloat64 = 8;
inline constexpr NcclType kNcclBfloat16 = 9;

/// ncclRedOp_t. ncclRedOpCreatePreMulSum() returns further values.
using NcclReduction = int;
inline constexpr NcclReduction kNcclSum = 0;
inline constexpr NcclReduction kNcclProduct = 1;
inline constexpr NcclReduction kNcclMax = 2;
inline constexpr NcclReduction kNcclMin = 3;
inline constexpr NcclReduction kNcclAverage = 4;

/// A value of ncclScalarResidence_t: NCCL reads the factor of a reduction during the call.
inline constexpr int kNcclScalarHostImmediate = 1;

using NcclCommunicator = struct ncclComm*;

struct NcclUniqueId {
    char bytes[128];
};

/// The first fields of ncclConfig_t, as NCCL 2.14 introduced them. Newer versions of NCCL accept this struct, too: they
/// read only `size` bytes, and expect only the fields that NCCL had at `version` (NCCL, src/init.cc).
struct NcclConfig {
    static constexpr unsigned kMagic = 0xcafebeef;
    static constexpr unsigned kVersion = 21400;

    std::size_t size = sizeof(NcclConfig);
    unsigned magic = kMagic;
    unsigned version = kVersion;
    int blocking = 1;  ///< 0: functions may return kNcclInProgress
};

/// Lists the functions of NCCL. The arguments of F are: the table's member, the symbol, and the function's type.
#define RUEDA_NCCL_FUNCTIONS(F)                                                                                        \
    F(get_version, "ncclGetVersion", NcclResult(int* version))                                                         \
    F(get_unique_id, "ncclGetUniqueId", NcclResult(NcclUniqueId* id))                                                  \
    F(init_rank, "ncclCommInitRankConfig",                                                                             \
      NcclResult(NcclCommunicator* communicator, int ranks, NcclUniqueId id, int rank, NcclConfig* config))            \
    F(finalize, "ncclCommFinalize", NcclResult(NcclCommunicator communicator))                                         \
    F(destroy, "ncclCommDestroy", NcclResult(NcclCommunicator communicator))                                           \
    F(abort, "ncclCommAbort", NcclResult(NcclCommunicator communicator))                                               \
    F(get_async_error, "ncclCommGetAsyncError", NcclResult(NcclCommunicator communicator, NcclResult* error))          \
    F(get_error_string, "ncclGetErrorString", const char*(NcclResult result))                                          \
    F(get_last_error, "ncclGetLastError", const char*(NcclCommunicator communicator))                                  \
    F(all_reduce, "ncclAllReduce",                                                                                     \
      NcclResult(const void* input, void* output, std::size_t count, NcclType type, NcclReduction reduction,           \
                 NcclCommunicator communicator, CudaStream stream))                                                    \
    F(broadcast, "ncclBroadcast",                                                                                      \
      NcclResult(const void* input, void* output, std::size_t count, NcclType type, int root,                          \
                 NcclCommunicator communicator, CudaStream stream))                                                    \
    F(reduce, "ncclReduce",                                                                                            \
      NcclResult(const void* input, void* output, std::size_t count, NcclType type, NcclReduction reduction, int root, \
                 NcclCommunicator communicator, CudaStream stream))                                                    \
    F(all_gather, "ncclAllGather",                                                                                     \
      NcclResult(const void* input, void* output, std::size_t count, NcclType type, NcclCommunicator communicator,     \
                 CudaStream stream))                                                                                   \
    F(reduce_scatter, "ncclReduceScatter",                                                                             \
      NcclResult(const void* input, void* output, std::size_t count, NcclType type, NcclReduction reduction,           \
                 NcclCommunicator communicator, CudaStream stream))                                                    \
    F(send, "ncclSend",                                                                                                \
      NcclResult(const void* input, std::size_t count, NcclType type, int peer, NcclCommunicator communicator,         \
                 CudaStream stream))                                                                                   \
    F(receive, "ncclRecv",                                                                                             \
      NcclResult(void* output, std::size_t count, NcclType type, int peer, NcclCommunicator communicator,              \
                 CudaStream stream))                                                                                   \
    F(group_start, "ncclGroupStart", NcclResult())                                                                     \
    F(group_end, "ncclGroupEnd", NcclResult())                                                                         \
    F(create_premultiplied_sum, "ncclRedOpCreatePreMulSum",                                                            \
      NcclResult(NcclReduction* reduction, void* factor, NcclType type, int residence, NcclCommunicator communicator)) \
    F(destroy_reduction, "ncclRedOpDestroy", NcclResult(NcclReduction reduction, NcclCommunicator communicator))

/// Lists the functions that NCCL has only from 2.19 on.
#define RUEDA_NCCL_MEMORY_FUNCTIONS(F)                                                           \
    F(allocate_memory, "ncclMemAlloc", NcclResult(void** memory, std::size_t bytes))             \
    F(free_memory, "ncclMemFree", NcclResult(void* memory))                                      \
    F(register_memory, "ncclCommRegister",                                                       \
      NcclResult(NcclCommunicator communicator, void* memory, std::size_t bytes, void** handle)) \
    F(deregister_memory, "ncclCommDeregister", NcclResult(NcclCommunicator communicator, void* handle))

/// NCCL's functions. No pointer is null, with one exception: the pointers of the memory functions may all be null.
struct NcclApi {
#define RUEDA_NCCL_MEMBER(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
    RUEDA_NCCL_FUNCTIONS(RUEDA_NCCL_MEMBER)
    RUEDA_NCCL_MEMORY_FUNCTIONS(RUEDA_NCCL_MEMBER)
#undef RUEDA_NCCL_MEMBER

    /// Whether NCCL can allocate and register memory.
    [[nodiscard]] bool has_memory_functions() const { return register_memory != nullptr; }
};

}  // namespace rueda::collectives::cuda
