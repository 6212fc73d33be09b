// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "allreduce.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "rueda/rueda.hpp"

namespace rueda::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The tensor of a case on this rank. Element i has the value (i mod 7) + 2 * rank before the first average, and
/// (i mod 7) + (size − 1) after it. From then on, the ranks have equal values, which further averages do not change.
struct Tensor {
    std::string name;
    std::byte* data;
    std::uint64_t bytes;

    [[nodiscard]] std::uint64_t count() const { return bytes / sizeof(float); }
    [[nodiscard]] TensorView view() const { return part(data, bytes); }
    [[nodiscard]] static TensorView part(std::byte* begin, std::uint64_t part_bytes) {
        return {begin, DType::float32, Shape{static_cast<std::int64_t>(part_bytes / sizeof(float))}};
    }
};

/// A method to average the tensor. run() ends when the result is on the GPU. If a candidate's run() ends earlier, the
/// comment of this candidate says so.
class Candidate {
public:
    virtual ~Candidate() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    /// How many operations one call of run() executes. The table shows the time of one operation.
    [[nodiscard]] virtual int operations() const { return 1; }
    virtual void run() = 0;
};

/// Calls Rueda's allreduce(), which blocks until the GPU has the result.
class Waits final : public Candidate {
public:
    Waits(const Gpu& gpu, const Tensor& tensor) : gpu_(gpu), tensor_(tensor), slot_(tensor.name + ".waits") {}
    [[nodiscard]] std::string name() const override { return "rueda, wait"; }
    void run() override {
        rueda::allreduce(slot_, tensor_.view(), {.device = cuda_stream(gpu_.ordinal(), gpu_.stream())});
    }

private:
    const Gpu& gpu_;
    const Tensor& tensor_;
    TensorSlot slot_;
};

/// The operations follow each other in the stream, as in a training loop; the host waits once, after the last one.
class Streams final : public Candidate {
public:
    Streams(const Gpu& gpu, const Tensor& tensor)
        : gpu_(gpu),
          tensor_(tensor),
          slot_(tensor.name + ".streams"),
          operations_(tensor.bytes <= (1U << 20) ? 16 : 4) {}
    [[nodiscard]] std::string name() const override { return fmt::format("rueda, stream, {} calls", operations_); }
    [[nodiscard]] int operations() const override { return operations_; }
    void run() override {
        const DeviceStream stream = cuda_stream(gpu_.ordinal(), gpu_.stream());
        for (int i = 0; i < operations_; ++i) {
            rueda::allreduce_async(slot_, tensor_.view(), {.device = stream}).wait_on_stream(stream);
        }
        gpu_.synchronise();
    }

private:
    const Gpu& gpu_;
    const Tensor& tensor_;
    TensorSlot slot_;
    int operations_;
};

/// A candidate whose run() does not wait for the result. run() returns when all ranks have called the operation and the
/// work has been put into a stream of the GPU.
class Launches final : public Candidate {
public:
    Launches(const Gpu& gpu, const Tensor& tensor) : gpu_(gpu), tensor_(tensor), slot_(tensor.name + ".launches") {}
    [[nodiscard]] std::string name() const override { return "rueda, until launched"; }
    void run() override {
        const DeviceStream stream = cuda_stream(gpu_.ordinal(), gpu_.stream());
        rueda::allreduce_async(slot_, tensor_.view(), {.device = stream}).wait_on_stream(stream);
    }

private:
    const Gpu& gpu_;
    const Tensor& tensor_;
    TensorSlot slot_;
};

/// Resident memory, which all ranks of the host see. It is registered with the driver, so that copies to and from the
/// GPU are as fast as with pinned memory.
class RegisteredMemory {
public:
    /// Returns nothing if the driver cannot register the memory.
    static std::unique_ptr<RegisteredMemory> make(std::uint64_t bytes) {
        auto made = std::unique_ptr<RegisteredMemory>(new RegisteredMemory);
        made->library_ = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (made->library_ == nullptr) {
            return nullptr;
        }
        const auto do_register =
            reinterpret_cast<int (*)(void*, std::size_t, unsigned)>(::dlsym(made->library_, "cuMemHostRegister_v2"));
        made->memory_ = static_cast<std::byte*>(rueda::allocate(bytes));
        made->is_registered_ =
            do_register != nullptr && do_register(made->memory_, bytes, collectives::cuda::kHostPortable) == 0;
        return made->is_registered_ ? std::move(made) : nullptr;
    }
    ~RegisteredMemory() {
        if (is_registered_) {
            const auto unregister = reinterpret_cast<int (*)(void*)>(::dlsym(library_, "cuMemHostUnregister"));
            static_cast<void>(unregister(memory_));
        }
        rueda_deallocate(memory_);
    }
    RegisteredMemory(const RegisteredMemory&) = delete;
    RegisteredMemory& operator=(const RegisteredMemory&) = delete;
    [[nodiscard]] std::byte* data() const { return memory_; }

private:
    RegisteredMemory() = default;
    void* library_ = nullptr;
    std::byte* memory_ = nullptr;
    bool is_registered_ = false;
};

