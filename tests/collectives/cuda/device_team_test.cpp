// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the replicas of a process add up and copy tensors on their devices (DeviceTeam). The stand-in reports each
// pair of accesses that no event orders.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/floating_point.hpp"
#include "collectives/cuda/plugin/cuda_runtime.hpp"
#include "ops/reduce.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace collectives;        // NOLINT(google-build-using-namespace): tests of this room use all of it
using namespace collectives::cuda;  // NOLINT(google-build-using-namespace): as above

/// Tensors of at least this size are divided among the devices in these tests.
constexpr std::size_t kDivided = 2048;
/// Numbers of elements: none, one, a tensor that is too small to be divided, and two tensors that are divided, the last
/// one unevenly.
const std::vector<std::size_t> kCounts = {0, 1, 300, 4096, 5003};

struct Case {
    std::vector<int> devices{};  ///< the device of each replica
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::average;
    std::uint64_t seed = 1;
};

/// A program with several replicas, which writes and reads the tensors in its own streams.
class Program {
public:
    explicit Program(const Case& tested, const CudaApi& api = gpu::open_cuda())
        : case_(tested), api_(api), random_(static_cast<unsigned>(tested.seed)) {
        require(api_.init(0), "cuInit");
        for (const int device : case_.devices) {
            CudaContext context = nullptr;
            CudaStream stream = nullptr;
            require(api_.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
            const ContextScope scope(api_, context);
            require(api_.stream_create_with_priority(&stream, kStreamNonBlocking, 0), "cuStreamCreateWithPriority");
            contexts_.push_back(context);
            streams_.push_back(stream);
        }
        for (const std::size_t count : kCounts) {
            TeamTensor& tensor = tensors_.emplace_back(TeamTensor{.dtype = case_.dtype, .count = count});
            for (const CudaContext context : contexts_) {
                const ContextScope scope(api_, context);
                DeviceAddress memory = 0;
                require(api_.memory_allocate(&memory, std::max<std::size_t>(tensor.bytes(), 1)), "cuMemAlloc");
                tensor.replicas.push_back(reinterpret_cast<std::byte*>(memory));
            }
        }
        runtime_ = std::make_unique<CudaDeviceRuntime>(
            CudaDeviceRuntime::Parts{.cuda = api_,
                                     .load_nccl = [] { return failure(ErrorCode::unsupported, "no NCCL"); },
                                     .note = [this](const std::string& text) { notes_.push_back(text); },
                                     .kernels = gpu::kKernelImage,
                                     .team_divided_bytes = kDivided});
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() {
        team_.reset();
        gpu::settle();
        for (std::size_t replica = 0; replica < streams_.size(); ++replica) {
            const ContextScope scope(api_, contexts_[replica]);
            static_cast<void>(api_.stream_synchronize(streams_[replica]));
        }
    }

    [[nodiscard]] Status make_team() {
        DeviceTeamPlan plan{.tensors = tensors_, .summed = tensors_.size(), .op = case_.op};
        for (std::size_t replica = 0; replica < streams_.size(); ++replica) {
            plan.replicas.push_back({case_.devices[replica], streams_[replica]});
        }
        auto made = runtime_->make_team(std::move(plan));
        RUEDA_RETURN_IF_FAILED(made.status());
        team_ = std::move(made).value();
        return {};
    }

    /// Makes steps without waiting between them: each replica writes its tensors, the team adds them up and copies the
    /// sums, and each replica reads them.
    [[nodiscard]] Status run(int steps) {
        for (int step = 0; step < steps; ++step) {
            RUEDA_RETURN_IF_FAILED(run_step());
        }
        return {};
    }
    [[nodiscard]] Status run_step() {
        for (std::size_t tensor = tensors_.size(); tensor-- > 0;) {
            RUEDA_RETURN_IF_FAILED(write_and_sum(tensor));
        }
        for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
            reduce_among_processes(tensor);
            RUEDA_RETURN_IF_FAILED(team_->distribute(tensor));
        }
        RUEDA_RETURN_IF_FAILED(team_->join());
        for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
            for (std::size_t replica = 0; replica < streams_.size(); ++replica) {
                read(tensor, replica);
            }
        }
        return {};
    }
    /// Waits for all work. Returns whether all values are right.
    [[nodiscard]] bool finish() {
        for (std::size_t replica = 0; replica < streams_.size(); ++replica) {
            const ContextScope scope(api_, contexts_[replica]);
            static_cast<void>(api_.stream_synchronize(streams_[replica]));
        }
        return std::all_of(reads_.begin(), reads_.end(), [](const Read& read) {
            return std::memcmp(read.pinned, read.expected.data(), read.expected.size()) == 0;
        });
    }
    [[nodiscard]] DeviceTeam& team() { return *team_; }
    [[nodiscard]] CudaStream stream(std::size_t replica) const { return streams_[replica]; }
    [[nodiscard]] CudaContext context(std::size_t replica) const { return contexts_[replica]; }
    [[nodiscard]] const CudaApi& api() const { return api_; }
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

