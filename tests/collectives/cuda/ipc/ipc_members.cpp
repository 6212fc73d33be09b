// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/cuda/ipc/ipc_members.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <utility>

#include "base/unique_fd.hpp"
#include "collectives/cuda/load_cuda.hpp"
#include "collectives/host/arena/arena.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{50};
constexpr std::size_t kMostMembers = 16;
/// The largest number of communicators that a member can make.
constexpr std::size_t kCommunicators = 8;

void require(const Status& status, const char* what) {
    if (!status.is_ok()) {
        throw RankCheckFailed(std::string(what) + ": " + status.message());
    }
}

ArenaPlan arena_plan(int members) {
    ArenaPlan plan;
    plan.members = static_cast<std::uint32_t>(members);
    plan.negotiation_bytes = 4096;
    plan.cell_bytes = 4096;
    plan.cells_per_rank = 4;
    plan.resident_bytes = std::size_t{2} << 20;
    return plan;
}

std::shared_ptr<Arena> map_arena(const base::UniqueFd& memory, const ArenaPlan& plan, std::uint32_t member) {
    auto arena = Arena::map(base::UniqueFd(::dup(memory.value())), plan, member);
    require(arena.status(), "Arena::map");
    return std::move(arena).value();
}

}  // namespace

/// The memory that the processes of a test share. The test makes this object before it forks the processes.
class IpcBoard {
public:
    explicit IpcBoard(int members) : plan_(arena_plan(members)) {
        void* const mapping =
            ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        shared_ = new (mapping) Shared;
        for (std::size_t i = 0; i < kCommunicators; ++i) {
            auto memory = Arena::create_memory(plan_);
            require(memory.status(), "Arena::create_memory");
            arenas_.push_back(std::move(memory).value());
            map_arena(arenas_.back(), plan_, 0)->initialise();
        }
    }
    ~IpcBoard() { ::munmap(shared_, sizeof(Shared)); }
    IpcBoard(const IpcBoard&) = delete;
    IpcBoard& operator=(const IpcBoard&) = delete;

    [[nodiscard]] std::shared_ptr<Arena> arena(std::size_t communicator, std::uint32_t member) const {
        return map_arena(arenas_.at(communicator), plan_, member);
    }
    [[nodiscard]] DeviceCommunicator::Offer& offer(std::uint32_t member) { return shared_->offers.at(member); }

