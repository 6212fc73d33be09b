// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The functions of NVIDIA's driver (libcuda.so.1) that Rueda calls, as a table of pointers. The table is filled at run
/// time, so nothing here needs NVIDIA's headers. A test compares every type with those of the CUDA Toolkit.
///
/// Rueda uses only the driver interface. The runtime library (libcudart) works on the same "primary" context of a
/// device, so the driver interface and the runtime library see the same streams, events and memory (CUDA Runtime API,
/// "Interactions with the CUDA Driver API").
namespace rueda::collectives::cuda {

/// A CUresult. Only the values that Rueda treats in a special way have names.
using CudaResult = int;
inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaInvalidValue = 1;
inline constexpr CudaResult kCudaOutOfMemory = 2;
inline constexpr CudaResult kCudaNotInitialized = 3;
inline constexpr CudaResult kCudaDeinitialized = 4;  ///< the process is ending
inline constexpr CudaResult kCudaStubLibrary = 34;   ///< the library is the toolkit's stub, which has no driver
inline constexpr CudaResult kCudaNoDevice = 100;
inline constexpr CudaResult kCudaInvalidDevice = 101;
inline constexpr CudaResult kCudaInvalidContext = 201;
inline constexpr CudaResult kCudaNoBinaryForDevice = 209;
inline constexpr CudaResult kCudaPeerAccessUnsupported = 217;
inline constexpr CudaResult kCudaNoPtxCompiler = 221;  ///< libnvidia-ptxjitcompiler.so.1 cannot be loaded
inline constexpr CudaResult kCudaInvalidHandle = 400;
inline constexpr CudaResult kCudaNotFound = 500;
inline constexpr CudaResult kCudaNotReady = 600;
inline constexpr CudaResult kCudaIllegalAddress = 700;
inline constexpr CudaResult kCudaPeerAccessEnabled = 704;  ///< peer access was enabled before
inline constexpr CudaResult kCudaLaunchFailed = 719;
inline constexpr CudaResult kCudaNotPermitted = 800;
inline constexpr CudaResult kCudaNotSupported = 801;
inline constexpr CudaResult kCudaCaptureUnsupported = 900;
inline constexpr CudaResult kCudaCaptureIsolation = 905;
inline constexpr CudaResult kCudaUnknown = 999;

using CudaDevice = int;                    ///< CUdevice
using DeviceAddress = unsigned long long;  ///< CUdeviceptr; NOLINT(google-runtime-int): the width of NVIDIA's type

// The types behind these pointers are NVIDIA's; Rueda never looks into them.
using CudaContext = struct CUctx_st*;
using CudaStream = struct CUstream_st*;
using CudaEvent = struct CUevent_st*;
using CudaModule = struct CUmod_st*;
using CudaFunction = struct CUfunc_st*;
using CudaHostFunction = void (*)(void* argument);

/// CUuuid: identifies a device, or an instance of a divided device.
struct CudaUuid {
    char bytes[16];
};
/// CUipcMemHandle and CUipcEventHandle: what another process needs in order to open memory or an event.
struct CudaIpcMemory {
    char reserved[64];
};
struct CudaIpcEvent {
    char reserved[64];
};

// Stream and event flags, and the values of enumerations, with NVIDIA's numbers.
inline constexpr unsigned kStreamNonBlocking = 1;   ///< the stream does not wait for the legacy default stream
inline constexpr unsigned kEventBlockingSync = 1;   ///< a host thread that waits for the event sleeps and does not spin
inline constexpr unsigned kEventDisableTiming = 2;  ///< the event records no time, and costs less
inline constexpr unsigned kEventInterprocess = 4;   ///< needs kEventDisableTiming
inline constexpr unsigned kIpcLazyEnablePeer = 1;
inline constexpr unsigned kHostPortable = 1;      ///< pinned memory that all contexts may use
inline constexpr unsigned kRegisterPortable = 1;  ///< memory that cuMemHostRegister() pins for all contexts
inline constexpr int kCaptureNone = 0;            ///< a CUstreamCaptureStatus: the stream captures no graph
inline constexpr int kCaptureActive = 1;
inline constexpr int kCaptureInvalidated = 2;
inline constexpr int kCaptureModeGlobal = 0;  ///< CUstreamCaptureMode
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kPointerMemoryType = 2;     ///< CUpointer_attribute: CUmemorytype, an unsigned
inline constexpr int kPointerDeviceOrdinal = 9;  ///< CUpointer_attribute: an int
inline constexpr unsigned kMemoryTypeHost = 1;   ///< CUmemorytype
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr int kDeviceMultiprocessors = 16;  ///< CUdevice_attribute
inline constexpr int kDevicePciBus = 33;
inline constexpr int kDevicePciDevice = 34;
inline constexpr int kDevicePciDomain = 50;
inline constexpr int kDeviceComputeMajor = 75;
inline constexpr int kDeviceComputeMinor = 76;

/// Lists the functions: F(member, symbol, result and parameters). The symbol is the function's name in the library. The
/// names in NVIDIA's headers are macros that stand for the newest version of a function. A stream whose value is null
/// is the legacy default stream.
#define RUEDA_CUDA_FUNCTIONS(F)                                                                                      \
    F(init, "cuInit", CudaResult(unsigned flags))                                                                    \
    F(driver_get_version, "cuDriverGetVersion", CudaResult(int* version))                                            \
    F(get_error_name, "cuGetErrorName", CudaResult(CudaResult error, const char** name))                             \
    F(get_error_string, "cuGetErrorString", CudaResult(CudaResult error, const char** text))                         \
    F(device_get_count, "cuDeviceGetCount", CudaResult(int* count))                                                  \
    F(device_get, "cuDeviceGet", CudaResult(CudaDevice* device, int ordinal))                                        \
    F(device_get_name, "cuDeviceGetName", CudaResult(char* name, int capacity, CudaDevice device))                   \
    F(device_get_uuid, "cuDeviceGetUuid_v2", CudaResult(CudaUuid* uuid, CudaDevice device))                          \
    F(device_get_attribute, "cuDeviceGetAttribute", CudaResult(int* value, int attribute, CudaDevice device))        \
    F(primary_context_retain, "cuDevicePrimaryCtxRetain", CudaResult(CudaContext* context, CudaDevice device))       \
    F(primary_context_release, "cuDevicePrimaryCtxRelease_v2", CudaResult(CudaDevice device))                        \
    F(primary_context_get_state, "cuDevicePrimaryCtxGetState",                                                       \
      CudaResult(CudaDevice device, unsigned* flags, int* active))                                                   \
    F(context_push, "cuCtxPushCurrent_v2", CudaResult(CudaContext context))                                          \
    F(context_pop, "cuCtxPopCurrent_v2", CudaResult(CudaContext* context))                                           \
    F(context_get_current, "cuCtxGetCurrent", CudaResult(CudaContext* context))                                      \
    F(device_can_access_peer, "cuDeviceCanAccessPeer", CudaResult(int* can, CudaDevice device, CudaDevice peer))     \
    F(context_enable_peer_access, "cuCtxEnablePeerAccess", CudaResult(CudaContext peer, unsigned flags))             \
    F(context_get_stream_priority_range, "cuCtxGetStreamPriorityRange", CudaResult(int* least, int* greatest))       \
    F(stream_create_with_priority, "cuStreamCreateWithPriority",                                                     \
      CudaResult(CudaStream* stream, unsigned flags, int priority))                                                  \
    F(stream_destroy, "cuStreamDestroy_v2", CudaResult(CudaStream stream))                                           \
    F(stream_query, "cuStreamQuery", CudaResult(CudaStream stream))                                                  \
    F(stream_synchronize, "cuStreamSynchronize", CudaResult(CudaStream stream))                                      \
    F(stream_wait_event, "cuStreamWaitEvent", CudaResult(CudaStream stream, CudaEvent event, unsigned flags))        \
    F(stream_is_capturing, "cuStreamIsCapturing", CudaResult(CudaStream stream, int* status))                        \
    F(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", CudaResult(int* mode))                      \
    F(event_create, "cuEventCreate", CudaResult(CudaEvent* event, unsigned flags))                                   \
    F(event_record, "cuEventRecord", CudaResult(CudaEvent event, CudaStream stream))                                 \
    F(event_query, "cuEventQuery", CudaResult(CudaEvent event))                                                      \
    F(event_synchronize, "cuEventSynchronize", CudaResult(CudaEvent event))                                          \
    F(event_elapsed_time, "cuEventElapsedTime", CudaResult(float* milliseconds, CudaEvent start, CudaEvent end))     \
    F(event_destroy, "cuEventDestroy_v2", CudaResult(CudaEvent event))                                               \
    F(memory_allocate, "cuMemAlloc_v2", CudaResult(DeviceAddress* address, std::size_t bytes))                       \
    F(memory_free, "cuMemFree_v2", CudaResult(DeviceAddress address))                                                \
    F(memory_get_range, "cuMemGetAddressRange_v2",                                                                   \
      CudaResult(DeviceAddress* base, std::size_t* bytes, DeviceAddress address))                                    \
    F(host_allocate, "cuMemHostAlloc", CudaResult(void** address, std::size_t bytes, unsigned flags))                \
    F(host_free, "cuMemFreeHost", CudaResult(void* address))                                                         \
    F(host_register, "cuMemHostRegister_v2", CudaResult(void* address, std::size_t bytes, unsigned flags))           \
    F(host_unregister, "cuMemHostUnregister", CudaResult(void* address))                                             \
    F(copy_async, "cuMemcpyAsync",                                                                                   \
      CudaResult(DeviceAddress to, DeviceAddress from, std::size_t bytes, CudaStream stream))                        \
    F(copy_peer_async, "cuMemcpyPeerAsync",                                                                          \
      CudaResult(DeviceAddress to, CudaContext to_context, DeviceAddress from, CudaContext from_context,             \
                 std::size_t bytes, CudaStream stream))                                                              \
    F(fill_async, "cuMemsetD8Async",                                                                                 \
      CudaResult(DeviceAddress to, unsigned char value, std::size_t bytes, CudaStream stream))                       \
    F(pointer_get_attribute, "cuPointerGetAttribute", CudaResult(void* value, int attribute, DeviceAddress address)) \
    F(ipc_get_memory_handle, "cuIpcGetMemHandle", CudaResult(CudaIpcMemory* handle, DeviceAddress address))          \
    F(ipc_open_memory_handle, "cuIpcOpenMemHandle_v2",                                                               \
      CudaResult(DeviceAddress* address, CudaIpcMemory handle, unsigned flags))                                      \
    F(ipc_close_memory_handle, "cuIpcCloseMemHandle", CudaResult(DeviceAddress address))                             \
    F(ipc_get_event_handle, "cuIpcGetEventHandle", CudaResult(CudaIpcEvent* handle, CudaEvent event))                \
    F(ipc_open_event_handle, "cuIpcOpenEventHandle", CudaResult(CudaEvent* event, CudaIpcEvent handle))              \
    F(module_load_data, "cuModuleLoadData", CudaResult(CudaModule* module, const void* image))                       \
    F(module_unload, "cuModuleUnload", CudaResult(CudaModule module))                                                \
    F(module_get_function, "cuModuleGetFunction",                                                                    \
      CudaResult(CudaFunction* function, CudaModule module, const char* name))                                       \
    F(launch_kernel, "cuLaunchKernel",                                                                               \
      CudaResult(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,         \
                 unsigned block_y, unsigned block_z, unsigned shared_bytes, CudaStream stream, void** arguments,     \
                 void** extra))                                                                                      \
    F(launch_host_function, "cuLaunchHostFunc",                                                                      \
      CudaResult(CudaStream stream, CudaHostFunction function, void* argument))

/// The driver's functions. All pointers are set.
struct CudaApi {
#define RUEDA_CUDA_MEMBER(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
    RUEDA_CUDA_FUNCTIONS(RUEDA_CUDA_MEMBER)
#undef RUEDA_CUDA_MEMBER
};

}  // namespace rueda::collectives::cuda