    /// Lets a replica write values into one of its tensors, and returns the values.
    std::vector<std::byte> write(std::size_t tensor, std::size_t replica) {
        const std::size_t bytes = tensors_[tensor].bytes();
        std::vector<std::byte> values(bytes);
        for (std::size_t i = 0; i < tensors_[tensor].count; ++i) {
            const float value = std::uniform_real_distribution<float>(-2.0F, 2.0F)(random_);
            if (case_.dtype == DType::float32) {
                std::memcpy(&values[i * sizeof(float)], &value, sizeof(float));
            } else {  // bfloat16: the upper half of a float32
                std::memcpy(&values[i * 2], reinterpret_cast<const std::byte*>(&value) + 2, 2);
            }
        }
        if (bytes > 0) {
            std::byte* const from = pinned(bytes);
            std::memcpy(from, values.data(), bytes);
            enqueue_copy(replica, tensors_[tensor].replicas[replica], from, bytes);
        }
        return values;
    }

private:
    struct Read {
        const std::byte* pinned;
        std::vector<std::byte> expected;
    };

    static void require(CudaResult result, const char* call) {
        if (result != kCudaSuccess) {
            throw std::runtime_error(std::string(call) + " returned " + std::to_string(result));
        }
    }
    [[nodiscard]] std::byte* pinned(std::size_t bytes) {
        const ContextScope scope(api_, contexts_[0]);
        void* memory = nullptr;
        require(api_.host_allocate(&memory, bytes, kHostPortable), "cuMemHostAlloc");
        return static_cast<std::byte*>(memory);
    }
    void enqueue_copy(std::size_t replica, std::byte* to, const std::byte* from, std::size_t bytes) {
        enqueue_copy(replica, streams_[replica], to, from, bytes);
    }
    void enqueue_copy(std::size_t replica, CudaStream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
        const ContextScope scope(api_, contexts_[replica]);
        require(
            api_.copy_async(reinterpret_cast<DeviceAddress>(to), reinterpret_cast<DeviceAddress>(from), bytes, stream),
            "cuMemcpyAsync");
    }
    /// Stands for the allreduce among the processes, which reads the sum and writes the result in the team's stream.
    void read_sum(std::size_t tensor) {
        if (const std::size_t bytes = tensors_[tensor].bytes(); bytes > 0) {
            std::byte* const to = pinned(bytes);
            enqueue_copy(0, static_cast<CudaStream>(team_->stream().stream), to, tensors_[tensor].replicas[0], bytes);
            reads_.push_back({to, expected_[tensor]});
        }
    }
    void reduce_among_processes(std::size_t tensor) {
        if (const std::size_t bytes = tensors_[tensor].bytes(); bytes > 0) {
            std::byte* const from = pinned(bytes);
            std::memcpy(from, expected_[tensor].data(), bytes);
            enqueue_copy(0, static_cast<CudaStream>(team_->stream().stream), tensors_[tensor].replicas[0], from, bytes);
        }
    }
    /// The replicas become ready in a random order.
    [[nodiscard]] Status write_and_sum(std::size_t tensor) {
        std::vector<std::size_t> order(streams_.size());
        std::vector<std::vector<std::byte>> written(streams_.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
            order[i] = i;
        }
        std::shuffle(order.begin(), order.end(), random_);
        for (std::size_t i = 0; i < order.size(); ++i) {
            written[order[i]] = write(tensor, order[i]);
            const auto summed = team_->ready(order[i], tensor);
            RUEDA_RETURN_IF_FAILED(summed.status());
            if (summed.value() != (i + 1 == order.size())) {
                return failure(ErrorCode::internal, "the sum did not come with the last replica");
            }
        }
        expected_[tensor] = reduce(written, tensors_[tensor].count);
        read_sum(tensor);
        return {};
    }
    /// Adds up the values on the CPU.
    [[nodiscard]] std::vector<std::byte> reduce(const std::vector<std::vector<std::byte>>& written,
                                                std::size_t count) const {
        std::vector<std::byte> sum(written[0].size());
        std::vector<const std::byte*> sources;
        for (const std::vector<std::byte>& each : written) {
            sources.push_back(each.data());
        }
        std::byte* const to = sum.data();
        const base::DefaultFloatingPoint environment;
        ops::reduce({.dtype = case_.dtype, .op = case_.op, .divisor = static_cast<int>(written.size())}, sources,
                    std::span(&to, 1), count);
        return sum;
    }
    void read(std::size_t tensor, std::size_t replica) {
        const std::size_t bytes = tensors_[tensor].bytes();
        if (bytes > 0) {
            std::byte* const to = pinned(bytes);
            enqueue_copy(replica, to, tensors_[tensor].replicas[replica], bytes);
            reads_.push_back({to, expected_[tensor]});
        }
    }

