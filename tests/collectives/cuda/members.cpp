// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/cuda/members.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/collectives/cuda/watched_host.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using Clock = std::chrono::steady_clock;

void require(const Status& status, const char* what) {
    if (!status.is_ok()) {
        throw std::runtime_error(std::string(what) + ": " + status.message());
    }
}

/// The memory of an arena that its members share. It has space for one block.
class OneSharedBlock final : public SharedMemory {
public:
    OneSharedBlock(std::shared_ptr<Arena> arena, std::size_t bytes) : arena_(std::move(arena)), bytes_(bytes) {}
    Result<Block> allocate(std::size_t bytes) override {
        if (is_taken_ || bytes > bytes_) {
            return failure(ErrorCode::resource_exhausted, "no shared memory");
        }
        is_taken_ = true;
        return Block{arena_->resident_memory(arena_->rank(), 0, bytes), 0};
    }
    void deallocate(std::byte* /*memory*/) noexcept override { is_taken_ = false; }
    void keep_mapped(std::byte* /*memory*/) noexcept override { arena_->keep_mapped({0, bytes_}); }
    std::byte* of_member(std::uint32_t member, std::uint64_t offset, std::size_t bytes) const override {
        return arena_->resident_memory(member, offset, bytes);
    }

private:
    const std::shared_ptr<Arena> arena_;
    const std::size_t bytes_;
    bool is_taken_ = false;
};

}  // namespace

std::shared_ptr<Arena> Meeting::map_arena(const Set& set, std::size_t nth, std::uint32_t place) {
    ArenaPlan plan;
    plan.members = static_cast<std::uint32_t>(set.size());
    plan.negotiation_bytes = 4096;
    plan.cell_bytes = 4096;
    plan.cells_per_rank = 4;
    plan.resident_bytes = std::size_t{2} << 20;
    const auto map = [&plan](int fd, std::uint32_t rank) {
        auto arena = Arena::map(base::UniqueFd(::dup(fd)), plan, rank);
        require(arena.status(), "Arena::map");
        return std::move(arena).value();
    };
    const std::scoped_lock lock(mutex_);
    auto found = arenas_.find({set, nth});
    if (found == arenas_.end()) {
        auto memory = Arena::create_memory(plan);
        require(memory.status(), "Arena::create_memory");
        found = arenas_.emplace(std::pair(set, nth), std::move(memory).value()).first;
        map(found->second.value(), 0)->initialise();
    }
    return map(found->second.value(), place);
}

GpuTables tables_of_stand_in() { return {gpu::open_cuda(), gpu::open_nccl()}; }

Member::Member(GpuTables tables, Meeting& meeting, std::uint32_t number, int device, std::size_t piece_bytes)
    : tables_(std::move(tables)), meeting_(meeting), number_(number), device_(device), piece_bytes_(piece_bytes) {
    runtime_ = std::make_unique<cuda::CudaDeviceRuntime>(cuda::CudaDeviceRuntime::Parts{
        .cuda = tables_.cuda,
        .load_nccl =
            [nccl = tables_.nccl, version = tables_.nccl_version] {
                return cuda::LoadedNccl{
                    .api = nccl, .version = version, .path = "the stand-in", .notice = cuda::known_nccl_bugs(version)};
            },
        .warn = [this](const std::string& text) { warnings_.push_back(text); },
        .identity = {.host = 1, .process = 2},
        .kernels = tables_.kernels,
        .piece_bytes = piece_bytes_,
        .order_interval = kOrderInterval});
    cuda::CudaDevice handle = 0;
    check(cuda().device_get(&handle, device_), "cuDeviceGet");
    check(cuda().primary_context_retain(&context_, handle), "cuDevicePrimaryCtxRetain");
    // The context of the member's device is current on the program's thread, as in a program that uses PyTorch.
    check(cuda().context_push(context_), "cuCtxPushCurrent");
    check(cuda().stream_create_with_priority(&stream_, cuda::kStreamNonBlocking, 0), "cuStreamCreateWithPriority");
}

Member::~Member() {
    static_cast<void>(cuda().stream_synchronize(stream_));
    for (const cuda::DeviceAddress memory : keeps_memory_ ? std::vector<cuda::DeviceAddress>() : memory_) {
        static_cast<void>(cuda().memory_free(memory));
    }
    for (void* const memory : pinned_) {
        static_cast<void>(cuda().host_free(memory));
    }
    cuda::CudaContext popped = nullptr;
    static_cast<void>(cuda().context_pop(&popped));
}

void Member::check(cuda::CudaResult result, const char* call) const {
    if (result != cuda::kCudaSuccess) {
        throw std::runtime_error(std::string(call) + " returned " + std::to_string(result));
    }
}

std::vector<std::uint32_t> Member::all_members() const {
    std::vector<std::uint32_t> all(meeting_.members);
    std::iota(all.begin(), all.end(), 0);
    return all;
}

