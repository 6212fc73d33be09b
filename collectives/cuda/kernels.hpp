// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "collectives/cuda/cuda_api.hpp"
#include "ops/cuda/launch.hpp"

namespace rueda::collectives::cuda {

/// The kernels of ops/cuda on one device.
///
/// Kernels are optional. A build without a compiler for kernels has none, and a driver may refuse them. The caller must
/// then do its work without kernels, so it asks load() before it plans the work.
///
/// The kernels are never unloaded, because the driver may end before this code does.
///
/// Threads: any thread may call any function.
class Kernels {
public:
    using Note = std::function<void(const std::string& text)>;

    /// `image` is the text of all kernels, and a null character follows it. The text is empty if the build has no
    /// kernels. `api` must live as long as this object.
    Kernels(const CudaApi& api, int device, CudaContext context, std::string_view image);
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    /// The first call lets the driver compile all kernels. If other threads call this function meanwhile, they wait for
    /// the first call to end. The compilation takes 2 to 4 seconds if the driver does not have the result in its cache
    /// on disk. So the program's thread should make the first call, when it submits the first operation. The thread
    /// that drives progress must not wait for so long, because it has to notice failures of other ranks.
    ///
    /// Later calls are fast and return the same result. If there are no kernels, the result is Unsupported with the
    /// reason. Only the first call also passes the reason to `note`.
    const Status& load(const Note& note = {});

    /// Puts a kernel into the stream, which must belong to the device. Fails with the reason of load() if there are no
    /// kernels, and with Aborted if the driver cannot launch.
    template <class Arguments>
    [[nodiscard]] Status launch(const ops::cuda::Launch<Arguments>& launch, CudaStream stream) {
        // The driver copies the argument during the call and does not change it, so the cast that removes const is
        // harmless.
        return launch_kernel(launch.kernel, launch.geometry, const_cast<Arguments*>(&launch.arguments), stream);
    }

private:
    [[nodiscard]] Status load_all();
    [[nodiscard]] Status find(CudaModule module, const char* name);
    [[nodiscard]] Status launch_kernel(const char* name, ops::cuda::Geometry geometry, void* argument,
                                       CudaStream stream);
    [[nodiscard]] Status failure_of(const char* call, CudaResult error) const;

    const CudaApi& api_;
    const int device_;
    const CudaContext context_;
    const std::string_view image_;

    std::once_flag once_;
    // load() writes `loaded_` and `functions_` once. After that, they are only read.
    Status loaded_;
    std::map<std::string_view, CudaFunction> functions_;
};

}  // namespace rueda::collectives::cuda
