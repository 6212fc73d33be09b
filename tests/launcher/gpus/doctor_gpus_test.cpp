// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/doctor/doctor.hpp"
#include "launcher/doctor/gpu_facts.hpp"

namespace rueda::launcher {
namespace {

namespace fs = std::filesystem;

GpuFacts two_gpus(const std::optional<std::string>& variable = {}) {
    GpuFacts facts;
    facts.machine.gpus = {{"GPU-aa", "NVIDIA H100", "0000:1b:00.0", std::uint64_t{80} << 30},
                          {"GPU-bb", "NVIDIA H100", "0000:43:00.0", {}}};
    facts.machine.driver_version = "580.95.05";
    facts.machine.has_nvml = true;
    facts.visible = base::visible_gpus(variable, facts.machine.gpus);
    facts.cuda = {"/usr/lib/libcuda.so.1", "580.95.05"};
    facts.nccl = {"/p/nvidia/nccl/lib/libnccl.so.2", "2.28.9"};
    return facts;
}

/// Returns the findings as texts "severity subject: found".
std::vector<std::string> findings(const GpuFacts& facts, std::optional<int> ranks = {},
                                  const Environment& environment = {}, bool has_other_hosts = false) {
    std::vector<std::string> texts;
    for (const Finding& one : examine_gpus(facts, ranks, environment, has_other_hosts)) {
        texts.push_back((one.severity == Severity::fine ? "fine " : "warning ") + one.subject + ": " + one.found);
        CHECK(one.advice.empty() == (one.severity == Severity::fine));
    }
    return texts;
}

bool has(const std::vector<std::string>& texts, const std::string& text) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
}

TEST_CASE("the doctor lists GPUs and libraries", "[unit]") {
    CHECK(findings(two_gpus()) ==
          std::vector<std::string>{
              "fine GPU 0: NVIDIA H100, 80 GiB, GPU-aa, 0000:1b:00.0", "fine GPU 1: NVIDIA H100, GPU-bb, 0000:43:00.0",
              "fine GPU driver: 580.95.05, /usr/lib/libcuda.so.1", "fine NCCL: 2.28.9, /p/nvidia/nccl/lib/libnccl.so.2",
              "fine ranks and GPUs: at most 2 ranks here without sharing a GPU: CUDA shows 2 GPUs",
              "fine tensors on GPUs: 2 ranks on 2 GPUs here: NCCL"});
    CHECK(findings({}) == std::vector<std::string>{"fine GPUs: no NVIDIA GPU that this user may open"});
}

TEST_CASE("the doctor warns if something for GPUs is missing", "[unit]") {
    GpuFacts facts = two_gpus();
    facts.cuda = {};
    facts.nccl = {};
    facts.machine.has_nvml = false;
    facts.machine.driver_version.clear();
    const std::vector<std::string> texts = findings(facts);
    CHECK(has(texts, "warning GPU driver: of unknown version; libcuda.so.1 was not found"));
    CHECK(has(texts, "warning NVML: libnvidia-ml.so.1 cannot be loaded; the list of GPUs is from /proc/driver/nvidia"));
    CHECK(has(texts,
              "warning NCCL: libnccl.so.2 was not found in the packages of python3, nor where the system's loader "
              "looks"));
}

TEST_CASE("the doctor warns if ranks would share a GPU", "[unit]") {
    CHECK(has(findings(two_gpus(), 2),
              "fine ranks and GPUs: at most 2 ranks here without sharing a GPU: CUDA shows 2 GPUs"));
    CHECK(has(findings(two_gpus(), 3),
              "warning ranks and GPUs: 3 ranks for 2 GPUs: ranks would have to share a GPU, which "
              "they may not do unless you allow it"));
    CHECK(has(findings(two_gpus("")), "warning ranks and GPUs: CUDA shows 0 GPUs (CUDA_VISIBLE_DEVICES is '')"));
    CHECK(has(
        findings(two_gpus("1,x")),
        "warning ranks and GPUs: CUDA shows 1 GPU (CUDA_VISIBLE_DEVICES is '1,x'; 'x' names no GPU of this machine, "
        "and CUDA reads no entries after it)"));
    CHECK(
        has(findings(two_gpus("1"), 1),
            "fine ranks and GPUs: at most 1 rank here without sharing a GPU: CUDA shows 1 GPU (CUDA_VISIBLE_DEVICES is "
            "'1')"));
}

TEST_CASE("the doctor says how tensors on GPUs will move", "[unit]") {
    const auto way = [](const GpuFacts& facts, int ranks, const Environment& environment) {
        std::string found;
        for (const std::string& text : findings(facts, ranks, environment)) {
            if (const std::string begin = "fine tensors on GPUs: "; text.starts_with(begin)) {
                found = text.substr(begin.size());
            }
        }
        return found;
    };
    const std::string ipc =
        "batches of 3 MiB and more through GPU memory that the ranks share (CUDA IPC), others through the host's "
        "memory, because ";
    const std::string one_each =
        "NCCL before 2.30 connects at most one rank for each GPU, and newer versions need NCCL_MULTI_RANK_GPU_ENABLE=1 "
        "for more";
    GpuFacts facts = two_gpus();
    CHECK(way(facts, 1, {}) == "1 rank on 2 GPUs here: NCCL");
    CHECK(way(facts, 3, {}) == "3 ranks on 2 GPUs here: " + ipc + one_each);
    CHECK(has(findings(facts, 3, {}, true),
              "fine tensors on GPUs: 3 ranks on 2 GPUs here: through the host's memory, because " + one_each));
    CHECK(way(facts, 17, {}) == "17 ranks on 2 GPUs here: through the host's memory, because " + one_each);
    CHECK(way(facts, 3, {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}) == "3 ranks on 2 GPUs here: " + ipc + one_each);
    CHECK(way(facts, 2, {{"RUEDA_GPU_PATH", "ipc"}}) == "2 ranks on 2 GPUs here: " + ipc + "RUEDA_GPU_PATH is 'ipc'");
    CHECK(way(facts, 2, {{"RUEDA_GPU_PATH", "host"}}) ==
          "2 ranks on 2 GPUs here: through the host's memory, because RUEDA_GPU_PATH is 'host'");
    CHECK(way(facts, 3, {{"RUEDA_GPU_PATH", "nccl"}}).find("operations fail") != std::string::npos);
    facts.nccl.version = "2.30.7";
    CHECK(way(facts, 3, {}) == "3 ranks on 2 GPUs here: " + ipc + one_each);
    CHECK(way(facts, 3, {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}) ==
          "3 ranks on 2 GPUs here: NCCL, by its experimental setting NCCL_MULTI_RANK_GPU_ENABLE=1");
    facts.nccl.version = "2.17.1";
    CHECK(way(facts, 2, {}) == "2 ranks on 2 GPUs here: " + ipc + "there is no NCCL that Rueda can use");
    CHECK(has(findings(facts), "warning NCCL: 2.17.1, /p/nvidia/nccl/lib/libnccl.so.2; expected 2.18 or newer"));
    facts.nccl.version = "2.19.3";
    CHECK(has(findings(facts),
              "warning NCCL: 2.19.3, /p/nvidia/nccl/lib/libnccl.so.2; an alltoall can hang unless NCCL_CUMEM_ENABLE=0 "
              "is set"));
    facts.nccl = {};
    CHECK(way(facts, 2, {}) == "2 ranks on 2 GPUs here: " + ipc + "there is no NCCL that Rueda can use");
}

TEST_CASE("the doctor warns about the order of different GPUs", "[unit]") {
    GpuFacts facts = two_gpus();
    facts.machine.gpus[1].name = "NVIDIA L4";
    const auto warns = [&facts](const Environment& environment) {
        const std::vector<std::string> texts = findings(facts, {}, environment);
        return std::any_of(texts.begin(), texts.end(),
                           [](const std::string& text) { return text.starts_with("warning order of the GPUs: "); });
    };
    CHECK(warns({}));
    CHECK(warns({{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}));
    CHECK_FALSE(warns({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}));
    facts = two_gpus();
    CHECK_FALSE(warns({}));
}

TEST_CASE("libraries are found with their versions", "[unit]") {
    const fs::path folder = fs::temp_directory_path() / ("rueda-libraries-" + std::to_string(getpid()));
    const fs::path packages = folder / "site-packages";
    fs::create_directories(packages / "nvidia/nccl/lib");
    fs::create_directories(packages / "nvidia_nccl_cu13-2.30.7.dist-info");
    std::ofstream(packages / "nvidia/nccl/lib/libnccl.so.2") << "x";
    fs::create_directories(folder / "lib");
    std::ofstream(folder / "lib/libnccl.so.2.28.9") << "x";
    fs::create_symlink("libnccl.so.2.28.9", folder / "lib/libnccl.so.2");

    const std::vector<std::string> of_python = nccl_folders_of_python("\n/does/not/exist\n" + packages.string() + "\n");
    REQUIRE(of_python.size() == 2);
    const FoundLibrary package = find_library("libnccl.so.2", of_python);
    CHECK(package.file == packages.string() + "/nvidia/nccl/lib/libnccl.so.2");
    CHECK(package.version == "2.30.7");
    const FoundLibrary system = find_library("libnccl.so.2", {"/does/not/exist", (folder / "lib").string()});
    CHECK(system.file == folder.string() + "/lib/libnccl.so.2");
    CHECK(system.version == "2.28.9");
    CHECK(find_library("libcuda.so.1", {folder.string()}).file.empty());
    fs::remove_all(folder);

    const char* const cache =
        "2 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so\n";
    CHECK(library_in_cache(cache, "libcuda.so.1") == "/lib/x86_64-linux-gnu/libcuda.so.1");
    CHECK(library_in_cache(cache, "libnccl.so.2").empty());
    CHECK(library_in_cache("", "libcuda.so.1").empty());
}

}  // namespace
}  // namespace rueda::launcher
