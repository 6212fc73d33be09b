// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "cuda_functions.hpp"

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "rueda/error.hpp"

namespace digits {
namespace {

void* open_library(std::initializer_list<const char*> names, const char* advice) {
    std::string reasons;
    for (const char* name : names) {
        if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
            return library;
        }
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
        reasons += std::string(reasons.empty() ? "" : "; ") + (text == nullptr ? name : text);
    }
    throw rueda::Unsupported("--device cuda: " + reasons + "; " + advice);
}

template <class Function>
void resolve(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, symbol));
    if (function == nullptr) {
        throw rueda::Unsupported(std::string("--device cuda: the library has no function ") + symbol +
                                 "; install a newer one");
    }
}

}  // namespace

#define DIGITS_RESOLVE(member, symbol, ...) resolve(library, symbol, functions.member);

CudaFunctions open_cuda() {
    void* const library = open_library({"libcuda.so.1"}, "install NVIDIA's driver");
    CudaFunctions functions;
    DIGITS_CUDA_FUNCTIONS(DIGITS_RESOLVE)
    return functions;
}

CudnnFunctions open_cudnn() {
    void* const library = open_library({"libcudnn.so.9", "libcudnn.so.8"},
                                       "install cuDNN (pip install nvidia-cudnn-cu13), and add the folders of its "
                                       "libraries and of cuBLAS to LD_LIBRARY_PATH");
    CudnnFunctions functions;
    DIGITS_CUDNN_FUNCTIONS(DIGITS_RESOLVE)
    return functions;
}

#undef DIGITS_RESOLVE

}  // namespace digits
