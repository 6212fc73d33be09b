// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/metrics/metrics_endpoint.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "rueda/version.h"

namespace rueda::core {
namespace {

constexpr const char* kPluginFile = "librueda_prometheus.so";

/// The folder of the library or program that contains this code.
std::filesystem::path own_folder() {
    Dl_info info{};
    std::error_code error;
    if (::dladdr(reinterpret_cast<const void*>(&open_metrics_endpoint), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    const auto file = std::filesystem::canonical(info.dli_fname, error);
    return error ? std::filesystem::path() : file.parent_path();
}

Result<const MetricsPlugin*> load_metrics_plugin(const std::string& file) {
    // The plugin is never unloaded, because its libraries may have registered functions for the exit of the process.
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
        return failure(ErrorCode::unsupported, "the plugin '{}' cannot be loaded: {}", file,
                       text == nullptr ? "no reason given" : text);
    }
    const auto entry = reinterpret_cast<MetricsPluginEntry>(::dlsym(library, kMetricsPluginEntry));
    const MetricsPlugin* const plugin = entry == nullptr ? nullptr : entry(kMetricsPluginInterface);
    if (plugin == nullptr || plugin->interface_version != kMetricsPluginInterface) {
        return failure(ErrorCode::unsupported,
                       "the plugin '{}' is of another version of Rueda; expected {} (interface {}), installed from the "
                       "library's own build",
                       file, RUEDA_VERSION, kMetricsPluginInterface);
    }
    return plugin;
}

}  // namespace

Result<std::unique_ptr<MetricsEndpoint>> open_metrics_endpoint(const MetricsAddress& address, CollectMetrics collect) {
    const std::filesystem::path folder = own_folder();
    for (const std::filesystem::path& file : {folder / kPluginFile, folder / "rueda" / kPluginFile}) {
        if (::access(file.c_str(), F_OK) == 0) {
            const Result<const MetricsPlugin*> plugin = load_metrics_plugin(file.string());
            RUEDA_RETURN_IF_FAILED(plugin.status());
            return plugin.value()->open(address, std::move(collect));
        }
    }
    return failure(ErrorCode::unsupported,
                   "the plugin {} was not found in {}: build Rueda where prometheus-cpp is installed (Debian: "
                   "prometheus-cpp-dev), or read the metrics with rueda_metrics() or rueda.metrics()",
                   kPluginFile, folder.string());
}

}  // namespace rueda::core
