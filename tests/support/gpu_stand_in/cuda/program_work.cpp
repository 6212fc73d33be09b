// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/program_work.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gpu_stand_in/cuda/call.hpp"

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

/// The state of one piece of work. Machine::mutex protects it.
struct ProgramWorkState {
    bool has_begun = false;
    bool has_ended = false;
};

/// Occupies its stream until the program has done the work.
class ProgramWork final : public Operation {
public:
    ProgramWork(const char* label, std::vector<Range> ranges, std::shared_ptr<ProgramWorkState> state)
        : Operation(label), ranges_(std::move(ranges)), state_(std::move(state)) {}

    std::vector<Range> ranges() override { return ranges_; }
    bool run() override {
        const std::lock_guard lock(Machine::instance().mutex);
        begin();
        return state_->has_ended;
    }
    void drop() override {
        const std::lock_guard lock(Machine::instance().mutex);
        begin();
    }

private:
    void begin() {
        if (!std::exchange(state_->has_begun, true)) {
            Machine::instance().changed.notify_all();  // wakes gpu_stand_in_begin_work()
        }
    }

    const std::vector<Range> ranges_;
    const std::shared_ptr<ProgramWorkState> state_;
};

}  // namespace

extern "C" {

void* gpu_stand_in_begin_work(CudaStream handle, const char* label, const Range* ranges, std::size_t count) {
    Call call("gpu_stand_in_begin_work");
    if (call.error() != kCudaSuccess) {
        call.report("there is no current context, or the device has failed");
        return nullptr;
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return nullptr;
    }
    if (stream->capture_status != kCaptureNone) {
        call.report("the stream captures a graph, so it executes nothing");
        return nullptr;
    }
    auto state = std::make_shared<ProgramWorkState>();
    call.machine().submit(*stream,
                          std::make_unique<ProgramWork>(label, std::vector<Range>(ranges, ranges + count), state));
    call.machine().changed.wait(call.lock(), [&] { return state->has_begun; });
    return new std::shared_ptr<ProgramWorkState>(std::move(state));
}

void gpu_stand_in_end_work(void* work) {
    const std::unique_ptr<std::shared_ptr<ProgramWorkState>> state(
        static_cast<std::shared_ptr<ProgramWorkState>*>(work));
    Machine& machine = Machine::instance();
    const std::lock_guard lock(machine.mutex);
    (*state)->has_ended = true;
    machine.changed.notify_all();
}

std::size_t gpu_stand_in_take_violations(char* text, std::size_t size) {
    const std::vector<std::string> found = violations();
    clear_violations();
    std::string all;
    for (const std::string& violation : found) {
        all += all.empty() ? violation : "\n" + violation;
    }
    if (size > 0) {
        const std::size_t length = std::min(all.size(), size - 1);
        std::memcpy(text, all.data(), length);
        text[length] = '\0';
    }
    return found.size();
}
}
