// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/machine.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/support/gpu_stand_in/cuda/memory.hpp"

namespace rueda::tests::gpu {
namespace {

constexpr int kMostDevices = 8;

int number_from_environment(const char* name, int otherwise) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no test changes the environment meanwhile
    return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

thread_local bool in_host_function = false;

Machine& Machine::instance() {
    // The object is never destroyed, because the threads of the devices use it until the process ends.
    static Machine& machine = *new Machine;
    return machine;
}

Settings Settings::from_environment() {
    Settings settings;
    settings.nccl_version = number_from_environment("GPU_STAND_IN_NCCL_VERSION", settings.nccl_version);
    const auto delays = static_cast<int>(settings.delays.count());
    settings.delays = std::chrono::microseconds(number_from_environment("GPU_STAND_IN_DELAY", delays));
    return settings;
}

Machine::Machine() : memory(std::make_unique<Memory>()) {}

Actor Machine::actor(std::uint32_t number) { return (static_cast<Actor>(::getpid()) << 32U) | number; }

void Machine::reset(std::unique_lock<std::mutex>& lock, std::uint64_t seed, int device_count) {
    stop_ = true;
    changed.notify_all();
    lock.unlock();
    for (auto& device : devices) {
        if (device->thread.joinable()) {
            device->thread.join();
        }
    }
    lock.lock();
    stop_ = false;
    if (on_reset != nullptr) {
        on_reset();
    }
    devices.clear();
    for (Event* event : events) {
        delete event;
    }
    events.clear();
    kernels.clear();
    kernel_names.clear();
    for (CudaModule module : modules) {
        delete reinterpret_cast<char*>(module);
    }
    modules.clear();
    memory = std::make_unique<Memory>();
    settings = Settings::from_environment();
    host = Clock{};
    actors_ = 0;
    random.seed(seed);
    is_initialised = false;
    contexts_created = 0;
    host_waits = 0;
    calls.clear();
    nccl_operations.clear();
    communicators = 0;
    ++generation;
    clear_violations();
    for (int ordinal = 0; ordinal < std::clamp(device_count, 1, kMostDevices); ++ordinal) {
        auto device = std::make_unique<Device>();
        device->ordinal = ordinal;
        device->random.seed(random());
        devices.push_back(std::move(device));
        devices.back()->legacy = &add_stream(*devices.back());
        devices.back()->legacy->is_legacy = true;
        devices.back()->legacy->number = 0;
    }
}

void Machine::ensure_devices() {
    if (devices.empty()) {
        std::unique_lock<std::mutex> lock(mutex, std::adopt_lock);
        const auto seed = static_cast<std::uint64_t>(number_from_environment("GPU_STAND_IN_SEED", 1));
        reset(lock, seed, number_from_environment("GPU_STAND_IN_DEVICES", 1));
        lock.release();
    }
}

void Machine::start_threads() {
    for (auto& device : devices) {
        if (!device->thread.joinable()) {
            device->thread = std::thread([this, owner = device.get()] { execute(*owner); });
        }
    }
}

Device* Machine::device_of(CudaContext context) {
    for (auto& device : devices) {
        if (reinterpret_cast<CudaContext>(device.get()) == context) {
            return device.get();
        }
    }
    return nullptr;
}

Stream* Machine::find_stream(CudaStream handle, Device& current) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    if (value <= 1) {  // null and CU_STREAM_LEGACY
        return current.legacy;
    }
    for (auto& device : devices) {
        for (auto& stream : device->streams) {
            if (reinterpret_cast<CudaStream>(stream.get()) == handle) {
                return stream->is_destroyed ? nullptr : stream.get();
            }
        }
    }
    return nullptr;
}

Stream& Machine::add_stream(Device& device) {
    auto stream = std::make_unique<Stream>();
    stream->device = &device;
    stream->actor = new_actor();
    stream->number = static_cast<unsigned>(stream->actor & 0xFFFFFFFFU);
    device.streams.push_back(std::move(stream));
    return *device.streams.back();
}

std::string Machine::describe(const Stream& stream, const std::string& label) const {
    const std::string name = stream.is_legacy ? "the legacy default stream" : fmt::format("stream {}", stream.number);
    return fmt::format("{} in {} of device {}", label, name, stream.device->ordinal);
}

void Machine::report(const std::string& text) {
    constexpr std::size_t kMostViolations = 100;
    const std::lock_guard lock(violations_mutex_);
    if (violations_.size() < kMostViolations &&
        std::find(violations_.begin(), violations_.end(), text) == violations_.end()) {
        violations_.push_back(text);
    }
}

std::vector<std::string> Machine::violations() {
    const std::lock_guard lock(violations_mutex_);
    return violations_;
}

void Machine::clear_violations() {
    const std::lock_guard lock(violations_mutex_);
    violations_.clear();
}

}  // namespace rueda::tests::gpu
