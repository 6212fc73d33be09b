// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/plugin_file.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "rueda/version.h"

namespace rueda::collectives {
namespace {

/// Returns the folder of the file (library or program) that contains this code.
std::filesystem::path folder_of_this_code() {
    Dl_info info{};
    std::error_code error;
    if (::dladdr(reinterpret_cast<const void*>(&plugin_places), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    const auto file = std::filesystem::canonical(info.dli_fname, error);
    return error ? std::filesystem::path() : file.parent_path();
}

}  // namespace

std::vector<std::string> plugin_places(const char* file) {
    const auto folder = folder_of_this_code();
    return {(folder / file).string(), (folder / "rueda" / file).string()};
}

std::string find_plugin_file(const char* file) {
    for (std::string& place : plugin_places(file)) {
        if (::access(place.c_str(), F_OK) == 0) {
            return std::move(place);
        }
    }
    return {};
}

Result<void*> open_plugin_file(const std::string& file, const PluginKind& kind) {
    const int visibility = kind.scope == PluginScope::global ? RTLD_GLOBAL : RTLD_LOCAL;
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | visibility);
    if (library == nullptr) {
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
        return failure(ErrorCode::unsupported, "the {} '{}' cannot be loaded: {}{}", kind.name, file,
                       text == nullptr ? "no reason given" : text, kind.needs);
    }
    void* const address = ::dlsym(library, kind.entry);
    if (address == nullptr) {
        return failure(ErrorCode::unsupported, "'{}' is no {} of Rueda: it has no function {}{}", file, kind.name,
                       kind.entry, kind.needs);
    }
    return address;
}

Status other_plugin_version(const std::string& file, const PluginKind& kind) {
    return failure(ErrorCode::unsupported,
                   "the {} '{}' is of another version of Rueda, expected {} (interface {}), installed from the "
                   "library's own build",
                   kind.name, file, RUEDA_VERSION, kind.interface_version);
}

}  // namespace rueda::collectives