/// A program whose communication library does not support GPUs. The program copies the tensor to the host in chunks,
/// starts the average of each chunk when the chunk has arrived, and then copies the result back. Several chunks are in
/// progress at the same time.
class Staging final : public Candidate {
public:
    Staging(const Gpu& gpu, const Tensor& tensor, std::unique_ptr<RegisteredMemory> resident)
        : gpu_(gpu), tensor_(tensor), resident_(std::move(resident)), back_(gpu.make_stream()) {
        if (resident_ == nullptr) {
            pinned_.emplace(gpu, Memory::Kind::pinned, tensor.bytes);
        }
        for (std::uint64_t begin = 0; begin < tensor.bytes; begin += kChunk) {
            slots_.emplace_back(fmt::format("{}.{}.{}", tensor.name, name(), begin));
            arrived_.push_back(std::make_unique<Event>(gpu, Event::Use::order));
        }
    }
    ~Staging() override { static_cast<void>(gpu_.api().stream_destroy(back_)); }
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    [[nodiscard]] std::string name() const override { return resident_ != nullptr ? "staging, resident" : "staging"; }
    void run() override {
        std::byte* const host = resident_ != nullptr ? resident_->data() : pinned_->data();
        const auto bytes_of = [&](std::size_t chunk) { return std::min(kChunk, tensor_.bytes - chunk * kChunk); };
        for (std::size_t c = 0; c < slots_.size(); ++c) {
            gpu_.copy(host + c * kChunk, tensor_.data + c * kChunk, bytes_of(c));
            arrived_[c]->record(gpu_.stream());
        }
        std::vector<Handle> handles;
        for (std::size_t c = 0; c < slots_.size(); ++c) {
            arrived_[c]->synchronise();
            handles.push_back(rueda::allreduce_async(slots_[c], Tensor::part(host + c * kChunk, bytes_of(c))));
        }
        for (std::size_t c = 0; c < slots_.size(); ++c) {
            handles[c].wait();
            gpu_.copy(tensor_.data + c * kChunk, host + c * kChunk, bytes_of(c), back_);
        }
        gpu_.check(gpu_.api().stream_synchronize(back_), "cuStreamSynchronize");
    }

private:
    /// Copies of this size have nearly the full speed, which is 53 GB/s on an H200. Copies of 1 MiB reach only 37 GB/s.
    static constexpr std::uint64_t kChunk = std::uint64_t{4} << 20;

    const Gpu& gpu_;
    const Tensor& tensor_;
    std::unique_ptr<RegisteredMemory> resident_;
    std::optional<Memory> pinned_;
    collectives::cuda::CudaStream back_;
    std::vector<TensorSlot> slots_;
    std::vector<std::unique_ptr<Event>> arrived_;
};

/// The times of a candidate's operations in microseconds.
struct Row {
    std::string name;
    std::vector<double> times;
    std::int64_t wrong = 0;
};

class AllreduceBench {
public:
    AllreduceBench(const Gpu& gpu, const AllreducePlan& plan)
        : gpu_(gpu),
          plan_(plan),
          most_(*std::max_element(plan.sizes.begin(), plan.sizes.end())),
          input_(gpu, Memory::Kind::device, most_),
          tensor_(gpu, Memory::Kind::device, most_),
          host_(gpu, Memory::Kind::pinned, most_) {
        write_values(host_.data(), DType::float32, most_ / sizeof(float), {.factor = 1, .offset = 2 * rueda::rank()});
        gpu.copy(input_.data(), host_.data(), most_);
        gpu.synchronise();
    }

    std::uint64_t run() {
        if (rueda::rank() == 0) {
            fmt::print("{:>10}  {:<26} {:>10} {:>10} {:>10} {:>6} {:>12}\n", "bytes", "way", "p10 us", "median us",
                       "p90 us", "times", "to staging");
        }
        for (const std::uint64_t bytes : plan_.sizes) {
            print(bytes, measure(bytes));
        }
        return static_cast<std::uint64_t>(wrong_);
    }

private:
    std::int64_t count_wrong_results(const Tensor& tensor) {
        gpu_.copy(host_.data(), tensor.data, tensor.bytes);
        gpu_.synchronise();
        return static_cast<std::int64_t>(
            count_wrong(host_.data(), DType::float32, tensor.count(), {.factor = 1, .offset = rueda::size() - 1}));
    }

