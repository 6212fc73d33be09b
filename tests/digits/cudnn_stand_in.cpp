// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A stand-in for cuDNN with the functions that examples/digits uses. It computes on the host, on the memory of the
// stand-in for the driver. Each function waits until its stream has done all earlier work, because the function reads
// the results of this work.
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/support/gpu_stand_in/control.hpp"

extern "C" int cuStreamSynchronize(void* stream);  // a function of the stand-in for the driver

namespace {

struct Tensor {
    int n = 0, c = 0, h = 0, w = 0;
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(n) * at(0, c, 0, 0); }
    [[nodiscard]] std::size_t at(int image, int channel, int y, int x) const {
        return static_cast<std::size_t>(((image * c + channel) * h + y) * w + x);
    }
};
struct Convolution {
    int pad = 0, stride = 1;
};
struct Handle {
    void* stream = nullptr;
};

Handle* of_handle(void* handle) { return static_cast<Handle*>(handle); }
const Tensor& of_tensor(void* tensor) { return *static_cast<const Tensor*>(tensor); }

/// Waits for the stream. Then tells the stand-in for the driver that the host reads or writes the memory.
void access(void* handle, std::initializer_list<std::pair<const void*, std::size_t>> reads, void* written,
            std::size_t count) {
    cuStreamSynchronize(of_handle(handle)->stream);
    for (const auto& [memory, numbers] : reads) {
        rueda::tests::gpu::host_access(memory, numbers * sizeof(float), false);
    }
    rueda::tests::gpu::host_access(written, count * sizeof(float), true);
}

float number(const void* value) { return *static_cast<const float*>(value); }

