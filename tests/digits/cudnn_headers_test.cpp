// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Compares the tables of functions in examples/digits with NVIDIA's headers. The comparison happens when this file is
// compiled.
#include <cuda.h>
#include <cudnn.h>

#include <type_traits>

#include "examples/digits/cuda_functions.hpp"

namespace {

/// Returns whether the two types are equivalent as a type of a function's parameter. The tables of examples/digits
/// declare pointers to NVIDIA's objects as void pointers, and enumerations as int.
template <class A, class B>
constexpr bool is_passed_alike() {
    if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
        return std::is_pointer_v<A> && std::is_pointer_v<B>;
    } else if constexpr (std::is_enum_v<A>) {
        return std::is_same_v<B, int> && sizeof(A) == sizeof(B);
    } else {
        return std::is_floating_point_v<A> == std::is_floating_point_v<B> && sizeof(A) == sizeof(B);
    }
}
template <class A, class B>
struct Alike;
template <class R, class... A, class S, class... B>
struct Alike<R (*)(A...), S (*)(B...)> {
    static constexpr bool value() {
        if constexpr (sizeof...(A) == sizeof...(B)) {
            return is_passed_alike<R, S>() && (is_passed_alike<A, B>() && ...);
        }
        return false;
    }
};
static_assert(!Alike<int (*)(int), int (*)(double)>::value());
static_assert(!Alike<int (*)(int), int (*)(int, int)>::value());

#define COMPARE(Table, member, function) \
    static_assert(Alike<decltype(&function), decltype(digits::Table::member)>::value(), #member);
#define CUDA(member, function) COMPARE(CudaFunctions, member, function)
#define CUDNN(member, function) COMPARE(CudnnFunctions, member, function)

CUDA(init, cuInit)
CUDA(get_error_name, cuGetErrorName)
CUDA(get_device, cuDeviceGet)
CUDA(retain_context, cuDevicePrimaryCtxRetain)
CUDA(push_context, cuCtxPushCurrent)
CUDA(create_stream, cuStreamCreateWithPriority)
CUDA(synchronise, cuStreamSynchronize)
CUDA(allocate, cuMemAlloc)
CUDA(free, cuMemFree)
CUDA(copy, cuMemcpyAsync)
CUDA(fill, cuMemsetD8Async)

CUDNN(create, cudnnCreate)
CUDNN(get_error_string, cudnnGetErrorString)
CUDNN(set_stream, cudnnSetStream)
CUDNN(create_tensor, cudnnCreateTensorDescriptor)
CUDNN(set_tensor, cudnnSetTensor4dDescriptor)
CUDNN(create_filter, cudnnCreateFilterDescriptor)
CUDNN(set_filter, cudnnSetFilter4dDescriptor)
CUDNN(create_convolution, cudnnCreateConvolutionDescriptor)
CUDNN(set_convolution, cudnnSetConvolution2dDescriptor)
CUDNN(set_math, cudnnSetConvolutionMathType)
CUDNN(create_activation, cudnnCreateActivationDescriptor)
CUDNN(set_activation, cudnnSetActivationDescriptor)
CUDNN(activate, cudnnActivationForward)
CUDNN(activate_backward, cudnnActivationBackward)
CUDNN(add, cudnnAddTensor)
CUDNN(forward_workspace, cudnnGetConvolutionForwardWorkspaceSize)
CUDNN(forward, cudnnConvolutionForward)
CUDNN(backward_data_workspace, cudnnGetConvolutionBackwardDataWorkspaceSize)
CUDNN(backward_data, cudnnConvolutionBackwardData)
CUDNN(backward_filter_workspace, cudnnGetConvolutionBackwardFilterWorkspaceSize)
CUDNN(backward_filter, cudnnConvolutionBackwardFilter)
CUDNN(backward_bias, cudnnConvolutionBackwardBias)

static_assert(digits::kFloat == CUDNN_DATA_FLOAT && digits::kChannelsFirst == CUDNN_TENSOR_NCHW);
static_assert(digits::kCrossCorrelation == CUDNN_CROSS_CORRELATION && digits::kFmaMath == CUDNN_FMA_MATH);
static_assert(digits::kRectifier == CUDNN_ACTIVATION_RELU && digits::kPropagateNan == CUDNN_PROPAGATE_NAN);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM == 1 && CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 == 1 &&
              CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 == 1);

}  // namespace

int main() { return 0; }
