// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/gpus/machine_gpus.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/files.hpp"

namespace rueda::base {

namespace {

namespace fs = std::filesystem;

MachineGpus gpus_of_nvml(const Nvml& nvml) {
    MachineGpus found;
    found.has_nvml = true;
    found.driver_version = nvml.driver_version();
    for (const Nvml::Device& device : nvml.devices()) {
        const std::optional<Nvml::Memory> memory = nvml.memory(device);
        found.gpus.push_back({nvml.uuid(device), nvml.name(device), nvml.pci_address(device),
                              memory ? std::optional(memory->total_bytes) : std::nullopt});
    }
    return found;
}

std::string_view without_spaces(std::string_view text) {
    constexpr std::string_view kSpaces = " \t\r";
    const std::size_t first = text.find_first_not_of(kSpaces);
    return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

/// Returns the value of a line such as "GPU UUID: \t GPU-8932f937-…" in the file `information` of a GPU.
std::string value_in(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t colon = line.find(':');
        if (colon != std::string_view::npos && without_spaces(line.substr(0, colon)) == name) {
            return std::string(without_spaces(line.substr(colon + 1)));
        }
    }
    return "";
}

/// Returns the version in a line such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep …".
std::string driver_version_in(std::string_view text) {
    const std::string line = value_in(text, "NVRM version");
    std::size_t at = 0;
    while (at < line.size()) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        const std::string_view word = std::string_view(line).substr(at, end - at);
        const bool is_version =
            word.find('.') != std::string_view::npos && word.find_first_not_of("0123456789.") == std::string_view::npos;
        if (is_version) {
            return std::string(word);
        }
        at = end + 1;
    }
    return "";
}

MachineGpus gpus_of_proc(const GpuSources& sources) {
    MachineGpus found;
    std::error_code error;
    fs::directory_iterator entry(fs::path(sources.proc) / "gpus", error);
    std::vector<fs::path> folders;
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        folders.push_back(entry->path());
    }
    // the names are PCI bus addresses of equal length, so the order of the names is the order of the addresses
    std::sort(folders.begin(), folders.end());
    for (const fs::path& folder : folders) {
        const std::string text = read_small_file(folder / "information").value_or("");
        const std::string minor = value_in(text, "Device Minor");
        const bool is_excluded = value_in(text, "GPU Excluded") == "Yes";
        if (minor.empty() || is_excluded || !fs::exists(fs::path(sources.devices) / ("nvidia" + minor), error)) {
            continue;
        }
        std::string uuid = value_in(text, "GPU UUID");
        // A UUID with question marks means that the driver has not initialised the GPU and does not know its UUID.
        if (uuid.find('?') != std::string::npos) {
            uuid.clear();
        }
        found.gpus.push_back({uuid, value_in(text, "Model"), folder.filename().string(), std::nullopt});
    }
    found.driver_version = driver_version_in(read_small_file(sources.proc + "/version").value_or(""));
    return found;
}

}  // namespace

MachineGpus find_machine_gpus(const GpuSources& sources) {
    const std::unique_ptr<const Nvml> nvml = Nvml::load(sources.nvml);
    return nvml ? gpus_of_nvml(*nvml) : gpus_of_proc(sources);
}

}  // namespace rueda::base
