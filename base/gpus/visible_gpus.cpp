// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The rules are those of section 5.2.1 of NVIDIA's CUDA programming guide (CUDA 13), "CUDA_VISIBLE_DEVICES":
// - Without the variable all GPUs are visible; with an empty value, none.
// - An entry is an index, a UUID ("GPU-…") that may be cut after enough characters to be unique, or an instance of a
// GPU
//   ("MIG-…").
// - An invalid entry ends the list: with "0,2,-1,1" the GPUs 0 and 2 are visible.
// The guide does not say what happens if a GPU is listed twice. In that case CUDA shows no GPU. PyTorch's code does the
// same (torch/cuda/__init__.py, _parse_visible_devices). CUDA reads an index as strtoul does, so "1gpu" is the index 1.
#include "base/gpus/visible_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::base {

namespace {

/// A valid entry of CUDA_VISIBLE_DEVICES. Two entries have the same `identity` if both are indices, or both are UUIDs,
/// of the same GPU. An index and a UUID never have the same `identity`.
struct VisibleEntry {
    std::string text;
    std::string identity;
};

std::string_view trimmed_entry(std::string_view text) {
    constexpr std::string_view kSpaces = " \t";
    const std::size_t first = text.find_first_not_of(kSpaces);
    return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::optional<VisibleEntry> entry_of_uuid(std::string_view text, const std::vector<MachineGpu>& machine) {
    const auto matches = [text](const MachineGpu& gpu) { return gpu.uuid.starts_with(text); };
    if (std::count_if(machine.begin(), machine.end(), matches) != 1) {
        return std::nullopt;
    }
    return VisibleEntry{std::string(text), std::find_if(machine.begin(), machine.end(), matches)->uuid};
}

std::optional<VisibleEntry> entry_of_index(std::string_view text, std::size_t gpus) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::optional<std::size_t> index = parse_integer<std::size_t>(text.substr(0, end));
    if (!index || *index >= gpus) {
        return std::nullopt;
    }
    return VisibleEntry{std::to_string(*index), std::to_string(*index)};
}

std::optional<VisibleEntry> valid_entry(std::string_view text, const std::vector<MachineGpu>& machine) {
    constexpr std::string_view kGpu = "GPU-";
    constexpr std::string_view kMig = "MIG-";
    if (text.starts_with(kGpu)) {
        return entry_of_uuid(text, machine);
    }
    // This code does not know which MIG instances exist, so it accepts every text that looks like the name of one.
    if (text.starts_with(kMig)) {
        return text.size() > kMig.size() && !machine.empty()
                   ? std::optional(VisibleEntry{std::string(text), std::string(text)})
                   : std::nullopt;
    }
    return entry_of_index(text, machine.size());
}

void read_entries(std::string_view list, const std::vector<MachineGpu>& machine, VisibleGpus& visible) {
    std::set<std::string> identities;
    while (true) {
        const std::size_t end = std::min(list.find(','), list.size());
        const std::string_view text = trimmed_entry(list.substr(0, end));
        const std::optional<VisibleEntry> entry = valid_entry(text, machine);
        if (!entry) {
            visible.problem =
                fmt::format("{} names no GPU of this machine, and CUDA reads no entries after it", quote(text));
            return;
        }
        if (!identities.insert(entry->identity).second) {
            visible.entries.clear();
            visible.problem = fmt::format("{} is listed twice, and CUDA then shows no GPU", quote(entry->text));
            return;
        }
        visible.entries.push_back(entry->text);
        if (end == list.size()) {
            return;
        }
        list.remove_prefix(end + 1);
    }
}

}  // namespace

VisibleGpus visible_gpus(const std::optional<std::string>& variable, const std::vector<MachineGpu>& machine) {
    VisibleGpus visible;
    visible.variable = variable;
    visible.on_machine = machine.size();
    if (!variable) {
        for (std::size_t index = 0; index < machine.size(); ++index) {
            visible.entries.push_back(std::to_string(index));
        }
    } else if (!variable->empty()) {
        read_entries(*variable, machine, visible);
    }
    return visible;
}

std::string describe_gpus(const VisibleGpus& visible) {
    std::string number = fmt::format("{} {}", visible.count(), visible.count() == 1 ? "GPU" : "GPUs");
    if (!visible.variable) {
        return number;
    }
    return fmt::format("{} ({} is {}{}{})", number, kVisibleDevices, quote(*visible.variable),
                       visible.problem.empty() ? "" : "; ", visible.problem);
}

}  // namespace rueda::base