    void meet() {
        const int members = static_cast<int>(plan_.members);
        // load() (acquire) below reads a value that fetch_add() (release) wrote here. So everything that a member wrote
        // before meet() is visible to all members after meet().
        const int mine = shared_->arrived.fetch_add(1, std::memory_order_acq_rel);
        const int whole = (mine / members + 1) * members;
        while (shared_->arrived.load(std::memory_order_acquire) < whole) {
            check_others();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }
    void check_others() const {
        if (shared_->has_failed.load(std::memory_order_relaxed)) {
            throw RankCheckFailed("another member has failed");
        }
    }
    /// Ends the waits of the other members. The order is relaxed, because the flag publishes no other data.
    void fail() { shared_->has_failed.store(true, std::memory_order_relaxed); }

private:
    struct Shared {
        std::atomic<int> arrived{0};
        std::atomic<bool> has_failed{false};
        std::array<DeviceCommunicator::Offer, kMostMembers> offers{};
    };
    const ArenaPlan plan_;
    Shared* shared_ = nullptr;
    std::vector<base::UniqueFd> arenas_;
};

IpcMember::IpcMember(RankContext& context, const IpcSetup& setup, IpcBoard& board)
    : context_(context), setup_(setup), board_(board), device_(context.rank() % setup.devices) {
    gpu::reset(setup.seed * 16 + number(), setup.devices);
    gpu::set_delays(setup.delays);
    gpu::register_kernels();
    api_ = gpu::open_cuda();
    check(api_.init(0), "cuInit");
    if (setup.plant) {
        setup.plant(context.rank(), api_);
    }
    const auto note = [this](const std::string& text) { lines_.push_back(text); };
    runtime_ = std::make_unique<cuda::CudaDeviceRuntime>(cuda::CudaDeviceRuntime::Parts{
        .cuda = api_,
        .load_nccl = [] { return cuda::LoadedNccl{.api = gpu::open_nccl(), .version = 22809, .path = "the stand-in"}; },
        .note = note,
        .warn = note,
        .identity = {.host = 1, .process = 100U + number()},
        .kernels = "kernels",
        .ipc_sizes = setup.sizes,
        .order_interval = kOrderInterval});
    cuda::CudaDevice handle = 0;
    cuda::CudaContext device_context = nullptr;
    check(api_.device_get(&handle, device_), "cuDeviceGet");
    check(api_.primary_context_retain(&device_context, handle), "cuDevicePrimaryCtxRetain");
    check(api_.context_push(device_context), "cuCtxPushCurrent");
    check(api_.stream_create_with_priority(&stream_, cuda::kStreamNonBlocking, 0), "cuStreamCreateWithPriority");
}

IpcMember::~IpcMember() {
    cuda::CudaContext popped = nullptr;
    static_cast<void>(api_.context_pop(&popped));
}

void IpcMember::check(cuda::CudaResult result, const char* call) const {
    if (result != cuda::kCudaSuccess) {
        throw RankCheckFailed(fmt::format("{} returned {}", call, result));
    }
}

void IpcMember::meet() { board_.meet(); }

std::unique_ptr<DeviceCommunicator> IpcMember::connect(std::int32_t id) {
    hosts_.push_back(std::make_unique<HostCommunicator>(board_.arena(hosts_.size(), number())));
    const DeviceSet set{.device = device_, .member = number(), .members = members(), .id = id, .path = setup_.path};
    auto made = runtime_->make_communicator(set, *hosts_.back());
    require(made.status(), "make_communicator");
    std::unique_ptr<DeviceCommunicator> communicator = std::move(made).value();
    board_.offer(number()) = communicator->offer();
    meet();
    std::vector<DeviceCommunicator::Offer> offers;
    for (std::uint32_t member = 0; member < members(); ++member) {
        offers.push_back(board_.offer(member));
    }
    meet();
    require(communicator->connect(offers), "connect");
    return communicator;
}

std::byte* IpcMember::pinned(std::size_t bytes) {
    void* memory = nullptr;
    check(api_.host_allocate(&memory, bytes + 1, cuda::kHostPortable), "cuMemHostAlloc");
    return static_cast<std::byte*>(memory);
}

std::byte* IpcMember::put(std::span<const std::byte> bytes) {
    cuda::DeviceAddress address = 0;
    check(api_.memory_allocate(&address, bytes.size() + 1), "cuMemAlloc");
    std::byte* const staging = pinned(bytes.size());
    gpu::host_access(staging, bytes.size() + 1, true);
    std::copy(bytes.begin(), bytes.end(), staging);  // not memcpy(), because the pointer of an empty span may be null
    check(api_.copy_async(address, std::bit_cast<std::uintptr_t>(staging), bytes.size(), stream_), "cuMemcpyAsync");
    return std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

std::vector<std::byte> IpcMember::get(const std::byte* memory, std::size_t bytes) {
    std::byte* const staging = pinned(bytes);
    check(
        api_.copy_async(std::bit_cast<std::uintptr_t>(staging), std::bit_cast<std::uintptr_t>(memory), bytes, stream_),
        "cuMemcpyAsync");
    check(api_.stream_synchronize(stream_), "cuStreamSynchronize");
    gpu::host_access(staging, bytes, false);
    return {staging, staging + bytes};
}

Task& IpcMember::start(DeviceCommunicator& communicator, Operation operation, std::span<const Segment> segments,
                       const IpcLists& lists) {
    auto ready = runtime_->record(stream());
    require(ready.status(), "record");
    events_.assign(segments.size(), ready.value());
    locations_.assign(segments.size() * members(), Location{});
    lists_ = lists;
    own_splits_.clear();
    for (std::size_t member = 0; member < members() && !lists.rows.empty(); ++member) {
        locations_[member].first_dimension = lists.rows[member];
    }
    for (std::size_t to = 0; to < members() && !lists.splits.empty(); ++to) {
        own_splits_.push_back(lists.splits[number() * members() + to]);
    }
    for (std::size_t from = 0; from < members() && !lists.splits.empty(); ++from) {
        own_splits_.push_back(lists.splits[from * members() + number()]);
    }
    return communicator.start({.operation = operation,
                               .segments = segments,
                               .ready = events_,
                               .rows = lists_.rows,
                               .splits = own_splits_,
                               .host = {.operation = operation,
                                        .segments = segments,
                                        .locations = locations_,
                                        .splits = lists_.splits,
                                        .rows = lists_.rows}});
}

void IpcMember::run(DeviceCommunicator& communicator, Operation operation, std::span<const Segment> segments,
                    const IpcLists& lists) {
    Task& task = start(communicator, operation, segments, lists);
    const auto end = Clock::now() + kLimit;
    while (task.step() != StepResult::done) {
        require(communicator.failed(), "the batch");
        board_.check_others();
        if (Clock::now() > end) {
            throw RankCheckFailed("the batch is not launched");
        }
        std::this_thread::yield();
    }
    require(communicator.end()->make_wait(stream()), "make_wait");
}

RanksResult run_ipc(const IpcSetup& setup, const std::function<void(IpcMember&)>& body, const RanksOptions& options) {
    IpcBoard board(setup.members);
    return run_ranks(
        setup.members,
        [&](RankContext& context) {
            try {
                {
                    IpcMember member(context, setup, board);
                    body(member);
                }
                board.meet();  // after meet(), no member starts further work on a device
                std::string all;
                for (const std::string& violation : gpu::violations()) {
                    all += violation + "\n";
                }
                context.report("violations", all);
                board.meet();
            } catch (...) {
                board.fail();
                throw;
            }
        },
        options);
}

std::string violations_of(const RanksResult& result) {
    std::string all;
    for (const RankOutcome& rank : result.ranks) {
        const auto found = rank.values.find("violations");
        all += found == rank.values.end() ? "" : found->second;
    }
    return all;
}

void require_ipc(const IpcSetup& setup, const std::function<void(IpcMember&)>& body) {
    const RanksResult result = run_ipc(setup, body);
    INFO("seed " << setup.seed << ", members " << setup.members << "\n" << result.text());
    // This function does not check what the processes left behind, because the check would also find the shared memory
    // of other programs.
    CHECK(std::all_of(result.ranks.begin(), result.ranks.end(),
                      [](const RankOutcome& rank) { return rank.end == RankEnd::returned; }));
    const std::string violations = violations_of(result);
    CHECK_THAT(violations, Catch::Equals(""));
}

}  // namespace rueda::tests
