// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/gpus/choose_device.hpp"
#include "base/gpus/local_device.hpp"
#include "base/gpus/machine_gpus.hpp"
#include "base/gpus/visible_gpus.hpp"

namespace rueda::base {
namespace {

namespace fs = std::filesystem;
using Entries = std::vector<std::string>;

/// A machine of four GPUs. The UUIDs of the last two GPUs begin with the same characters.
const std::vector<MachineGpu> kFour = {{"GPU-0a11-x", "A", "01", {}},
                                       {"GPU-1b22-x", "A", "02", {}},
                                       {"GPU-2c33-x", "A", "03", {}},
                                       {"GPU-2c44-x", "A", "04", {}}};

Entries shown(const char* variable) {
    return visible_gpus(variable == nullptr ? std::nullopt : std::optional<std::string>(variable), kFour).entries;
}

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it", "[unit]") {
    CHECK(shown(nullptr) == Entries{"0", "1", "2", "3"});
    CHECK(shown("").empty());
    CHECK(shown("2,1") == Entries{"2", "1"});
    CHECK(shown(" 3 ,\t0") == Entries{"3", "0"});
    CHECK(shown("GPU-1b22-x,GPU-0") == Entries{"GPU-1b22-x", "GPU-0"});
    CHECK(shown("GPU-2c33,GPU-2c44") == Entries{"GPU-2c33", "GPU-2c44"});
    CHECK(shown("MIG-7f,MIG-8a") == Entries{"MIG-7f", "MIG-8a"});
    CHECK(shown("1gpu,2ampere") == Entries{"1", "2"});
}

TEST_CASE("an invalid entry ends the list", "[unit]") {
    CHECK(shown("0,2,-1,1") == Entries{"0", "2"});
    CHECK(shown("0,4,1") == Entries{"0"});
    CHECK(shown("0,,1") == Entries{"0"});
    CHECK(shown("0,GPU-2c,1") == Entries{"0"});  // the prefix fits two GPUs
    CHECK(shown("0,GPU-9,1") == Entries{"0"});
    CHECK(shown("MIG-").empty());
    CHECK(shown("NoDevFiles").empty());  // Slurm's value for a job without GPUs
    CHECK(shown("-1").empty());
    CHECK(shown("99999999999999999999999").empty());
    CHECK(visible_gpus("0,x", kFour).problem == "'x' names no GPU of this machine, and CUDA reads no entries after it");
    CHECK(visible_gpus("0", {}).entries.empty());
    CHECK(visible_gpus("MIG-7f", {}).entries.empty());
}

TEST_CASE("a GPU that is listed twice empties the list", "[unit]") {
    CHECK(shown("0,1,0").empty());
    CHECK(shown("GPU-0a,GPU-0a11").empty());
    CHECK(shown("MIG-7f,MIG-7f").empty());
    CHECK(visible_gpus("1,1", kFour).problem == "'1' is listed twice, and CUDA then shows no GPU");
    CHECK(shown("0,x,0") == Entries{"0"});  // CUDA ignores an invalid entry and all entries after it
}

DeviceRequest request(int local_rank, int local_size, int gpus_per_rank = 0, bool share = false) {
    return {local_rank, local_size, gpus_per_rank, share, "a"};
}

/// Returns the device of each rank of a host, or -1 for a rank that gets an error.
std::vector<int> devices(int ranks, const VisibleGpus& visible, int gpus_per_rank = 0, bool share = false) {
    std::vector<int> found;
    for (int rank = 0; rank < ranks; ++rank) {
        const Result<int> device = choose_device(request(rank, ranks, gpus_per_rank, share), visible);
        found.push_back(device.is_ok() ? device.value() : -1);
    }
    return found;
}

std::string error_of(const DeviceRequest& of, const VisibleGpus& visible) {
    return choose_device(of, visible).status().message();
}

TEST_CASE("if every rank sees all GPUs, its device is its local rank", "[unit]") {
    CHECK(devices(4, visible_gpus({}, kFour)) == std::vector{0, 1, 2, 3});
    CHECK(devices(2, visible_gpus({}, kFour)) == std::vector{0, 1});
    // as in CUDA, a device number is a position in the list of visible GPUs
    CHECK(devices(2, visible_gpus("3,1", kFour)) == std::vector{0, 1});
    CHECK(devices(1, visible_gpus("2", kFour)) == std::vector{0});
}

TEST_CASE("more ranks than GPUs are an error that says what to do", "[unit]") {
    CHECK(devices(3, visible_gpus("0,2", kFour)) == std::vector{-1, -1, -1});
    const Result<int> refused = choose_device(request(0, 3), visible_gpus("0,2", kFour));
    CHECK(refused.status().code() == ErrorCode::invalid_argument);
    CHECK(refused.status().message() ==
          "there are 3 ranks on host 'a' but 2 GPUs (CUDA_VISIBLE_DEVICES is '0,2'); start at most 2 ranks there (-np, "
          "or the host's slots), or let ranks share GPUs (ruedarun --share-gpu, or RUEDA_SHARE_GPU=1); if a script "
          "already gives each rank its own GPUs, say how many: RUEDA_GPUS_PER_RANK=1 (with ruedarun, -x "
          "RUEDA_GPUS_PER_RANK=1)");
    CHECK(error_of(request(4, 5), visible_gpus({}, kFour)) ==
          "there are 5 ranks on host 'a' but 4 GPUs; start at most 4 ranks there (-np, or the host's slots), or let "
          "ranks share GPUs (ruedarun --share-gpu, or RUEDA_SHARE_GPU=1)");
}

TEST_CASE("without a visible GPU the error says why", "[unit]") {
    const Result<int> none = choose_device(request(0, 1), visible_gpus({}, {}));
    CHECK(none.status().code() == ErrorCode::unsupported);
    CHECK(none.status().message().starts_with("this process finds no NVIDIA GPU on host 'a': "));
    CHECK(error_of(request(0, 1), visible_gpus("", kFour)) ==
          "CUDA shows this process none of the 4 GPUs on host 'a', because CUDA_VISIBLE_DEVICES is ''; unset it, or "
          "list GPUs of that host");
    CHECK(
        error_of(request(0, 1), visible_gpus("x", kFour)) ==
        "CUDA shows this process none of the 4 GPUs on host 'a', because CUDA_VISIBLE_DEVICES is 'x' and 'x' names no "
        "GPU of this machine, and CUDA reads no entries after it; unset it, or list GPUs of that host");
    CHECK(choose_device(request(0, 2, 0, true), visible_gpus("", kFour)).status().code() == ErrorCode::unsupported);
}

TEST_CASE("ranks that share GPUs are divided into blocks of neighbours", "[unit]") {
    CHECK(devices(4, visible_gpus("0,1", kFour), 0, true) == std::vector{0, 0, 1, 1});
    CHECK(devices(5, visible_gpus("0,1,2", kFour), 0, true) == std::vector{0, 0, 1, 1, 2});
    CHECK(devices(3, visible_gpus("1", kFour), 0, true) == std::vector{0, 0, 0});
    // There are enough GPUs, so each rank has its own.
    CHECK(devices(2, visible_gpus({}, kFour), 0, true) == std::vector{0, 1});
}

TEST_CASE("a rank with GPUs of its own uses the first", "[unit]") {
    CHECK(devices(4, visible_gpus("2", kFour), 1) == std::vector{0, 0, 0, 0});
    CHECK(devices(2, visible_gpus("2,3", kFour), 2) == std::vector{0, 0});
    // The GPUs were not divided among the ranks. For example, mpirun started the ranks inside an allocation of Slurm.
    CHECK(devices(4, visible_gpus({}, kFour), 1) == std::vector{0, 1, 2, 3});
    CHECK(devices(2, visible_gpus("3,2,1", kFour), 1) == std::vector{0, 1});
    CHECK(error_of(request(1, 2, 2), visible_gpus("3", kFour))
              .starts_with("RUEDA_GPUS_PER_RANK is 2, but CUDA shows this process 1 GPU (CUDA_VISIBLE_DEVICES is '3') "
                           "on host 'a'; "));
}

TEST_CASE("a script that sets CUDA_VISIBLE_DEVICES to the local rank is recognised", "[unit]") {
    for (int rank = 0; rank < 4; ++rank) {
        const Result<int> device = choose_device(request(rank, 4), visible_gpus(std::to_string(rank), kFour));
        REQUIRE(device.is_ok());
        CHECK(device.value() == 0);
    }
    // If CUDA_VISIBLE_DEVICES is the same single GPU on all ranks, the job must fail.
    CHECK(devices(2, visible_gpus("0", kFour)) == std::vector{0, -1});
    CHECK(devices(3, visible_gpus("2", kFour)) == std::vector{-1, -1, 0});
    CHECK(devices(2, visible_gpus("3", kFour)) == std::vector{-1, -1});
}

TEST_CASE("the launcher divides the visible GPUs of a host", "[unit]") {
    const auto value = [](const DeviceRequest& of, const char* variable) {
        const Result<std::string> devices = devices_of_rank(
            of, visible_gpus(variable == nullptr ? std::nullopt : std::optional<std::string>(variable), kFour));
        return devices.is_ok() ? devices.value() : devices.status().message();
    };
    CHECK(value(request(0, 2, 2), nullptr) == "0,1");
    CHECK(value(request(1, 2, 2), nullptr) == "2,3");
    CHECK(value(request(1, 2, 1), "3,GPU-0a") == "GPU-0a");
    CHECK(value(request(2, 4, 1), "MIG-a,MIG-b,MIG-c,MIG-d") == "MIG-c");
    CHECK(value(request(1, 3, 2), nullptr) ==
          "there are 3 ranks with 2 GPUs each on host 'a' but 4 GPUs; start at most 2 ranks there (-np, or the host's "
          "slots), or let ranks share GPUs (ruedarun --share-gpu, or RUEDA_SHARE_GPU=1)");
    CHECK(value(request(1, 4, 2, true), nullptr) == "0,1");
    CHECK(value(request(2, 4, 2, true), nullptr) == "2,3");
    CHECK(value(request(0, 1, 5, true), nullptr) ==
          "there is 1 rank with 5 GPUs each on host 'a' but 4 GPUs; let ranks share GPUs (ruedarun --share-gpu, or "
          "RUEDA_SHARE_GPU=1)");
    CHECK(value(request(0, 1, 1), "").starts_with("CUDA shows this process none of the 4 GPUs on host 'a'"));
}

int slurm(std::map<std::string, std::string> variables, int job_size = 4) {
    variables.insert({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}});
    return gpus_per_slurm_task(environment_of(std::move(variables)), job_size);
}