    const Case case_;
    const CudaApi api_;
    std::mt19937 random_;
    std::vector<CudaContext> contexts_;
    std::vector<CudaStream> streams_;
    std::vector<TeamTensor> tensors_;
    std::vector<std::string> notes_;
    std::unique_ptr<CudaDeviceRuntime> runtime_;
    std::unique_ptr<DeviceTeam> team_;
    std::vector<Read> reads_;
    std::vector<std::vector<std::byte>> expected_ = std::vector<std::vector<std::byte>>(kCounts.size());
};

void begin_devices(std::uint64_t seed) {
    constexpr int kDevices = 4;
    gpu::reset(seed, kDevices);
    gpu::register_kernels();
}

void check_case(const Case& tested) {
    begin_devices(tested.seed);
    Program program(tested);
    const Status made = program.make_team();
    INFO(made.message());
    REQUIRE(made.is_ok());
    const std::size_t waits = gpu::host_waits();
    const Status ran = program.run(3);
    INFO(ran.message());
    REQUIRE(ran.is_ok());
    CHECK(gpu::host_waits() == waits);
    CHECK(program.finish());
    CHECK(gpu::violations() == std::vector<std::string>{});
}

TEST_CASE("replicas on any devices get the sums that the CPU computes", "[gpu]") {
    std::uint64_t seed = 1;
    for (const std::vector<int>& devices :
         std::vector<std::vector<int>>{{0}, {1, 1}, {0, 1}, {2, 0, 2}, {3, 0, 1, 2}, {0, 1, 0, 1, 2}}) {
        for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
            CAPTURE(devices, seed);
            check_case({.devices = devices, .op = op, .seed = seed++});
        }
        check_case({.devices = devices, .dtype = DType::bfloat16, .op = ReduceOp::sum, .seed = seed++});
    }
}

TEST_CASE("a team of 16 replicas on four devices", "[gpu]") {
    check_case({.devices = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}, .seed = 7});
    Program program({.devices = std::vector<int>(17, 0)});
    const Status refused = program.make_team();
    CHECK(refused.code() == ErrorCode::invalid_argument);
    CHECK(refused.message() == "there are 17 replicas on GPUs; expected 1 to 16 in a process");
}

/// A planted defect: the call of cuStreamWaitEvent with this number does nothing. With −1, there is no defect.
/// The accesses are relaxed, because each test runs on one thread.
std::atomic<int> dropped_wait{-1};
std::atomic<int> wait_calls{0};
CudaResult (*real_wait)(CudaStream, CudaEvent, unsigned) = nullptr;

CudaResult wait_unless_dropped(CudaStream stream, CudaEvent event, unsigned flags) {
    const int number = wait_calls.fetch_add(1, std::memory_order_relaxed);
    return number == dropped_wait.load(std::memory_order_relaxed) ? kCudaSuccess : real_wait(stream, event, flags);
}

/// Makes two steps in which wait number `dropped` is missing, and returns whether the stand-in found a race.
bool finds_race(const Case& tested, int dropped) {
    begin_devices(tested.seed);
    CudaApi api = gpu::open_cuda();
    real_wait = api.stream_wait_event;
    api.stream_wait_event = wait_unless_dropped;
    wait_calls.store(0, std::memory_order_relaxed);
    dropped_wait.store(dropped, std::memory_order_relaxed);
    bool found = false;
    {
        Program program(tested, api);
        program.make_team().throw_if_failed();
        program.run(2).throw_if_failed();
        static_cast<void>(program.finish());
        found = !gpu::violations().empty();
    }
    gpu::clear_violations();
    return found;
}