/// Calls body(x index, filter index, y index) for each product of the convolution.
template <class Body>
void for_each_product(const Tensor& x, const Tensor& filter, const Convolution& form, const Tensor& y, Body body) {
    for (int image = 0; image < y.n; ++image) {
        for (int k = 0; k < y.c; ++k) {
            for (int c = 0; c < x.c; ++c) {
                for (int row = 0; row < y.h; ++row) {
                    for (int column = 0; column < y.w; ++column) {
                        for (int r = 0; r < filter.h; ++r) {
                            for (int s = 0; s < filter.w; ++s) {
                                const int in_row = row * form.stride - form.pad + r;
                                const int in_column = column * form.stride - form.pad + s;
                                if (in_row >= 0 && in_row < x.h && in_column >= 0 && in_column < x.w) {
                                    body(x.at(image, c, in_row, in_column), filter.at(k, c, r, s),
                                         y.at(image, k, row, column));
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

constexpr int kBadParameter = 2000;

/// Returns whether the sizes of the input, the filter and the output fit together, as cuDNN demands.
bool fits(const Tensor& x, const Tensor& filter, const Convolution& form, const Tensor& y) {
    return x.n == y.n && filter.c == x.c && filter.n == y.c &&
           y.h == (x.h + 2 * form.pad - filter.h) / form.stride + 1 &&
           y.w == (x.w + 2 * form.pad - filter.w) / form.stride + 1;
}

/// result = alpha * sums; the stand-in supports no other beta than 0.
int finish(const std::vector<double>& sums, const void* alpha, const void* beta, void* result) {
    if (number(beta) != 0.0F) {
        return kBadParameter;
    }
    std::transform(sums.begin(), sums.end(), static_cast<float*>(result),
                   [&](double sum) { return static_cast<float>(sum * static_cast<double>(number(alpha))); });
    return 0;
}

int workspace(bool fit, int algorithm, std::size_t* bytes) {
    *bytes = algorithm == 1 ? 1000 : 0;
    return fit ? 0 : kBadParameter;
}

template <class Object>
int make(void** place) {
    *place = new Object;  // never deleted, because descriptors live as long as the program
    return 0;
}

}  // namespace

extern "C" {

int cudnnCreate(void** handle) { return make<Handle>(handle); }
const char* cudnnGetErrorString(int status) { return status == 0 ? "success" : "bad parameter (stand-in)"; }
int cudnnSetStream(void* handle, void* stream) {
    of_handle(handle)->stream = stream;
    return 0;
}
int cudnnCreateTensorDescriptor(void** tensor) { return make<Tensor>(tensor); }
int cudnnSetTensor4dDescriptor(void* tensor, int format, int type, int n, int c, int h, int w) {
    *static_cast<Tensor*>(tensor) = {n, c, h, w};
    return format == 0 && type == 0 && n > 0 ? 0 : kBadParameter;
}
int cudnnCreateFilterDescriptor(void** filter) { return make<Tensor>(filter); }
int cudnnSetFilter4dDescriptor(void* filter, int type, int format, int k, int c, int h, int w) {
    return cudnnSetTensor4dDescriptor(filter, format, type, k, c, h, w);
}
int cudnnCreateConvolutionDescriptor(void** convolution) { return make<Convolution>(convolution); }
int cudnnSetConvolution2dDescriptor(void* convolution, int pad_h, int pad_w, int u, int v, int dilation_h,
                                    int dilation_w, int mode, int type) {
    *static_cast<Convolution*>(convolution) = {pad_h, u};
    return pad_h == pad_w && u == v && dilation_h == 1 && dilation_w == 1 && mode == 1 && type == 0 ? 0 : kBadParameter;
}
int cudnnSetConvolutionMathType(void* /*convolution*/, int math) { return math == 3 ? 0 : kBadParameter; }
int cudnnCreateActivationDescriptor(void** activation) { return make<int>(activation); }
int cudnnSetActivationDescriptor(void* /*activation*/, int mode, int /*nan*/, double /*coefficient*/) {
    return mode == 1 ? 0 : kBadParameter;
}

int cudnnActivationForward(void* handle, void* /*activation*/, const void* /*alpha*/, void* x_form, const void* x,
                           const void* /*beta*/, void* /*y_form*/, void* y) {
    const std::size_t size = of_tensor(x_form).size();
    access(handle, {{x, size}}, y, size);
    const auto* const from = static_cast<const float*>(x);
    std::transform(from, from + size, static_cast<float*>(y), [](float value) { return std::max(value, 0.0F); });
    return 0;
}
int cudnnActivationBackward(void* handle, void* /*activation*/, const void* /*alpha*/, void* y_form, const void* y,
                            void* /*dy_form*/, const void* dy, void* /*x_form*/, const void* x, const void* /*beta*/,
                            void* /*dx_form*/, void* dx) {
    const std::size_t size = of_tensor(y_form).size();
    access(handle, {{y, size}, {dy, size}, {x, size}}, dx, size);
    for (std::size_t i = 0; i < size; ++i) {
        static_cast<float*>(dx)[i] = static_cast<const float*>(x)[i] > 0 ? static_cast<const float*>(dy)[i] : 0.0F;
    }
    return 0;
}
int cudnnAddTensor(void* handle, const void* alpha, void* a_form, const void* a, const void* beta, void* c_form,
                   void* c) {
    const Tensor& from = of_tensor(a_form);
    const Tensor& to = of_tensor(c_form);
    access(handle, {{a, from.size()}}, c, to.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
        const std::size_t channel = i / static_cast<std::size_t>(to.h * to.w) % static_cast<std::size_t>(to.c);
        // either both tensors have the same size, or `from` has one value (a bias) for each channel
        const std::size_t at = from.size() == to.size() ? i : channel;
        float& result = static_cast<float*>(c)[i];
        result = number(alpha) * static_cast<const float*>(a)[at] + number(beta) * result;
    }
    return 0;
}

int cudnnGetConvolutionForwardWorkspaceSize(void* /*handle*/, void* x, void* filter, void* convolution, void* y,
                                            int algorithm, std::size_t* bytes) {
    return workspace(fits(of_tensor(x), of_tensor(filter), *static_cast<Convolution*>(convolution), of_tensor(y)),
                     algorithm, bytes);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void* handle, void* filter, void* dy, void* convolution, void* dx,
                                                 int algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, dx, filter, convolution, dy, algorithm, bytes);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void* handle, void* x, void* dy, void* convolution, void* filter,
                                                   int algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, x, filter, convolution, dy, algorithm, bytes);
}

int cudnnConvolutionForward(void* handle, const void* alpha, void* x_form, const void* x, void* filter, const void* w,
                            void* convolution, int /*algorithm*/, void* /*workspace*/, std::size_t /*bytes*/,
                            const void* beta, void* y_form, void* y) {
    const Tensor& to = of_tensor(y_form);
    access(handle, {{x, of_tensor(x_form).size()}, {w, of_tensor(filter).size()}}, y, to.size());
    std::vector<double> sums(to.size());
    for_each_product(of_tensor(x_form), of_tensor(filter), *static_cast<Convolution*>(convolution), to,
                     [&](std::size_t i, std::size_t f, std::size_t o) {
                         sums[o] += static_cast<double>(static_cast<const float*>(x)[i]) *
                                    static_cast<double>(static_cast<const float*>(w)[f]);
                     });
    return finish(sums, alpha, beta, y);
}
int cudnnConvolutionBackwardData(void* handle, const void* alpha, void* filter, const void* w, void* dy_form,
                                 const void* dy, void* convolution, int /*algorithm*/, void* /*workspace*/,
                                 std::size_t /*bytes*/, const void* beta, void* dx_form, void* dx) {
    const Tensor& to = of_tensor(dx_form);
    access(handle, {{dy, of_tensor(dy_form).size()}, {w, of_tensor(filter).size()}}, dx, to.size());
    std::vector<double> sums(to.size());
    for_each_product(to, of_tensor(filter), *static_cast<Convolution*>(convolution), of_tensor(dy_form),
                     [&](std::size_t i, std::size_t f, std::size_t o) {
                         sums[i] += static_cast<double>(static_cast<const float*>(dy)[o]) *
                                    static_cast<double>(static_cast<const float*>(w)[f]);
                     });
    return finish(sums, alpha, beta, dx);
}
int cudnnConvolutionBackwardFilter(void* handle, const void* alpha, void* x_form, const void* x, void* dy_form,
                                   const void* dy, void* convolution, int /*algorithm*/, void* /*workspace*/,
                                   std::size_t /*bytes*/, const void* beta, void* filter, void* dw) {
    const Tensor& to = of_tensor(filter);
    access(handle, {{x, of_tensor(x_form).size()}, {dy, of_tensor(dy_form).size()}}, dw, to.size());
    std::vector<double> sums(to.size());
    for_each_product(of_tensor(x_form), to, *static_cast<Convolution*>(convolution), of_tensor(dy_form),
                     [&](std::size_t i, std::size_t f, std::size_t o) {
                         sums[f] += static_cast<double>(static_cast<const float*>(x)[i]) *
                                    static_cast<double>(static_cast<const float*>(dy)[o]);
                     });
    return finish(sums, alpha, beta, dw);
}
int cudnnConvolutionBackwardBias(void* handle, const void* alpha, void* dy_form, const void* dy, const void* beta,
                                 void* bias_form, void* db) {
    const Tensor& from = of_tensor(dy_form);
    access(handle, {{dy, from.size()}}, db, of_tensor(bias_form).size());
    std::vector<double> sums(of_tensor(bias_form).size());
    for (std::size_t i = 0; i < from.size(); ++i) {
        sums[i / static_cast<std::size_t>(from.h * from.w) % static_cast<std::size_t>(from.c)] +=
            static_cast<double>(static_cast<const float*>(dy)[i]);
    }
    return finish(sums, alpha, beta, db);
}

}  // extern "C"
