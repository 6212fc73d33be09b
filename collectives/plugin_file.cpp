// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/plugin_file.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

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

Result<void*> open_plugin_file(const std::string& file, const char* entry, PluginScope scope, const char* kind) {
    const int visibility = scope == PluginScope::global ? RTLD_GLOBAL : RTLD_LOCAL;
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | visibility);
    if (library == nullptr) {
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
        return failure(ErrorCode::unsupported, "the {} '{}' cannot be loaded: {}", kind, file,
                       text == nullptr ? "no reason given" : text);
    }
    void* const address = ::dlsym(library, entry);
    if (address == nullptr) {
        return failure(ErrorCode::unsupported, "'{}' is no {} of Rueda: it has no function {}", file, kind, entry);
    }
    return address;
}

Status other_plugin_version(const std::string& file, const char* kind, unsigned interface_version) {
    return failure(ErrorCode::unsupported,
                   "the {} '{}' is of another version of Rueda, expected {} (interface {}), installed from the "
                   "library's own build",
                   kind, file, RUEDA_VERSION, interface_version);
}

}  // namespace rueda::collectives
