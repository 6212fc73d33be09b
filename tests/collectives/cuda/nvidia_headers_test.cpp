// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Compares the tables of functions with the headers of the CUDA Toolkit and of NCCL. Most of the comparison happens
// when this file is compiled.
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "collectives/cuda/cuda_api.hpp"
#include "collectives/cuda/nccl_api.hpp"

namespace {

using namespace rueda::collectives::cuda;

/// The name of a class without its namespace. The types to which opaque pointers point have the same names in both
/// headers.
template <class T>
constexpr std::string_view name_of_type() {
    constexpr std::string_view text = __PRETTY_FUNCTION__;
    constexpr std::size_t begin = text.find("T = ") + 4;
    constexpr std::string_view name = text.substr(begin, text.find_first_of(";]", begin) - begin);
    constexpr std::size_t space = name.rfind("::");
    return space == std::string_view::npos ? name : name.substr(space + 2);
}

template <class T, class = void>
struct IsComplete : std::false_type {};
template <class T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

/// Whether two types are passed to a function in the same way and have the same meaning.
template <class A, class B>
struct Same {
    static constexpr bool check() {
        if constexpr (std::is_same_v<A, B>) {
            return true;
        } else if constexpr (std::is_enum_v<A>) {
            return (std::is_same_v<B, int> || std::is_same_v<B, unsigned>)&&sizeof(A) == sizeof(B);
        } else if constexpr (std::is_class_v<A> && std::is_class_v<B>) {
            if constexpr (IsComplete<A>::value && IsComplete<B>::value) {
                return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && std::is_trivially_copyable_v<A>;
            } else {
                return name_of_type<A>() == name_of_type<B>();
            }
        } else {
            return false;
        }
    }
    static constexpr bool value = check();
};
template <class A, class B>
struct Same<A*, B*> {
    static constexpr bool value =
        std::is_const_v<A> == std::is_const_v<B> && Same<std::remove_const_t<A>, std::remove_const_t<B>>::value;
};
// The header's ncclConfig_t has more fields than NcclConfig, so the two are compared field by field below.
template <>
struct Same<ncclConfig_t*, NcclConfig*> : std::true_type {};
template <class R, class... A, class S, class... B>
struct Same<R (*)(A...), S (*)(B...)> {
    static constexpr bool value = sizeof...(A) == sizeof...(B) && Same<R, S>::value && (Same<A, B>::value && ...);
};

static_assert(!Same<int (*)(int*), int (*)(const int*)>::value);
static_assert(!Same<CUstream, CudaEvent>::value);
static_assert(Same<CUstream, CudaStream>::value);
static_assert(!Same<int (*)(std::size_t), int (*)(int)>::value);

// Each row compares a member of the table with a function of the header. Names in cuda.h are macros for the newest
// version of a function.
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
struct Row {
    const char* member;
    const char* symbol;
};
#define COMPARE(Table, member, function)                                     \
    static_assert(Same<decltype(&function), decltype(Table::member)>::value, \
                  "the table's " #member " has not the type of the header's function");
#define CUDA_ROWS(F)                                                   \
    F(init, cuInit)                                                    \
    F(driver_get_version, cuDriverGetVersion)                          \
    F(get_error_name, cuGetErrorName)                                  \
    F(get_error_string, cuGetErrorString)                              \
    F(device_get_count, cuDeviceGetCount)                              \
    F(device_get, cuDeviceGet)                                         \
    F(device_get_name, cuDeviceGetName)                                \
    F(device_get_uuid, cuDeviceGetUuid)                                \
    F(device_get_attribute, cuDeviceGetAttribute)                      \
    F(primary_context_retain, cuDevicePrimaryCtxRetain)                \
    F(primary_context_release, cuDevicePrimaryCtxRelease)              \
    F(primary_context_get_state, cuDevicePrimaryCtxGetState)           \
    F(context_push, cuCtxPushCurrent)                                  \
    F(context_pop, cuCtxPopCurrent)                                    \
    F(context_get_current, cuCtxGetCurrent)                            \
    F(device_can_access_peer, cuDeviceCanAccessPeer)                   \
    F(context_enable_peer_access, cuCtxEnablePeerAccess)               \
    F(context_get_stream_priority_range, cuCtxGetStreamPriorityRange)  \
    F(stream_create_with_priority, cuStreamCreateWithPriority)         \
    F(stream_destroy, cuStreamDestroy)                                 \
    F(stream_query, cuStreamQuery)                                     \
    F(stream_synchronize, cuStreamSynchronize)                         \
    F(stream_wait_event, cuStreamWaitEvent)                            \
    F(stream_is_capturing, cuStreamIsCapturing)                        \
    F(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode) \
    F(event_create, cuEventCreate)                                     \
    F(event_record, cuEventRecord)                                     \
    F(event_query, cuEventQuery)                                       \
    F(event_synchronize, cuEventSynchronize)                           \
    F(event_elapsed_time, cuEventElapsedTime)                          \
    F(event_destroy, cuEventDestroy)                                   \
    F(memory_allocate, cuMemAlloc)                                     \
    F(memory_free, cuMemFree)                                          \
    F(memory_get_range, cuMemGetAddressRange)                          \
    F(host_allocate, cuMemHostAlloc)                                   \
    F(host_free, cuMemFreeHost)                                        \
    F(host_register, cuMemHostRegister)                                \
    F(host_unregister, cuMemHostUnregister)                            \
    F(copy_async, cuMemcpyAsync)                                       \
    F(copy_peer_async, cuMemcpyPeerAsync)                              \
    F(fill_async, cuMemsetD8Async)                                     \
    F(pointer_get_attribute, cuPointerGetAttribute)                    \
    F(ipc_get_memory_handle, cuIpcGetMemHandle)                        \
    F(ipc_open_memory_handle, cuIpcOpenMemHandle)                      \
    F(ipc_close_memory_handle, cuIpcCloseMemHandle)                    \
    F(ipc_get_event_handle, cuIpcGetEventHandle)                       \
    F(ipc_open_event_handle, cuIpcOpenEventHandle)                     \
    F(module_load_data, cuModuleLoadData)                              \
    F(module_unload, cuModuleUnload)                                   \
    F(module_get_function, cuModuleGetFunction)                        \
    F(launch_kernel, cuLaunchKernel)                                   \
    F(launch_host_function, cuLaunchHostFunc)
#define NCCL_ROWS(F)                                      \
    F(get_version, ncclGetVersion)                        \
    F(get_unique_id, ncclGetUniqueId)                     \
    F(init_rank, ncclCommInitRankConfig)                  \
    F(finalize, ncclCommFinalize)                         \
    F(destroy, ncclCommDestroy)                           \
    F(abort, ncclCommAbort)                               \
    F(get_async_error, ncclCommGetAsyncError)             \
    F(get_error_string, ncclGetErrorString)               \
    F(get_last_error, ncclGetLastError)                   \
    F(all_reduce, ncclAllReduce)                          \
    F(broadcast, ncclBroadcast)                           \
    F(reduce, ncclReduce)                                 \
    F(all_gather, ncclAllGather)                          \
    F(reduce_scatter, ncclReduceScatter)                  \
    F(send, ncclSend)                                     \
    F(receive, ncclRecv)                                  \
    F(group_start, ncclGroupStart)                        \
    F(group_end, ncclGroupEnd)                            \
    F(create_premultiplied_sum, ncclRedOpCreatePreMulSum) \
    F(destroy_reduction, ncclRedOpDestroy)                \
    F(allocate_memory, ncclMemAlloc)                      \
    F(free_memory, ncclMemFree)                           \
    F(register_memory, ncclCommRegister)                  \
    F(deregister_memory, ncclCommDeregister)

#define COMPARE_CUDA(member, function) COMPARE(CudaApi, member, function)
#define COMPARE_NCCL(member, function) COMPARE(NcclApi, member, function)
CUDA_ROWS(COMPARE_CUDA)
NCCL_ROWS(COMPARE_NCCL)

#define ROW(member, function) Row{#member, TEXT(function)},
constexpr Row kHeaderRows[] = {CUDA_ROWS(ROW) NCCL_ROWS(ROW)};
#define TABLE_ROW(member, symbol, ...) Row{#member, symbol},
constexpr Row kTableRows[] = {RUEDA_CUDA_FUNCTIONS(TABLE_ROW) RUEDA_NCCL_FUNCTIONS(TABLE_ROW)
                                  RUEDA_NCCL_MEMORY_FUNCTIONS(TABLE_ROW)};
static_assert(std::size(kHeaderRows) == std::size(kTableRows), "a function of the tables is not compared");

#define EQUAL(own, theirs) static_assert(static_cast<long long>(own) == static_cast<long long>(theirs))
EQUAL(kCudaSuccess, CUDA_SUCCESS);
EQUAL(kCudaInvalidValue, CUDA_ERROR_INVALID_VALUE);
EQUAL(kCudaOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
EQUAL(kCudaNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
EQUAL(kCudaDeinitialized, CUDA_ERROR_DEINITIALIZED);
EQUAL(kCudaStubLibrary, CUDA_ERROR_STUB_LIBRARY);
EQUAL(kCudaNoDevice, CUDA_ERROR_NO_DEVICE);
EQUAL(kCudaInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
EQUAL(kCudaInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
EQUAL(kCudaNoBinaryForDevice, CUDA_ERROR_NO_BINARY_FOR_GPU);
EQUAL(kCudaPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
EQUAL(kCudaNoPtxCompiler, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
EQUAL(kCudaInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
EQUAL(kCudaNotFound, CUDA_ERROR_NOT_FOUND);
EQUAL(kCudaNotReady, CUDA_ERROR_NOT_READY);
EQUAL(kCudaIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
EQUAL(kCudaLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
EQUAL(kCudaNotPermitted, CUDA_ERROR_NOT_PERMITTED);
EQUAL(kCudaNotSupported, CUDA_ERROR_NOT_SUPPORTED);
EQUAL(kCudaCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
EQUAL(kCudaCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
EQUAL(kCudaUnknown, CUDA_ERROR_UNKNOWN);
EQUAL(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);  // cuda_device.cpp
EQUAL(kRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
EQUAL(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
EQUAL(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
EQUAL(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
EQUAL(kEventInterprocess, CU_EVENT_INTERPROCESS);
EQUAL(kIpcLazyEnablePeer, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
EQUAL(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
EQUAL(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
EQUAL(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
EQUAL(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
EQUAL(kCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
EQUAL(kCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
EQUAL(kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
EQUAL(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
EQUAL(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
EQUAL(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
EQUAL(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);
EQUAL(kDeviceMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
EQUAL(kDevicePciBus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
EQUAL(kDevicePciDevice, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
EQUAL(kDevicePciDomain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
EQUAL(kDeviceComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
EQUAL(kDeviceComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

EQUAL(kNcclSuccess, ncclSuccess);
EQUAL(kNcclUnhandledCudaError, ncclUnhandledCudaError);
EQUAL(kNcclSystemError, ncclSystemError);
EQUAL(kNcclInternalError, ncclInternalError);
EQUAL(kNcclInvalidArgument, ncclInvalidArgument);
EQUAL(kNcclInvalidUsage, ncclInvalidUsage);
EQUAL(kNcclRemoteError, ncclRemoteError);
EQUAL(kNcclInProgress, ncclInProgress);
EQUAL(kNcclInt8, ncclInt8);
EQUAL(kNcclUint8, ncclUint8);
EQUAL(kNcclInt32, ncclInt32);
EQUAL(kNcclUint32, ncclUint32);
EQUAL(kNcclInt64, ncclInt64);
EQUAL(kNcclUint64, ncclUint64);
EQUAL(kNcclFloat16, ncclFloat16);
EQUAL(kNcclFloat32, ncclFloat32);
EQUAL(kNcclFloat64, ncclFloat64);
EQUAL(kNcclBfloat16, ncclBfloat16);
EQUAL(kNcclSum, ncclSum);
EQUAL(kNcclProduct, ncclProd);
EQUAL(kNcclMax, ncclMax);
EQUAL(kNcclMin, ncclMin);
EQUAL(kNcclAverage, ncclAvg);
EQUAL(kNcclScalarHostImmediate, ncclScalarHostImmediate);
EQUAL(sizeof(NcclUniqueId), sizeof(ncclUniqueId));
EQUAL(offsetof(NcclConfig, size), offsetof(ncclConfig_t, size));
EQUAL(offsetof(NcclConfig, magic), offsetof(ncclConfig_t, magic));
EQUAL(offsetof(NcclConfig, version), offsetof(ncclConfig_t, version));
EQUAL(offsetof(NcclConfig, blocking), offsetof(ncclConfig_t, blocking));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));

}  // namespace

/// Compares the names of the symbols. The versions at the ends of the names may differ, because the table may have an
/// older version of a function than the header.
int main() {
    int wrong = 0;
    for (std::size_t i = 0; i < std::size(kTableRows); ++i) {
        const std::string_view table = kTableRows[i].symbol;
        const std::string_view header = kHeaderRows[i].symbol;
        const std::string_view base = table.substr(0, table.find("_v"));
        if (std::string_view(kTableRows[i].member) != kHeaderRows[i].member ||
            base != header.substr(0, header.find("_v"))) {
            std::printf("%s: the table has %s, the header %s\n", kTableRows[i].member, kTableRows[i].symbol,
                        kHeaderRows[i].symbol);
            ++wrong;
        } else if (table != header) {
            std::printf("%s: the table has %s, the header the newer %s\n", kTableRows[i].member, kTableRows[i].symbol,
                        kHeaderRows[i].symbol);
        }
    }
    const NcclConfig own;
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    wrong += own.magic == theirs.magic ? 0 : 1;
    std::printf("%zu functions compared with CUDA %d and NCCL %d, %d differ\n", std::size(kTableRows), CUDA_VERSION,
                NCCL_VERSION_CODE, wrong);
    return wrong == 0 ? 0 : 1;
}
