// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/load_plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "rueda/version.h"

namespace rueda::collectives {
namespace {

constexpr const char* kPluginFile = "librueda_mpi.so";
constexpr const char* kHowToGetIt =
    "build Rueda where an MPI is installed (Debian: libopenmpi-dev) with -DRUEDA_WITH_MPI=ON, or name the file by "
    "RUEDA_MPI_PLUGIN";

/// The folder of the file that this code was linked into.
std::filesystem::path own_folder() {
    Dl_info info{};
    std::error_code error;
    if (::dladdr(reinterpret_cast<const void*>(&mpi_plugin_candidates), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    const auto file = std::filesystem::canonical(info.dli_fname, error);
    return error ? std::filesystem::path() : file.parent_path();
}

Result<const MpiPlugin*> load(const std::string& file) {
    // RTLD_GLOBAL makes the libraries that the plugin needs global too. Never closed: MPI cannot be unloaded.
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
        return failure(ErrorCode::unsupported, "the MPI plugin '{}' cannot be loaded: {}: {}", file,
                       text == nullptr ? "no reason given" : text, kHowToGetIt);
    }
    const auto entry = reinterpret_cast<MpiPluginEntry>(::dlsym(library, kMpiPluginEntry));
    if (entry == nullptr) {
        return failure(ErrorCode::unsupported, "'{}' is no MPI plugin of Rueda: it has no function {}: {}", file,
                       kMpiPluginEntry, kHowToGetIt);
    }
    const MpiPlugin* const plugin = entry(kMpiPluginInterface);
    if (plugin == nullptr || plugin->interface_version != kMpiPluginInterface) {
        return failure(
            ErrorCode::unsupported,
            "the MPI plugin '{}' is of another version of Rueda, expected {} (interface {}): install both from "
            "one build",
            file, RUEDA_VERSION, kMpiPluginInterface);
    }
    return plugin;
}

}  // namespace

std::vector<std::string> mpi_plugin_candidates() {
    const auto folder = own_folder();
    return {(folder / kPluginFile).string(), (folder / "rueda" / kPluginFile).string()};
}

Result<const MpiPlugin*> load_mpi_plugin(const std::string& file) {
    if (!file.empty()) {
        return load(file);
    }
    std::string looked_for;
    for (const std::string& candidate : mpi_plugin_candidates()) {
        if (::access(candidate.c_str(), F_OK) == 0) {
            return load(candidate);
        }
        looked_for += (looked_for.empty() ? "" : ", ") + candidate;
    }
    return failure(ErrorCode::unsupported, "the MPI plugin was not found, looked for {}: {}", looked_for, kHowToGetIt);
}

}  // namespace rueda::collectives
