// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/load_plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "collectives/plugin_file.hpp"

namespace rueda::collectives {
namespace {

constexpr const char* kPluginFile = "librueda_mpi.so";
constexpr const char* kMpichPluginFile = "librueda_mpich.so";
constexpr PluginKind kMpiPluginKind{.name = "MPI plugin",
                                    .entry = kMpiPluginEntry,
                                    .interface_version = kMpiPluginInterface,
                                    // The plugin needs an MPI library. With the global scope, the symbols of this
                                    // library are visible, too.
                                    .scope = PluginScope::global};

std::string how_to_get_it(std::optional<MpiAbi> abi) {
    const char* const mpi = !abi                    ? "an MPI is installed (Debian: libopenmpi-dev)"
                            : *abi == MpiAbi::mpich ? "MPICH is installed (Debian: libmpich-dev)"
                                                    : "Open MPI is installed (Debian: libopenmpi-dev)";
    return fmt::format("build Rueda where {} with -DRUEDA_WITH_MPI=ON, or name the file by RUEDA_MPI_PLUGIN", mpi);
}

int note_mpi_library(dl_phdr_info* info, std::size_t /*size*/, void* found) {
    const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (file.starts_with("libmpi.so") || file.starts_with("libmpich.so")) {
        static_cast<std::vector<std::string>*>(found)->emplace_back(path);
    }
    return 0;
}

/// Returns the paths of the loaded MPI libraries. A search for MPI symbols would not find all of them: a program can
/// load a library without making its symbols visible, as Python does for modules.
std::vector<std::string> mpi_libraries() {
    std::vector<std::string> libraries;
    ::dl_iterate_phdr(note_mpi_library, &libraries);
    return libraries;
}

/// Calls MPI_Initialized in a library, which can be any MPI: the function has the same type in every MPI.
LoadedMpi look_into(void* library) {
    using Initialized = int (*)(int*);
    const auto initialized = reinterpret_cast<Initialized>(::dlsym(library, "MPI_Initialized"));
    if (initialized == nullptr) {
        return {};
    }
    int flag = 0;
    const bool is_initialized = initialized(&flag) == 0 && flag != 0;
    // Only Open MPI has this symbol: its address is Open MPI's MPI_COMM_WORLD.
    const bool is_open_mpi = ::dlsym(library, "ompi_mpi_comm_world") != nullptr;
    return {is_initialized, is_open_mpi ? MpiAbi::open_mpi : MpiAbi::mpich};
}

/// Makes the symbols of the loaded MPI visible to libraries that are loaded later. The plugin may have been built with
/// another MPI of the same ABI, whose library has another file name. The plugin must nevertheless use the MPI that is
/// already loaded.
void make_global(MpiAbi abi) {
    for (const std::string& path : mpi_libraries()) {
        void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
        if (library != nullptr && look_into(library).abi == abi) {
            static_cast<void>(
                // The reference that dlopen() adds is never given back, because MPI cannot be unloaded.
                ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL));
        }
    }
}

Result<const MpiPlugin*> load(const std::string& file, std::optional<MpiAbi> abi) {
    if (abi) {
        make_global(*abi);
    }
    return load_plugin_file<MpiPlugin>(file, kMpiPluginKind);
}

}  // namespace

LoadedMpi find_loaded_mpi() {
    LoadedMpi found = look_into(RTLD_DEFAULT);
    for (const std::string& path : mpi_libraries()) {
        if (found.is_initialized) {
            break;
        }
        if (void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD); library != nullptr) {
            const LoadedMpi here = look_into(library);
            ::dlclose(library);  // gives back the reference that dlopen() added; the library stays loaded
            found = here.is_initialized || !found.abi ? here : found;
        }
    }
    return found;
}

std::vector<std::string> mpi_plugin_candidates(std::optional<MpiAbi> abi) {
    std::vector<const char*> files{kPluginFile};
    if (!abi) {
        files = {kPluginFile, kMpichPluginFile};
    } else if (*abi == MpiAbi::mpich) {
        files = {kMpichPluginFile, kPluginFile};
    }
    std::vector<std::string> candidates;
    for (const char* const file : files) {
        for (std::string& place : plugin_places(file)) {
            candidates.push_back(std::move(place));
        }
    }
    return candidates;
}

Result<const MpiPlugin*> load_mpi_plugin(const std::string& file, std::optional<MpiAbi> abi) {
    if (file.empty()) {
        return load_first_mpi_plugin(mpi_plugin_candidates(abi), abi);
    }
    auto plugin = load(file, abi);
    if (!plugin.is_ok()) {
        return failure(plugin.status().code(), "{}: {}", plugin.status().message(), how_to_get_it(abi));
    }
    return plugin;
}

Result<const MpiPlugin*> load_first_mpi_plugin(const std::vector<std::string>& candidates, std::optional<MpiAbi> abi) {
    std::vector<std::string> absent;
    std::vector<std::string> failures;
    for (const std::string& candidate : candidates) {
        if (::access(candidate.c_str(), F_OK) != 0) {
            absent.push_back(candidate);
            continue;
        }
        auto plugin = load(candidate, abi);
        if (plugin.is_ok() && (!abi || plugin.value()->abi == *abi)) {
            return plugin;
        }
        if (plugin.is_ok()) {
            failures.push_back(fmt::format("the MPI plugin '{}' is for {}, but the MPI of this job is {}", candidate,
                                           name_of(plugin.value()->abi), name_of(*abi)));
            // no other plugin is tried: the MPI of this plugin is loaded now, so another plugin would find the symbols
            // of this MPI first
            break;
        }
        failures.push_back(plugin.status().message());
    }
    if (failures.empty()) {
        return failure(ErrorCode::unsupported, "the MPI plugin was not found, looked for {}: {}",
                       fmt::join(absent, ", "), how_to_get_it(abi));
    }
    return failure(ErrorCode::unsupported, "{}: {}", fmt::join(failures, "; and "), how_to_get_it(abi));
}

}  // namespace rueda::collectives