std::unique_ptr<DeviceCommunicator> Member::make_communicator(const std::vector<std::uint32_t>& set, std::int32_t id) {
    const auto place = static_cast<std::uint32_t>(std::find(set.begin(), set.end(), number_) - set.begin());
    const std::shared_ptr<Arena> arena = meeting_.map_arena(set, made_[set]++, place);
    hosts_.push_back(std::make_unique<WatchedHost>(arena, keeps_own_proposals_));
    std::shared_ptr<SharedMemory> shared;
    if (shared_bytes_ > 0) {
        shared = std::make_shared<OneSharedBlock>(arena, shared_bytes_);
    }
    auto made = runtime_->make_communicator({.device = device_,
                                             .member = place,
                                             .members = static_cast<std::uint32_t>(set.size()),
                                             .id = id,
                                             .path = path_,
                                             .ranks = {set.begin(), set.end()},
                                             .expects_other_sets = expects_other_sets_,
                                             .shared = std::move(shared)},
                                            *hosts_.back());
    require(made.status(), "make_communicator");
    return std::move(made).value();
}

Status Member::make(std::unique_ptr<DeviceCommunicator>& communicator) {
    communicator = make_communicator(all_members());
    meeting_.offers[number_] = communicator->offer();
    meet();
    const std::vector<DeviceCommunicator::Offer> offers = meeting_.offers;
    meet();
    return communicator->connect(offers);
}

void Member::wait_until_connected(DeviceCommunicator& communicator) {
    const auto end = Clock::now() + kPatience;
    for (;;) {
        const auto connected = communicator.is_connected();
        require(connected.status(), "is_connected");
        if (connected.value()) {
            return;
        }
        if (Clock::now() > end) {
            throw std::runtime_error("the communicator does not become connected");
        }
        std::this_thread::yield();
    }
}

std::unique_ptr<DeviceCommunicator> Member::connect() {
    std::unique_ptr<DeviceCommunicator> communicator;
    require(make(communicator), "connect");
    wait_until_connected(*communicator);
    return communicator;
}

std::unique_ptr<DeviceCommunicator> Member::connect(const std::vector<std::uint32_t>& set, std::int32_t id) {
    const auto place = std::find(set.begin(), set.end(), number_);
    std::unique_ptr<DeviceCommunicator> communicator;
    if (place != set.end()) {
        communicator = make_communicator(set, id);
        meeting_.offers[number_] = communicator->offer();
    }
    meet();
    std::vector<DeviceCommunicator::Offer> offers;
    for (const std::uint32_t one : set) {
        offers.push_back(meeting_.offers[one]);
    }
    meet();
    if (communicator != nullptr) {
        require(communicator->connect(offers), "connect");
        wait_until_connected(*communicator);
    }
    return communicator;
}