TEST_CASE("each wait for an event that is left out is found", "[gpu]") {
    const Case tested{.devices = {0, 1, 2}, .seed = 3};
    REQUIRE_FALSE(finds_race(tested, -1));
    const int all = wait_calls.load(std::memory_order_relaxed);
    REQUIRE(all > 20);
    // The second step works correctly only if every wait of the first step has its effect. So the stand-in must report
    // a race if any one of these waits is missing.
    std::vector<int> missed;
    for (int dropped = 0; dropped < all / 2; ++dropped) {
        if (!finds_race(tested, dropped)) {
            missed.push_back(dropped);
        }
    }
    CAPTURE(all);
    CHECK(missed == std::vector<int>{});
}

TEST_CASE("a failed call of the driver is reported, and the next step works", "[gpu]") {
    for (const std::string function :
         {"cuMemcpyPeerAsync", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyAsync"}) {
        CAPTURE(function);
        begin_devices(5);
        Program program({.devices = {0, 1, 1}, .seed = 5});
        REQUIRE(program.make_team().is_ok());
        REQUIRE(program.run_step().is_ok());
        REQUIRE(program.finish());
        for (std::size_t replica = 0; replica < 3; ++replica) {
            static_cast<void>(program.write(3, replica));
        }
        gpu::fail_call(function, 1, kCudaUnknown);
        Status status;
        for (std::size_t replica = 0; replica < 3 && status.is_ok(); ++replica) {
            status = program.team().ready(replica, 3).status();
        }
        if (status.is_ok()) {
            status = program.team().distribute(3);
        }
        CHECK(status.code() == ErrorCode::aborted);
        CHECK(status.message().find(function) != std::string::npos);
        CHECK(program.team().join().is_ok());
        CHECK(program.run_step().is_ok());
        CHECK(program.finish());
        CHECK(gpu::violations() == std::vector<std::string>{});
    }
}

TEST_CASE("replicas without memory, or without access to each other's memory", "[gpu]") {
    begin_devices(6);
    {
        Program program({.devices = {0, 1}});
        gpu::fail_call("cuMemAlloc", 1, kCudaOutOfMemory);
        const Status refused = program.make_team();
        CHECK(refused.code() == ErrorCode::resource_exhausted);
        CHECK(refused.message().find("in which the gradients of 2 replicas are added up") != std::string::npos);
    }
    CudaApi api = gpu::open_cuda();
    api.device_can_access_peer = [](int* can, CudaDevice, CudaDevice) {
        *can = 0;
        return kCudaSuccess;
    };
    Program program({.devices = {0, 1}}, api);
    const std::size_t enabled_before = gpu::calls("cuCtxEnablePeerAccess");
    REQUIRE(program.make_team().is_ok());
    CHECK(std::count_if(program.notes().begin(), program.notes().end(), [](const std::string& note) {
              return note.find("cannot reach the memory of GPU") != std::string::npos;
          }) == 2);
    CHECK(gpu::calls("cuCtxEnablePeerAccess") == enabled_before);
    CHECK(program.run(2).is_ok());
    CHECK(program.finish());
    CHECK(gpu::violations() == std::vector<std::string>{});
}

TEST_CASE("a team's memory is freed when its devices have done its work", "[gpu]") {
    begin_devices(8);
    Program program({.devices = {0, 1}});
    const std::size_t before = gpu::allocated_bytes();
    REQUIRE(program.make_team().is_ok());
    const std::size_t with_team = gpu::allocated_bytes();
    CHECK(with_team > before);
    REQUIRE(program.run(1).is_ok());
    REQUIRE(program.finish());
    REQUIRE(program.make_team().is_ok());  // replaces the team
    gpu::settle();
    REQUIRE(program.make_team().is_ok());
    gpu::settle();
    REQUIRE(program.make_team().is_ok());
    CHECK(gpu::allocated_bytes() <= before + 3 * (with_team - before));
    CHECK(program.run(1).is_ok());
    CHECK(program.finish());
    CHECK(gpu::violations() == std::vector<std::string>{});
}

TEST_CASE("a replica's stream that captures a graph is refused", "[gpu]") {
    begin_devices(9);
    Program program({.devices = {0, 1}});
    REQUIRE(program.make_team().is_ok());
    {
        const ContextScope scope(program.api(), program.context(1));
        REQUIRE(gpu::begin_capture(program.stream(1), kCaptureModeThreadLocal) == kCudaSuccess);
        CHECK(program.team().ready(1, 2).status().code() == ErrorCode::unsupported);
        REQUIRE(gpu::end_capture(program.stream(1)) == kCudaSuccess);
    }
    CHECK(program.run(1).is_ok());
    CHECK(program.finish());
}

}  // namespace
}  // namespace rueda::tests
