// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/load_nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace rueda::collectives::cuda {
namespace {

constexpr const char* kNcclFile = "libnccl.so.2";
constexpr const char* kHowToGetNccl =
    "install NCCL (pip install nvidia-nccl-cu12 or nvidia-nccl-cu13, or the package libnccl2), or name the file by "
    "RUEDA_NCCL_LIBRARY";

int note_file(dl_phdr_info* info, std::size_t /*size*/, void* files) {
    if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
        static_cast<std::vector<std::string>*>(files)->emplace_back(info->dlpi_name);
    }
    return 0;
}

std::string variable(const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): Rueda sets no variables
    return value == nullptr ? "" : value;
}

/// Returns the path of the Python installation's packages in which `file` lies, or an empty string.
std::string packages_of(const std::string& file) {
    for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
        if (const std::size_t at = file.rfind(folder); at != std::string::npos) {
            return file.substr(0, at + folder.size() - 1);
        }
    }
    return {};
}

std::string last_loader_error() {
    const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
    return text == nullptr ? "no reason given" : text;
}

/// Returns the path of the file that contains `function`.
std::string file_of(void* function, const std::string& otherwise) {
    Dl_info info{};
    return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

Result<LoadedNccl> use_library(void* library, const std::string& name) {
    LoadedNccl loaded;
    void* const get_version = ::dlsym(library, "ncclGetVersion");
    if (get_version == nullptr) {
        return failure(ErrorCode::unsupported, "'{}' is no NCCL: it has no function ncclGetVersion; {}", name,
                       kHowToGetNccl);
    }
    loaded.path = file_of(get_version, name);
    // The version is checked before the functions: if an old version lacks functions, the error should name the
    // version, because this helps the user more.
    reinterpret_cast<NcclResult (*)(int*)>(get_version)(&loaded.version);
    RUEDA_RETURN_IF_FAILED(check_nccl_version(loaded.version, loaded.path));
    RUEDA_RETURN_IF_FAILED(
        fill_nccl_api(loaded.api, fmt::format("NCCL {} ('{}')", name_of_nccl_version(loaded.version), loaded.path),
                      [library](const char* symbol) { return ::dlsym(library, symbol); }));
    loaded.notice = known_nccl_bugs(loaded.version);
    return loaded;
}

bool is_same_file(const std::string& one, const std::string& other) {
    std::error_code error;
    return std::filesystem::equivalent(one, other, error) && !error;
}

Result<LoadedNccl> use_loaded(void* library, const std::string& setting) {
    auto loaded = use_library(library, kNcclFile);
    if (loaded.is_ok() && !setting.empty() && !is_same_file(setting, loaded.value().path)) {
        loaded.value().notice +=
            fmt::format("{}the setting RUEDA_NCCL_LIBRARY ('{}') is not used, because '{}' was loaded before it",
                        loaded.value().notice.empty() ? "" : "; ", setting, loaded.value().path);
    }
    return loaded;
}

}  // namespace

std::string name_of_nccl_version(int version) {
    // From NCCL 2.9 on, the version's number is major * 10000 + minor * 100 + patch. In older versions, the major
    // number was multiplied by 1000 (nccl.h, NCCL_VERSION).
    return version < 10000 ? fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
                           : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Status check_nccl_version(int version, const std::string& path) {
    if (version >= kOldestNccl) {
        return {};
    }
    return failure(ErrorCode::unsupported,
                   "NCCL {} ('{}') is too old, expected {} or newer: in older versions, the abort of a communicator "
                   "that waits for a dead rank has known hangs; {}",
                   name_of_nccl_version(version), path, name_of_nccl_version(kOldestNccl), kHowToGetNccl);
}

std::string known_nccl_bugs(int version) {
    const char* bug = "";
    if (version < 21900) {
        bug =
            "an abort from a second thread can hang, so that a job may end slowly after a rank dies "
            "(github.com/NVIDIA/nccl/issues/992)";
    } else if (version < 22000) {
        bug = "an alltoall can hang; set NCCL_CUMEM_ENABLE=0 (github.com/NVIDIA/nccl/issues/1116)";
    }
    return *bug == '\0' ? std::string()
                        : fmt::format("NCCL {} has a known bug: {}; a newer version of NCCL avoids it",
                                      name_of_nccl_version(version), bug);
}

Status fill_nccl_api(NcclApi& api, const std::string& path, const FindFunction& find) {
#define RUEDA_NCCL_FILL(member, symbol, ...)                                                              \
    api.member = reinterpret_cast<decltype(api.member)>(find(symbol));                                    \
    if (api.member == nullptr) {                                                                          \
        return failure(ErrorCode::unsupported, "{} has no function {}; {}", path, symbol, kHowToGetNccl); \
    }
    RUEDA_NCCL_FUNCTIONS(RUEDA_NCCL_FILL)
#undef RUEDA_NCCL_FILL
#define RUEDA_NCCL_FILL(member, symbol, ...) api.member = reinterpret_cast<decltype(api.member)>(find(symbol));
    RUEDA_NCCL_MEMORY_FUNCTIONS(RUEDA_NCCL_FILL)
#undef RUEDA_NCCL_FILL
    if (api.allocate_memory == nullptr || api.free_memory == nullptr || api.register_memory == nullptr ||
        api.deregister_memory == nullptr) {
        api.allocate_memory = nullptr;
        api.free_memory = nullptr;
        api.register_memory = nullptr;
        api.deregister_memory = nullptr;
    }
    return {};
}

NcclSearch search_of_this_process(const std::string& setting) {
    NcclSearch search{.setting = setting, .cuda_path = variable("CUDA_PATH"), .cuda_home = variable("CUDA_HOME")};
    ::dl_iterate_phdr(note_file, &search.loaded_files);
    return search;
}

std::vector<std::string> nccl_candidates(const NcclSearch& search) {
    if (!search.setting.empty()) {
        return {search.setting};
    }
    std::vector<std::string> candidates;
    const auto add = [&](std::string candidate) {
        if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end()) {
            candidates.push_back(std::move(candidate));
        }
    };
    // PyTorch's own installation comes first: libtorch_cuda.so was tested with the NCCL beside it.
    for (const bool is_torch : {true, false}) {
        for (const std::string& file : search.loaded_files) {
            const std::string packages = packages_of(file);
            if (!packages.empty() && (file.find("libtorch_cuda") != std::string::npos) == is_torch) {
                add(fmt::format("{}/nvidia/nccl/lib/{}", packages, kNcclFile));
            }
        }
    }
    add(kNcclFile);
    for (const std::string& toolkit : {search.cuda_path, search.cuda_home}) {
        if (!toolkit.empty()) {
            add(fmt::format("{}/lib64/{}", toolkit, kNcclFile));
            add(fmt::format("{}/lib/{}", toolkit, kNcclFile));
        }
    }
    return candidates;
}

Result<LoadedNccl> load_nccl(const NcclSearch& search) {
    if (void* const library = ::dlopen(kNcclFile, RTLD_NOW | RTLD_NOLOAD); library != nullptr) {
        return use_loaded(library, search.setting);
    }
    std::vector<std::string> failures;
    for (const std::string& candidate : nccl_candidates(search)) {
        void* const library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr) {
            return use_library(library, candidate);
        }
        failures.push_back(last_loader_error());
    }
    return failure(ErrorCode::unsupported, "NCCL cannot be loaded ({}); {}", fmt::join(failures, "; "), kHowToGetNccl);
}

}  // namespace rueda::collectives::cuda