TEST_CASE("Slurm says how many GPUs each task has", "[unit]") {
    CHECK(slurm({}) == 0);
    CHECK(slurm({{"SLURM_GPUS_PER_TASK", "1"}}) == 1);
    CHECK(slurm({{"SLURM_GPUS_PER_TASK", "a100:2"}}) == 2);
    CHECK(slurm({{"SLURM_TRES_PER_TASK", "cpu=3,gres/gpu=2"}}) == 2);
    CHECK(slurm({{"SLURM_TRES_PER_TASK", "gres/gpu:a100:1,cpu=3"}}) == 1);
    CHECK(slurm({{"SLURM_TRES_PER_TASK", "cpu=3"}}) == 0);
    CHECK(slurm({{"SLURM_GPUS_PER_TASK", "x"}}) == 0);
    // mpirun has used srun to start one process on each host. The ranks inherit the variables of that process.
    CHECK(slurm({{"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 8) == 0);
    CHECK(slurm({{"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_STEP_NUM_TASKS", ""}}) == 0);
}

/// The files of NVIDIA's driver in a folder of this test.
class FakeProc {
public:
    FakeProc() : folder_(fs::temp_directory_path() / ("rueda-fake-proc-" + std::to_string(getpid()))) {
        fs::create_directories(folder_ / "dev");
        fs::create_directories(folder_ / "proc/gpus");
        write("proc/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
              "GCC version:  gcc version 12.2.0\n");
    }
    ~FakeProc() { fs::remove_all(folder_); }
    FakeProc(const FakeProc&) = delete;
    FakeProc& operator=(const FakeProc&) = delete;

    void add(const std::string& address, int minor, const std::string& uuid, const std::string& more = "",
             bool has_device_file = true) const {
        fs::create_directories(folder_ / "proc/gpus" / address);
        write("proc/gpus/" + address + "/information", "Model: \t\t NVIDIA H100\nIRQ:   \t\t 90\nGPU UUID: \t " + uuid +
                                                           "\nBus Location: \t " + address + "\nDevice Minor: \t " +
                                                           std::to_string(minor) + "\n" + more);
        if (has_device_file) {
            write("dev/nvidia" + std::to_string(minor), "");
        }
    }
    [[nodiscard]] GpuSources sources() const {
        return {"libdoes-not-exist.so.1", (folder_ / "proc").string(), (folder_ / "dev").string()};
    }

private:
    void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

    fs::path folder_;
};

TEST_CASE("without NVML the files in /proc list the GPUs", "[unit]") {
    const FakeProc proc;
    proc.add("0000:41:00.0", 0, "GPU-bbbb");
    proc.add("0000:01:00.0", 1, "GPU-aaaa", "GPU Excluded:\t No\n");
    proc.add("0000:61:00.0", 2, "GPU-" + std::string(36, '?'));
    proc.add("0000:81:00.0", 3, "GPU-dddd", "GPU Excluded:\t Yes\n");
    // a GPU without a device file belongs to another container
    proc.add("0000:a1:00.0", 4, "GPU-eeee", "", /*has_device_file=*/false);
    const MachineGpus found = find_machine_gpus(proc.sources());
    CHECK_FALSE(found.has_nvml);
    CHECK(found.driver_version == "580.95.05");
    REQUIRE(found.gpus.size() == 3);
    CHECK(found.gpus[0].uuid == "GPU-aaaa");
    CHECK(found.gpus[0].name == "NVIDIA H100");
    CHECK(found.gpus[0].pci_address == "0000:01:00.0");
    CHECK_FALSE(found.gpus[0].total_bytes);
    CHECK(found.gpus[1].uuid == "GPU-bbbb");
    CHECK(found.gpus[2].uuid.empty());
}

TEST_CASE("a machine without a driver has no GPUs", "[unit]") {
    const MachineGpus found = find_machine_gpus({"libdoes-not-exist.so.1", "/does/not/exist", "/dev"});
    CHECK(found.gpus.empty());
    CHECK(found.driver_version.empty());
}

TEST_CASE("NVML lists the GPUs", "[unit]") {
    const std::string file = "/tmp/rueda-fake-nvml-" + std::to_string(getpid());
    std::ofstream(file) << "0 1 4096\n-1 -1 -1 #Other GPU\n";
    setenv("FAKE_NVML", file.c_str(), 1);
    const FakeProc proc;
    proc.add("0000:41:00.0", 0, "GPU-bbbb");
    GpuSources sources = proc.sources();
    sources.nvml = RUEDA_FAKE_NVML;
    const MachineGpus found = find_machine_gpus(sources);
    CHECK(found.has_nvml);
    CHECK(found.driver_version == "580.95.05");
    REQUIRE(found.gpus.size() == 2);
    CHECK(found.gpus[0].name == "Fake GPU");
    CHECK(found.gpus[0].uuid == "GPU-00000000-0000-0000-0000-000000000000");
    CHECK(found.gpus[0].pci_address == "00000000:00:00.0");
    CHECK(found.gpus[0].total_bytes == 4096U);
    CHECK(found.gpus[1].name == "Other GPU");
    CHECK_FALSE(found.gpus[1].total_bytes);

    const auto device = [&](std::map<std::string, std::string> variables, int local_rank) {
        const Result<int> chosen =
            local_device(request(local_rank, 2), 2, environment_of(std::move(variables)), sources);
        return chosen.is_ok() ? chosen.value() : -1;
    };
    CHECK(device({}, 1) == 1);
    CHECK(device({{"CUDA_VISIBLE_DEVICES", "GPU-1"}}, 0) == -1);
    const std::map<std::string, std::string> task = {
        {"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "1"}};
    CHECK(device(task, 1) == -1);
    std::map<std::string, std::string> own = task;
    own["SLURM_GPUS_PER_TASK"] = "1";
    CHECK(device(own, 1) == 0);
    unsetenv("FAKE_NVML");
    // This stand-in for NVML reports that there is no driver. Therefore the list of GPUs comes from /proc.
    CHECK(find_machine_gpus(sources).gpus.size() == 1);
    unlink(file.c_str());
}

}  // namespace
}  // namespace rueda::base