    /// Waits until all ranks have called this function, runs the candidate once with new input, and returns the time of
    /// one operation.
    double iterate(Candidate& candidate, const Tensor& tensor) {
        gpu_.copy(tensor.data, input_.data(), tensor.bytes);
        gpu_.synchronise();
        rueda::barrier();
        const auto begin = Clock::now();
        candidate.run();
        const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
        gpu_.synchronise();
        return time.count() / candidate.operations();
    }

    std::vector<std::unique_ptr<Candidate>> candidates_of(const Tensor& tensor) {
        std::vector<std::unique_ptr<Candidate>> made;
        made.push_back(std::make_unique<Waits>(gpu_, tensor));
        made.push_back(std::make_unique<Streams>(gpu_, tensor));
        if (tensor.bytes <= 4096) {
            made.push_back(std::make_unique<Launches>(gpu_, tensor));
        }
        made.push_back(std::make_unique<Staging>(gpu_, tensor, nullptr));
        auto resident = RegisteredMemory::make(tensor.bytes);
        std::int32_t have = resident != nullptr ? 1 : 0;  // 0 if a rank cannot register memory
        rueda::allreduce("bench.have", std::span(&have, 1), {.op = ReduceOp::min});
        if (have != 0) {
            made.push_back(std::make_unique<Staging>(gpu_, tensor, std::move(resident)));
        }
        return made;
    }

    /// Rank 0's clock decides for all ranks whether there is time for another round.
    static bool goes_on(Clock::time_point end, std::size_t done) {
        constexpr std::size_t kFewest = 7;
        constexpr std::size_t kMost = 400;
        std::int32_t more = done < kFewest || (done < kMost && Clock::now() < end) ? 1 : 0;
        rueda::broadcast("bench.goes_on", std::span(&more, 1), 0);
        return more != 0;
    }

    std::vector<Row> measure(std::uint64_t bytes) {
        const Tensor tensor{fmt::format("bench.{}", bytes), tensor_.data(), bytes};
        const auto candidates = candidates_of(tensor);
        std::vector<Row> rows(candidates.size());
        for (std::size_t k = 0; k < rows.size(); ++k) {
            rows[k].name = candidates[k]->name();
            for (int warm_up = 0; warm_up < 3; ++warm_up) {
                static_cast<void>(iterate(*candidates[k], tensor));
            }
            rows[k].wrong = count_wrong_results(tensor);
        }
        const auto end =
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(plan_.seconds));
        while (goes_on(end, rows.front().times.size())) {
            for (std::size_t k = 0; k < rows.size(); ++k) {
                rows[k].times.push_back(iterate(*candidates[k], tensor));
            }
        }
        for (std::size_t k = 0; k < rows.size(); ++k) {
            static_cast<void>(iterate(*candidates[k], tensor));
            rows[k].wrong += count_wrong_results(tensor);
            // An iteration's time is that of its slowest rank.
            rueda::allreduce(fmt::format("bench.times.{}", k), rows[k].times, {.op = ReduceOp::max});
            rueda::allreduce("bench.wrong", std::span(&rows[k].wrong, 1), {.op = ReduceOp::sum});
            wrong_ += rows[k].wrong;
        }
        return rows;
    }

    /// Prints the table. Some candidates copy the tensor to the host's memory and back ("staging"). The last column
    /// compares each candidate with the fastest of these.
    static void print(std::uint64_t bytes, const std::vector<Row>& rows) {
        if (rueda::rank() != 0) {
            return;
        }
        double staging = 0;
        for (const Row& row : rows) {
            if (row.name.starts_with("staging")) {
                const double median = quantile(row.times, 0.5);
                staging = staging == 0 ? median : std::min(staging, median);
            }
        }
        for (const Row& row : rows) {
            const double median = quantile(row.times, 0.5);
            fmt::print("{:>10}  {:<26} {:>10.1f} {:>10.1f} {:>10.1f} {:>6} {:>11.2f}x{}\n", bytes, row.name,
                       quantile(row.times, 0.1), median, quantile(row.times, 0.9), row.times.size(), staging / median,
                       row.wrong > 0 ? fmt::format("  {} WRONG", row.wrong) : "");
        }
        std::fflush(stdout);
    }

    const Gpu& gpu_;
    AllreducePlan plan_;
    std::uint64_t most_;
    Memory input_;
    Memory tensor_;
    Memory host_;
    std::int64_t wrong_ = 0;
};

}  // namespace

std::uint64_t measure_allreduces(Gpu& gpu, const AllreducePlan& plan) { return AllreduceBench(gpu, plan).run(); }

}  // namespace rueda::bench