std::byte* Member::allocate(std::size_t bytes) {
    cuda::DeviceAddress address = 0;
    check(cuda().memory_allocate(&address, bytes + 1), "cuMemAlloc");
    memory_.push_back(address);
    return std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

std::byte* Member::put(std::span<const std::byte> bytes) {
    std::byte* const memory = allocate(bytes.size());
    void* staging = nullptr;
    check(cuda().host_allocate(&staging, bytes.size() + 1, cuda::kHostPortable), "cuMemHostAlloc");
    pinned_.push_back(staging);
    gpu::host_access(staging, bytes.size() + 1, true);
    if (!bytes.empty()) {
        std::memcpy(staging, bytes.data(), bytes.size());
        check(cuda().copy_async(std::bit_cast<std::uintptr_t>(memory), std::bit_cast<std::uintptr_t>(staging),
                                bytes.size(), stream_),
              "cuMemcpyAsync");
    }
    return memory;
}

std::byte* Member::garbage(std::size_t bytes) {
    std::byte* const memory = allocate(bytes);
    if (bytes > 0) {
        check(cuda().fill_async(std::bit_cast<std::uintptr_t>(memory), 0xc3, bytes, stream_), "cuMemsetD8Async");
    }
    return memory;
}

std::vector<std::byte> Member::get(const std::byte* memory, std::size_t bytes) {
    std::vector<std::byte> result(bytes);
    if (bytes == 0) {
        return result;
    }
    void* staging = nullptr;
    check(cuda().host_allocate(&staging, bytes, cuda::kHostPortable), "cuMemHostAlloc");
    pinned_.push_back(staging);
    check(cuda().copy_async(std::bit_cast<std::uintptr_t>(staging), std::bit_cast<std::uintptr_t>(memory), bytes,
                            stream_),
          "cuMemcpyAsync");
    // If another member has failed, this member's work may never end. A wait for the work would then never return, so
    // this loop asks again and again, and has a time limit. It sleeps in between, because the members and the threads
    // of the stand-in share the cores.
    const auto end = Clock::now() + kPatience;
    cuda::CudaResult state = cuda().stream_query(stream_);
    for (; state == cuda::kCudaNotReady && Clock::now() < end; state = cuda().stream_query(stream_)) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    check(state, "cuStreamQuery");
    gpu::host_access(staging, bytes, false);
    std::memcpy(result.data(), staging, bytes);
    return result;
}

Status Member::drive(DeviceCommunicator& communicator, Task& task, std::chrono::milliseconds limit) {
    const auto end = Clock::now() + limit;
    while (task.step() != StepResult::done) {
        RUEDA_RETURN_IF_FAILED(communicator.failed());
        if (Clock::now() > end) {
            return failure(ErrorCode::timeout, "the batch is not launched");
        }
        std::this_thread::yield();
    }
    return {};
}

Batch Member::host_batch(const DeviceBatch& batch, HostLists& lists) {
    if (!batch.splits.empty()) {
        const auto own = batch.splits.first(meeting_.members);
        meeting_.splits[number_].assign(own.begin(), own.end());
        meet();
        for (const auto& of_member : meeting_.splits) {
            lists.splits.insert(lists.splits.end(), of_member.begin(), of_member.end());
        }
        meet();
    }
    for (std::size_t i = 0; i < batch.segments.size(); ++i) {
        for (std::uint32_t member = 0; member < meeting_.members; ++member) {
            lists.locations.push_back({.first_dimension = batch.rows.empty() ? 0 : batch.rows[member]});
        }
    }
    return {.operation = batch.operation,
            .segments = batch.segments,
            .locations = lists.locations,
            .splits = lists.splits,
            .rows = batch.rows};
}

Status Member::run(DeviceCommunicator& communicator, DeviceBatch batch) {
    auto ready = runtime_->record(stream());
    RUEDA_RETURN_IF_FAILED(ready.status());
    const std::vector<DeviceEventPtr> events(batch.segments.size(), ready.value());
    if (batch.ready.empty()) {
        batch.ready = events;
    }
    HostLists lists;
    if (batch.host.segments.empty()) {
        batch.host = host_batch(batch, lists);
    }
    RUEDA_RETURN_IF_FAILED(drive(communicator, communicator.start(batch)));
    return communicator.end()->make_wait(stream());
}

std::vector<std::string> complaints_of_members(std::uint32_t members, int devices, std::uint64_t seed,
                                               const std::function<void(Member&)>& body, const GpuTables& tables,
                                               std::size_t piece_bytes) {
    gpu::reset(seed, devices);
    gpu::set_nccl_version(tables.nccl_version);
    gpu::register_kernels();
    static_cast<void>(tables.cuda.init(0));  // in a real process, load_cuda() calls cuInit
    Meeting meeting(members);
    std::mutex mutex;
    std::vector<std::string> complaints;
    std::vector<std::thread> threads;
    for (std::uint32_t number = 0; number < members; ++number) {
        threads.emplace_back([&, number] {
            const auto complain = [&](const std::exception& error) {
                const std::scoped_lock lock(mutex);
                complaints.push_back("member " + std::to_string(number) + ": " + error.what());
                meeting.barrier.arrive_and_drop();  // from now on, the other members do not wait for this member
            };
            try {
                Member member(tables, meeting, number, static_cast<int>(number) % devices, piece_bytes);
                try {
                    body(member);
                } catch (const std::exception& error) {
                    // complain() must be called before the member's memory is freed. Freeing can wait for the work of
                    // other members, and these may wait for this member until complain() is called.
                    complain(error);
                }
            } catch (const std::exception& error) {
                complain(error);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (std::string& violation : gpu::violations()) {
        complaints.push_back(std::move(violation));
    }
    return complaints;
}

void run_members(std::uint32_t members, int devices, std::uint64_t seed, const std::function<void(Member&)>& body,
                 const GpuTables* tables, std::size_t piece_bytes) {
    const auto complaints = complaints_of_members(members, devices, seed, body,
                                                  tables == nullptr ? tables_of_stand_in() : *tables, piece_bytes);
    INFO("seed " << seed << ", members " << members);
    CHECK(complaints == std::vector<std::string>());
}

void run_both_ways(std::uint32_t members, std::uint64_t seed, const std::function<void(Member&)>& body) {
    run_members(members, static_cast<int>(members), seed, body);
    run_members(
        members, 1, seed,
        [&body](Member& member) {
            member.set_path(DevicePath::host);
            body(member);
        },
        nullptr, /*piece_bytes=*/600);
    run_members(
        members, 1, seed,
        [&body](Member& member) {
            member.set_path(DevicePath::host);
            member.share_memory();
            body(member);
        },
        nullptr, /*piece_bytes=*/600);
}

}  // namespace rueda::tests
