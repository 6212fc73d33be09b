// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/nccl/communicator.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "tests/support/gpu_stand_in/cuda/process.hpp"

namespace rueda::tests::gpu {

using namespace collectives::cuda;

namespace {

std::string_view variable(const char* name) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no test changes the environment meanwhile
    return text == nullptr ? std::string_view{} : text;
}

void forget_all() {
    for (auto& [handle, communicator] : communicators()) {
        delete reinterpret_cast<char*>(handle);
    }
    communicators().clear();
}

bool may_share_devices(int version) { return version >= 23000 && variable("NCCL_MULTI_RANK_GPU_ENABLE") == "1"; }

}  // namespace

std::map<NcclCommunicator, CommunicatorPtr>& communicators() {
    static auto& all = *new std::map<NcclCommunicator, CommunicatorPtr>;
    return all;
}

void lose_rank(NcclCommunicator handle) {
    const std::lock_guard lock(Machine::instance().mutex);
    communicators().at(handle)->own().state.store(Region::State::lost, std::memory_order_release);
}

/// NCCL User Guide, "Creating a Communicator": the ranks of a communicator have different numbers. Assumption: wrong
/// numbers are found at once. The real NCCL may hang instead.
NcclResult Communicator::join() {
    std::int32_t expected = 0;
    // Relaxed order suffices. Each rank only compares this number with its own. It reads nothing that another rank
    // wrote before the number.
    region->ranks.compare_exchange_strong(expected, ranks, std::memory_order_relaxed);
    if (expected != 0 && expected != ranks) {
        last_error = fmt::format("rank {} has {} ranks, and another rank has {}", rank, ranks, expected);
        return kNcclInvalidArgument;
    }
    Region::Member& self = own();
    if (self.state.load(std::memory_order_acquire) != Region::State::absent) {
        last_error = fmt::format("two ranks have the number {}", rank);
        return kNcclInvalidUsage;
    }
    self.process = ::getpid();
    self.device = device->ordinal;
    self.host = std::hash<std::string_view>{}(variable("NCCL_HOSTID"));
    self.state.store(Region::State::joined, std::memory_order_release);
    return kNcclSuccess;
}

void Communicator::try_to_connect() {
    for (int other = 0; other < ranks; ++other) {
        if (member(other).state.load(std::memory_order_acquire) == Region::State::absent) {
            return;
        }
    }
    // NCCL, src/init.cc: before version 2.30, two ranks on one device are an error; 2.30 allows them by an environment
    // variable.
    for (int a = 0; a < ranks && !may_share_devices(Machine::instance().settings.nccl_version); ++a) {
        for (int b = a + 1; b < ranks; ++b) {
            if (member(a).host == member(b).host && member(a).device == member(b).device) {
                set_error(kNcclInvalidUsage,
                          fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {}", a, b,
                                      member(a).device));
                return;
            }
        }
    }
    is_connected = true;
}

bool Communicator::is_flushed() const {
    if (last_kernel != nullptr && !last_kernel->done) {
        return false;
    }
    for (int other = 0; other < ranks; ++other) {
        const Region::State state = member(other).state.load(std::memory_order_acquire);
        const bool is_gone = state == Region::State::aborted || state == Region::State::lost;
        if (!is_gone && (!own().box.is_empty(other) || !pair(rank, other).is_empty(other))) {
            return false;
        }
    }
    return true;
}

void Communicator::look_for_lost_ranks() {
    if (!Machine::instance().settings.nccl_notices_lost_ranks || error != kNcclSuccess) {
        return;
    }
    for (int other = 0; other < ranks; ++other) {
        const Region::State state = member(other).state.load(std::memory_order_acquire);
        const bool has_ended = state == Region::State::joined && !is_alive(member(other).process);
        if (state == Region::State::lost || state == Region::State::aborted || has_ended) {
            set_error(kNcclRemoteError, fmt::format("the connection to rank {} was closed", other));
            return;
        }
    }
}

void Communicator::set_error(NcclResult result, std::string text) {
    error = result;
    last_error = std::move(text);
}

Communicator::~Communicator() {
    if (region != nullptr) {
        own().box.close();
        for (int other = 0; other < ranks; ++other) {
            pair(rank, other).close();
        }
    }
}

NcclCall::NcclCall(const char* function) : function_(function) {
    machine_.on_reset = forget_all;
    machine_.ensure_devices();
    if (in_host_function) {
        report("was called by a host function");
        error_ = kNcclInvalidUsage;
        return;
    }
    ++machine_.calls[function_];
    for (auto [failing, end] = machine_.settings.failing_calls.equal_range(function_); failing != end; ++failing) {
        if (--failing->second.first == 0) {
            error_ = failing->second.second;
            return;
        }
    }
}

CommunicatorPtr NcclCall::find(NcclCommunicator handle) {
    const auto found = communicators().find(handle);
    if (found == communicators().end()) {
        report("the communicator does not exist; it may have been destroyed");
        error_ = kNcclInvalidArgument;
        return nullptr;
    }
    return found->second;
}

CommunicatorPtr NcclCall::find_ready(NcclCommunicator handle) {
    CommunicatorPtr communicator = find(handle);
    if (communicator == nullptr) {
        return nullptr;
    }
    // NCCL user guide, "Creating a communicator": a non-blocking communicator may not be used until
    // ncclCommGetAsyncError() gives ncclSuccess.
    if (communicator->is_in_progress()) {
        report("the communicator is used before its last call succeeded");
        error_ = kNcclInvalidArgument;
        return nullptr;
    }
    // NCCL user guide, "Error handling": after an error other than an invalid argument, only ncclCommAbort() helps.
    if (communicator->error != kNcclSuccess) {
        error_ = communicator->error;
        return nullptr;
    }
    return communicator;
}

void NcclCall::wait(Communicator& communicator, const std::function<bool()>& is_over) {
    // This thread polls. The other ranks may be in other processes, which cannot notify it.
    constexpr std::chrono::microseconds kPollInterval{50};
    ++communicator.inside;
    while (!is_over() && !communicator.aborted.load(std::memory_order_acquire)) {
        machine_.changed.wait_for(lock_, kPollInterval);
    }
    --communicator.inside;
}

void NcclCall::report(const std::string& what) { machine_.report(fmt::format("{}: {}", function_, what)); }

}  // namespace rueda::tests::gpu
