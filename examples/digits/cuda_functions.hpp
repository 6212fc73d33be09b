// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// @file
/// The functions of NVIDIA's driver (libcuda.so.1) and of cuDNN (libcudnn.so.9 or .8) that the network on a GPU needs.
/// The program opens the libraries when it needs them, so it can be built without the CUDA Toolkit and runs on machines
/// without a GPU. A program that always uses a GPU can simply include NVIDIA's headers and link the libraries.
namespace digits {

using DeviceAddress = std::uint64_t;
using CudnnObject = void*;  ///< a handle or a descriptor

// Values of cuDNN's enumerations.
inline constexpr int kFloat = 0;             ///< CUDNN_DATA_FLOAT
inline constexpr int kChannelsFirst = 0;     ///< CUDNN_TENSOR_NCHW
inline constexpr int kCrossCorrelation = 1;  ///< CUDNN_CROSS_CORRELATION: the filter is not mirrored
inline constexpr int kFmaMath = 3;           ///< CUDNN_FMA_MATH: float32 without TF32, whose mantissa has only 10 bits
inline constexpr int kRectifier = 1;         ///< CUDNN_ACTIVATION_RELU
inline constexpr int kPropagateNan = 1;      ///< CUDNN_PROPAGATE_NAN

#define DIGITS_CUDA_FUNCTIONS(F)                                                                         \
    F(init, "cuInit", int(unsigned flags))                                                               \
    F(get_error_name, "cuGetErrorName", int(int error, const char** name))                               \
    F(get_device, "cuDeviceGet", int(int* device, int ordinal))                                          \
    F(retain_context, "cuDevicePrimaryCtxRetain", int(void** context, int device))                       \
    F(push_context, "cuCtxPushCurrent_v2", int(void* context))                                           \
    F(create_stream, "cuStreamCreateWithPriority", int(void** stream, unsigned flags, int priority))     \
    F(synchronise, "cuStreamSynchronize", int(void* stream))                                             \
    F(allocate, "cuMemAlloc_v2", int(DeviceAddress * address, std::size_t bytes))                        \
    F(free, "cuMemFree_v2", int(DeviceAddress address))                                                  \
    F(copy, "cuMemcpyAsync", int(DeviceAddress to, DeviceAddress from, std::size_t bytes, void* stream)) \
    F(fill, "cuMemsetD8Async", int(DeviceAddress to, unsigned char value, std::size_t bytes, void* stream))

#define DIGITS_CUDNN_FUNCTIONS(F)                                                                                      \
    F(create, "cudnnCreate", int(CudnnObject * handle))                                                                \
    F(get_error_string, "cudnnGetErrorString", const char*(int status))                                                \
    F(set_stream, "cudnnSetStream", int(CudnnObject handle, void* stream))                                             \
    F(create_tensor, "cudnnCreateTensorDescriptor", int(CudnnObject * tensor))                                         \
    F(set_tensor, "cudnnSetTensor4dDescriptor",                                                                        \
      int(CudnnObject tensor, int format, int type, int images, int channels, int height, int width))                  \
    F(create_filter, "cudnnCreateFilterDescriptor", int(CudnnObject * filter))                                         \
    F(set_filter, "cudnnSetFilter4dDescriptor",                                                                        \
      int(CudnnObject filter, int type, int format, int outputs, int inputs, int height, int width))                   \
    F(create_convolution, "cudnnCreateConvolutionDescriptor", int(CudnnObject * convolution))                          \
    F(set_convolution, "cudnnSetConvolution2dDescriptor",                                                              \
      int(CudnnObject convolution, int pad_height, int pad_width, int stride_height, int stride_width,                 \
          int dilation_height, int dilation_width, int mode, int type))                                                \
    F(set_math, "cudnnSetConvolutionMathType", int(CudnnObject convolution, int math))                                 \
    F(create_activation, "cudnnCreateActivationDescriptor", int(CudnnObject * activation))                             \
    F(set_activation, "cudnnSetActivationDescriptor",                                                                  \
      int(CudnnObject activation, int mode, int nan, double coefficient))                                              \
    F(activate, "cudnnActivationForward",                                                                              \
      int(CudnnObject handle, CudnnObject activation, const void* alpha, CudnnObject x_form, const void* x,            \
          const void* beta, CudnnObject y_form, void* y))                                                              \
    F(activate_backward, "cudnnActivationBackward",                                                                    \
      int(CudnnObject handle, CudnnObject activation, const void* alpha, CudnnObject y_form, const void* y,            \
          CudnnObject dy_form, const void* dy, CudnnObject x_form, const void* x, const void* beta,                    \
          CudnnObject dx_form, void* dx))                                                                              \
    F(add, "cudnnAddTensor",                                                                                           \
      int(CudnnObject handle, const void* alpha, CudnnObject a_form, const void* a, const void* beta,                  \
          CudnnObject c_form, void* c))                                                                                \
    F(forward_workspace, "cudnnGetConvolutionForwardWorkspaceSize",                                                    \
      int(CudnnObject handle, CudnnObject x_form, CudnnObject filter, CudnnObject convolution, CudnnObject y_form,     \
          int algorithm, std::size_t* bytes))                                                                          \
    F(forward, "cudnnConvolutionForward",                                                                              \
      int(CudnnObject handle, const void* alpha, CudnnObject x_form, const void* x, CudnnObject filter, const void* w, \
          CudnnObject convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta,                \
          CudnnObject y_form, void* y))                                                                                \
    F(backward_data_workspace, "cudnnGetConvolutionBackwardDataWorkspaceSize",                                         \
      int(CudnnObject handle, CudnnObject filter, CudnnObject dy_form, CudnnObject convolution, CudnnObject dx_form,   \
          int algorithm, std::size_t* bytes))                                                                          \
    F(backward_data, "cudnnConvolutionBackwardData",                                                                   \
      int(CudnnObject handle, const void* alpha, CudnnObject filter, const void* w, CudnnObject dy_form,               \
          const void* dy, CudnnObject convolution, int algorithm, void* workspace, std::size_t bytes,                  \
          const void* beta, CudnnObject dx_form, void* dx))                                                            \
    F(backward_filter_workspace, "cudnnGetConvolutionBackwardFilterWorkspaceSize",                                     \
      int(CudnnObject handle, CudnnObject x_form, CudnnObject dy_form, CudnnObject convolution, CudnnObject filter,    \
          int algorithm, std::size_t* bytes))                                                                          \
    F(backward_filter, "cudnnConvolutionBackwardFilter",                                                               \
      int(CudnnObject handle, const void* alpha, CudnnObject x_form, const void* x, CudnnObject dy_form,               \
          const void* dy, CudnnObject convolution, int algorithm, void* workspace, std::size_t bytes,                  \
          const void* beta, CudnnObject filter, void* dw))                                                             \
    F(backward_bias, "cudnnConvolutionBackwardBias",                                                                   \
      int(CudnnObject handle, const void* alpha, CudnnObject dy_form, const void* dy, const void* beta,                \
          CudnnObject bias_form, void* db))

struct CudaFunctions {
#define DIGITS_MEMBER(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
    DIGITS_CUDA_FUNCTIONS(DIGITS_MEMBER)
};
struct CudnnFunctions {
    DIGITS_CUDNN_FUNCTIONS(DIGITS_MEMBER)
#undef DIGITS_MEMBER
};

/// These functions open the libraries. They throw rueda::Unsupported if a library or a function is missing. The
/// libraries are never closed.
[[nodiscard]] CudaFunctions open_cuda();
[[nodiscard]] CudnnFunctions open_cudnn();

}  // namespace digits
