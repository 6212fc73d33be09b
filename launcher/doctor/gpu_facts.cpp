// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/doctor/gpu_facts.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>

#include "launcher/options/text_parts.hpp"
#include "launcher/processes/captured_run.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCuda = "libcuda.so.1";
constexpr std::string_view kNccl = "libnccl.so.2";

/// How long python3 or ldconfig may take. On a network file system, the start of Python can take seconds.
constexpr std::chrono::seconds kLookTime{10};

/// Returns the version at the end of the name of the file to which a link leads: "libnccl.so.2.28.9" → "2.28.9". A
/// version needs at least two numbers.
std::string version_in_name(const fs::path& file) {
    std::error_code error;
    const std::string name = fs::canonical(file, error).filename().string();
    const std::size_t at = name.find(".so.");
    const std::string version = at == std::string::npos ? "" : name.substr(at + 4);
    const bool is_version =
        version.find('.') != std::string::npos && version.find_first_not_of("0123456789.") == std::string::npos;
    return is_version ? version : "";
}

/// Returns the version of pip's package to which the folder nvidia/nccl/lib belongs. The version is in the name of a
/// folder beside the folder nvidia, for example nvidia_nccl_cu13-2.28.9.dist-info.
std::string version_of_package(const fs::path& file) {
    const fs::path packages = file.parent_path().parent_path().parent_path().parent_path();
    constexpr std::string_view kBegin = "nvidia_nccl_";
    constexpr std::string_view kEnd = ".dist-info";
    std::error_code error;
    fs::directory_iterator entry(packages, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        const std::size_t hyphen = name.find('-');
        if (name.starts_with(kBegin) && name.ends_with(kEnd) && hyphen != std::string::npos) {
            return name.substr(hyphen + 1, name.size() - hyphen - 1 - kEnd.size());
        }
    }
    return "";
}

std::string output_of(const std::vector<std::string>& words, const Environment& environment) {
    const Result<CapturedRun> run = run_captured(words, environment, kLookTime);
    return run.is_ok() && run.value().in_time && run.value().wait_status == 0 ? run.value().text : "";
}

void add_folders(std::string_view list, std::vector<std::string>& folders) {
    while (!list.empty()) {
        if (const std::string_view folder = take_until(list, ':'); !folder.empty()) {
            folders.emplace_back(folder);
        }
    }
}

/// The usual folders of CUDA's libraries. A library can be there although the system's loader does not know it.
std::vector<std::string> folders_of_cuda(const Environment& environment) {
    std::vector<std::string> folders;
    for (const char* const name : {"CUDA_HOME", "CUDA_PATH"}) {
        if (const std::string home = text_of(environment, name); !home.empty()) {
            folders.push_back(home + "/lib64");
        }
    }
    folders.emplace_back("/usr/local/cuda/lib64");
    folders.emplace_back("/usr/lib/wsl/lib");
    return folders;
}

}  // namespace

FoundLibrary find_library(std::string_view name, const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
        const fs::path file = fs::path(folder) / name;
        std::error_code error;
        if (fs::exists(file, error)) {
            const std::string version = version_in_name(file);
            const bool is_package = folder.ends_with("/nvidia/nccl/lib");
            return {file.string(), version.empty() && is_package ? version_of_package(file) : version};
        }
    }
    return {};
}

std::string library_in_cache(std::string_view cache, std::string_view name) {
    constexpr std::string_view kArrow = " => ";
    while (!cache.empty()) {  // a line has the form "	libcuda.so.1 (libc6,x86-64) =>
                              // /lib/x86_64-linux-gnu/libcuda.so.1"
        const std::string_view line = trimmed(take_until(cache, '\n'));
        const std::size_t arrow = line.find(kArrow);
        // On x86-64, the cache may also have libraries of 32 bits. Their lines have "(libc6)" without an architecture.
        const bool is_64_bit = line.find("64") < arrow;
        if (arrow != std::string_view::npos && is_64_bit && line.substr(0, line.find(' ')) == name) {
            return std::string(line.substr(arrow + kArrow.size()));
        }
    }
    return "";
}

std::vector<std::string> nccl_folders_of_python(std::string_view search_path) {
    std::vector<std::string> folders;
    while (!search_path.empty()) {
        if (const std::string_view folder = trimmed(take_until(search_path, '\n')); !folder.empty()) {
            folders.push_back(std::string(folder) + "/nvidia/nccl/lib");
        }
    }
    return folders;
}

GpuFacts look_for_gpus(const Environment& environment) {
    GpuFacts facts;
    facts.machine = base::find_machine_gpus();
    const auto variable = environment.find(base::kVisibleDevices);
    facts.visible = base::visible_gpus(variable == environment.end() ? std::nullopt : std::optional(variable->second),
                                       facts.machine.gpus);
    if (facts.machine.gpus.empty()) {
        return facts;  // on a machine without a GPU, no program needs the libraries
    }
    const std::string cache = output_of({"/sbin/ldconfig", "-p"}, environment);
    std::vector<std::string> folders;
    add_folders(text_of(environment, "LD_LIBRARY_PATH"), folders);
    const std::vector<std::string> of_cuda = folders_of_cuda(environment);
    const auto find = [&](std::string_view name, std::vector<std::string> first) {
        first.insert(first.end(), folders.begin(), folders.end());
        if (const std::string file = library_in_cache(cache, name); !file.empty()) {
            first.push_back(fs::path(file).parent_path().string());
        }
        first.insert(first.end(), of_cuda.begin(), of_cuda.end());
        return find_library(name, first);
    };
    facts.cuda = find(kCuda, {});
    const std::string of_python =
        output_of({"/usr/bin/env", "python3", "-c", "import sys; print(*sys.path, sep='\\n')"}, environment);
    facts.nccl = find(kNccl, nccl_folders_of_python(of_python));
    return facts;
}

}  // namespace rueda::launcher
