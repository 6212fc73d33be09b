// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Candidates that use MPI: plain MPI, hand-written code in MPI's shared memory, and a lower bound for the time (the
// "crossing bound").

// OMPI_SKIP_MPICXX leaves out MPI's old C++ interface, because Open MPI 4's version of it causes compiler warnings.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "candidate.hpp"
#include "rueda/rueda.hpp"

namespace rueda::bench {
namespace {

void check(int code, const char* call) {
    if (code != MPI_SUCCESS) {
        throw std::runtime_error(std::string(call) + " failed with code " + std::to_string(code));
    }
}

MPI_Datatype type_of(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return MPI_UINT8_T;
        case DType::int8:
            return MPI_INT8_T;
        case DType::int16:
            return MPI_INT16_T;
        case DType::uint16:
            return MPI_UINT16_T;
        case DType::int32:
            return MPI_INT32_T;
        case DType::uint32:
            return MPI_UINT32_T;
        case DType::int64:
            return MPI_INT64_T;
        case DType::uint64:
            return MPI_UINT64_T;
        case DType::float32:
            return MPI_FLOAT;
        case DType::float64:
            return MPI_DOUBLE;
        case DType::boolean:
        case DType::float16:
        case DType::bfloat16:
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            break;
    }
    return MPI_DATATYPE_NULL;
}

class MpiCandidate final : public Candidate {
public:
    explicit MpiCandidate(const Job& job) : job_(job) {}
    [[nodiscard]] std::string name() const override { return "MPI"; }
    [[nodiscard]] bool can(const Case& c) const override {
        constexpr std::uint64_t kLargestCount = 0x7FFFFFFF;
        return type_of(c.dtype) != MPI_DATATYPE_NULL && c.count() <= kLargestCount && c.is_even(job_.size);
    }
    void begin(const Case& c) override {
        case_ = c;
        input_.resize(c.bytes);
        output_.resize(c.has_output() ? c.output_count(job_.size) * size_of(c.dtype) : 0);
    }
    [[nodiscard]] std::byte* input() override { return input_.data(); }
    void run() override {
        const auto count = static_cast<int>(case_.count());
        const MPI_Datatype type = type_of(case_.dtype);
        switch (case_.operation) {
            case Operation::allreduce:
                return check(MPI_Allreduce(MPI_IN_PLACE, input_.data(), count, type, MPI_SUM, MPI_COMM_WORLD),
                             "MPI_Allreduce");
            case Operation::broadcast:
                return check(MPI_Bcast(input_.data(), count, type, 0, MPI_COMM_WORLD), "MPI_Bcast");
            case Operation::allgather:
                return check(MPI_Allgather(input_.data(), count, type, output_.data(), count, type, MPI_COMM_WORLD),
                             "MPI_Allgather");
            case Operation::reducescatter:
                return check(MPI_Reduce_scatter_block(input_.data(), output_.data(), count / job_.size, type, MPI_SUM,
                                                      MPI_COMM_WORLD),
                             "MPI_Reduce_scatter_block");
            case Operation::alltoall:
                return check(MPI_Alltoall(input_.data(), count / job_.size, type, output_.data(), count / job_.size,
                                          type, MPI_COMM_WORLD),
                             "MPI_Alltoall");
            case Operation::message:
                if (begins(job_)) {
                    send(input_.data(), count, type);
                    receive(count, type);
                } else {
                    receive(count, type);
                    send(output_.data(), count, type);
                }
        }
    }
    [[nodiscard]] const std::byte* output() override { return case_.has_output() ? output_.data() : input_.data(); }
    void end() override {
        input_ = {};
        output_ = {};
    }

private:
    void send(const std::byte* from, int count, MPI_Datatype type) const {
        check(MPI_Send(from, count, type, partner_of(job_), 0, MPI_COMM_WORLD), "MPI_Send");
    }
    void receive(int count, MPI_Datatype type) {
        check(MPI_Recv(output_.data(), count, type, partner_of(job_), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              "MPI_Recv");
    }

    Job job_;
    Case case_;
    std::vector<std::byte> input_;
    std::vector<std::byte> output_;
};

/// A window of shared memory with a buffer for each rank. It also has a counter for each rank, for barriers.
class SharedBuffers {
public:
    SharedBuffers(const Job& job, std::uint64_t bytes) : job_(job) {
        constexpr std::uint64_t kLine = 64;
        const std::uint64_t rounded = (bytes / kLine + 2) * kLine;
        void* mine = nullptr;
        check(
            MPI_Win_allocate_shared(static_cast<MPI_Aint>(rounded), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window_),
            "MPI_Win_allocate_shared");
        for (int rank = 0; rank < job.size; ++rank) {
            MPI_Aint size = 0;
            int unit = 0;
            void* base = nullptr;
            check(MPI_Win_shared_query(window_, rank, &size, &unit, &base), "MPI_Win_shared_query");
            counters_.push_back(static_cast<std::atomic<std::uint64_t>*>(base));
            data_.push_back(static_cast<std::byte*>(base) + kLine);
        }
        new (mine) std::atomic<std::uint64_t>(0);
        check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    }
    ~SharedBuffers() { MPI_Win_free(&window_); }
    SharedBuffers(const SharedBuffers&) = delete;
    SharedBuffers& operator=(const SharedBuffers&) = delete;

    [[nodiscard]] std::byte* of(int rank) const { return data_[static_cast<std::size_t>(rank)]; }
    /// Waits until all ranks have called this function. Spins, as a hand-written program on an idle machine would do.
    void barrier() {
        ++round_;
        counters_[static_cast<std::size_t>(job_.rank)]->store(round_, std::memory_order_release);
        for (const auto* counter : counters_) {
            while (counter->load(std::memory_order_acquire) < round_) {
#if defined(__x86_64__)
                __builtin_ia32_pause();
#endif
            }
        }
    }
    /// Returns the begin and the end of this rank's part of `count` elements.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> share(std::uint64_t count) const {
        constexpr std::uint64_t kUnit = 16;  // number of float32 values in a cache line
        const std::uint64_t units = (count + kUnit - 1) / kUnit;
        const auto size = static_cast<std::uint64_t>(job_.size);
        const auto rank = static_cast<std::uint64_t>(job_.rank);
        return {std::min(units * rank / size * kUnit, count), std::min(units * (rank + 1) / size * kUnit, count)};
    }

private:
    Job job_;
    MPI_Win window_{};
    std::vector<std::atomic<std::uint64_t>*> counters_;
    std::vector<std::byte*> data_;
    std::uint64_t round_ = 0;
};

/// A hand-written allreduce: waits for all inputs, writes the sum of this rank's share into all buffers, and waits for
/// all ranks.
class SharedSum final : public Candidate {
public:
    explicit SharedSum(const Job& job) : job_(job) {}
    [[nodiscard]] std::string name() const override { return "shared memory by hand"; }
    [[nodiscard]] bool can(const Case& c) const override {
        return c.operation == Operation::allreduce && c.dtype == DType::float32;
    }
    void begin(const Case& c) override {
        case_ = c;
        buffers_ = std::make_unique<SharedBuffers>(job_, c.bytes);
    }
    [[nodiscard]] std::byte* input() override { return buffers_->of(job_.rank); }
    void run() override {
        buffers_->barrier();
        const auto [begin, end] = buffers_->share(case_.count());
        for (std::uint64_t block = begin; block < end; block += kBlock) {
            add_block(block, std::min(block + kBlock, end));
        }
        buffers_->barrier();
    }
    [[nodiscard]] const std::byte* output() override { return buffers_->of(job_.rank); }
    void end() override { buffers_.reset(); }

private:
    // The number of float32 values whose sum is computed at a time. This sum stays in the L1 cache.
    static constexpr std::uint64_t kBlock = 2048;

    void add_block(std::uint64_t begin, std::uint64_t end) {
        float sum[kBlock];
        const std::uint64_t count = end - begin;
        const auto* first = reinterpret_cast<const float*>(buffers_->of(0)) + begin;
        for (std::uint64_t i = 0; i < count; ++i) {
            sum[i] = first[i];
        }
        for (int rank = 1; rank < job_.size; ++rank) {
            const auto* other = reinterpret_cast<const float*>(buffers_->of(rank)) + begin;
            for (std::uint64_t i = 0; i < count; ++i) {
                sum[i] += other[i];
            }
        }
        for (int rank = 0; rank < job_.size; ++rank) {
            auto* to = reinterpret_cast<float*>(buffers_->of(rank)) + begin;
            for (std::uint64_t i = 0; i < count; ++i) {
                to[i] = sum[i];
            }
        }
    }
    Job job_;
    Case case_;
    std::unique_ptr<SharedBuffers> buffers_;
};

/// Hand-written code for the other operations: waits for all inputs, copies or adds this rank's part of them, and waits
/// for all ranks.
class SharedCopy final : public Candidate {
public:
    explicit SharedCopy(const Job& job) : job_(job) {}
    [[nodiscard]] std::string name() const override { return "shared memory by hand"; }
    [[nodiscard]] bool can(const Case& c) const override {
        return c.operation != Operation::allreduce && c.operation != Operation::message && c.is_even(job_.size) &&
               (c.operation != Operation::reducescatter || c.dtype == DType::float32);
    }
    void begin(const Case& c) override {
        case_ = c;
        buffers_ = std::make_unique<SharedBuffers>(job_, c.bytes);
        output_.resize(c.has_output() ? c.output_count(job_.size) * size_of(c.dtype) : 0);
    }
    [[nodiscard]] std::byte* input() override { return buffers_->of(job_.rank); }
    void run() override {
        buffers_->barrier();
        const std::uint64_t part = case_.bytes / static_cast<std::uint64_t>(job_.size);
        const std::uint64_t mine = static_cast<std::uint64_t>(job_.rank) * part;
        if (case_.operation == Operation::broadcast && job_.rank != 0) {
            std::memcpy(buffers_->of(job_.rank), buffers_->of(0), case_.bytes);
        }
        if (case_.operation == Operation::reducescatter) {
            add(mine, part);
        }
        for (int rank = 0; rank < job_.size && case_.operation != Operation::reducescatter && !output_.empty();
             ++rank) {
            const bool all = case_.operation == Operation::allgather;
            const std::uint64_t bytes = all ? case_.bytes : part;
            std::memcpy(output_.data() + static_cast<std::uint64_t>(rank) * bytes,
                        buffers_->of(rank) + (all ? 0 : mine), bytes);
        }
        buffers_->barrier();
    }
    [[nodiscard]] const std::byte* output() override {
        return case_.has_output() ? output_.data() : buffers_->of(job_.rank);
    }
    void end() override {
        buffers_.reset();
        output_ = {};
    }

private:
    void add(std::uint64_t begin, std::uint64_t bytes) {
        const std::uint64_t count = bytes / sizeof(float);
        auto* const sum = reinterpret_cast<float*>(output_.data());
        std::memcpy(sum, buffers_->of(0) + begin, bytes);
        for (int rank = 1; rank < job_.size; ++rank) {
            const auto* other = reinterpret_cast<const float*>(buffers_->of(rank) + begin);
            for (std::uint64_t i = 0; i < count; ++i) {
                sum[i] += other[i];
            }
        }
    }
    Job job_;
    Case case_;
    std::unique_ptr<SharedBuffers> buffers_;
    std::vector<std::byte> output_;
};

/// A hand-written program with private buffers. It copies each byte once: process_vm_readv and process_vm_writev copy
/// directly between the memory of two processes. In a broadcast, the other ranks read from the root. So that the root
/// is not idle meanwhile, it writes the last share of each of their buffers.
class SingleCopy final : public Candidate {
public:
    explicit SingleCopy(const Job& job) : job_(job), is_allowed_(probe()) {}
    [[nodiscard]] std::string name() const override { return "single copy by hand"; }
    [[nodiscard]] bool can(const Case& c) const override {
        const bool known = c.operation == Operation::broadcast || c.operation == Operation::allgather ||
                           c.operation == Operation::alltoall;
        return is_allowed_ && known && c.is_even(job_.size);
    }
    void begin(const Case& c) override {
        case_ = c;
        barrier_ = std::make_unique<SharedBuffers>(job_, 0);
        input_.resize(c.bytes);
        output_.resize(c.has_output() ? c.output_count(job_.size) * size_of(c.dtype) : 0);
        inputs_ = addresses_of(input_.data());
    }
    [[nodiscard]] std::byte* input() override { return input_.data(); }
    void run() override {
        barrier_->barrier();
        if (case_.operation == Operation::broadcast) {
            broadcast();
        } else {
            gather(case_.operation == Operation::allgather);
        }
        barrier_->barrier();
    }
    [[nodiscard]] const std::byte* output() override { return case_.has_output() ? output_.data() : input_.data(); }
    void end() override {
        barrier_.reset();
        input_ = {};
        output_ = {};
    }

private:
    struct Address {
        pid_t process = 0;
        std::byte* memory = nullptr;
    };
    using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

    [[nodiscard]] std::vector<Address> addresses_of(std::byte* mine) const {
        const Address address{getpid(), mine};
        std::vector<Address> all(static_cast<std::size_t>(job_.size));
        check(MPI_Allgather(&address, sizeof address, MPI_BYTE, all.data(), sizeof address, MPI_BYTE, MPI_COMM_WORLD),
              "MPI_Allgather");
        return all;
    }
    static bool copies(Copy copy, std::byte* mine, const Address& other, std::uint64_t offset, std::uint64_t bytes) {
        for (std::uint64_t done = 0; done < bytes;) {
            const iovec here{mine + done, bytes - done};
            const iovec there{other.memory + offset + done, bytes - done};
            const ssize_t copied = copy(other.process, &here, 1, &there, 1, 0);
            if (copied <= 0) {
                return false;
            }
            done += static_cast<std::uint64_t>(copied);
        }
        return true;
    }
    static void must_copy(Copy copy, std::byte* mine, const Address& other, std::uint64_t offset, std::uint64_t bytes) {
        if (!copies(copy, mine, other, offset, bytes)) {
            throw std::runtime_error("the kernel did not copy between two processes, although a first try succeeded");
        }
    }
    /// Returns whether every rank may read the memory of every other rank.
    [[nodiscard]] bool probe() const {
        // If Yama restricts ptrace, this call of prctl() allows all processes of this user to read this process's
        // memory. Without Yama, the call fails, but it is not needed either.
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        std::byte mine{};
        int allowed = 1;
        for (const Address& other : addresses_of(&mine)) {
            std::byte read{};
            allowed = allowed != 0 && copies(process_vm_readv, &read, other, 0, 1) ? 1 : 0;
        }
        check(MPI_Allreduce(MPI_IN_PLACE, &allowed, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
        return allowed != 0;
    }
    void broadcast() {
        const std::uint64_t begin =
            case_.bytes / static_cast<std::uint64_t>(job_.size) * static_cast<std::uint64_t>(job_.size - 1);
        if (job_.rank != 0) {
            return must_copy(process_vm_readv, input_.data(), inputs_[0], 0, begin);
        }
        for (std::size_t rank = 1; rank < inputs_.size(); ++rank) {
            must_copy(process_vm_writev, input_.data() + begin, inputs_[rank], begin, case_.bytes - begin);
        }
    }
    void gather(bool all) {
        const auto size = static_cast<std::size_t>(job_.size);
        const auto mine = static_cast<std::size_t>(job_.rank);
        const std::uint64_t bytes = all ? case_.bytes : case_.bytes / size;
        const std::uint64_t offset = all ? 0 : mine * bytes;
        std::memcpy(output_.data() + mine * bytes, input_.data() + offset, bytes);
        for (std::size_t step = 1; step < size; ++step) {
            const std::size_t rank = (mine + step) % size;
            must_copy(process_vm_readv, output_.data() + rank * bytes, inputs_[rank], offset, bytes);
        }
    }

    Job job_;
    bool is_allowed_;
    Case case_;
    std::unique_ptr<SharedBuffers> barrier_;
    std::vector<Address> inputs_;  // by rank
    std::vector<std::byte> input_;
    std::vector<std::byte> output_;
};

/// A lower bound for the time of an allreduce in shared memory, which no allreduce can beat by much. First every rank
/// writes its own buffer. When all ranks have done this, each rank scales its share of the buffers of all ranks in
/// place. With buffers of S bytes, each rank thus reads S bytes, most of which other cores have written, and writes S
/// bytes.
class CrossingBound final : public Candidate {
public:
    explicit CrossingBound(const Job& job) : job_(job) {}
    [[nodiscard]] std::string name() const override { return "crossing bound"; }
    [[nodiscard]] bool can(const Case& c) const override {
        return c.operation == Operation::allreduce && c.dtype == DType::float32;
    }
    void begin(const Case& c) override {
        case_ = c;
        buffers_ = std::make_unique<SharedBuffers>(job_, c.bytes);
    }
    [[nodiscard]] std::byte* input() override { return buffers_->of(job_.rank); }
    void run() override {
        buffers_->barrier();
        const auto [begin, end] = buffers_->share(case_.count());
        for (int rank = 0; rank < job_.size; ++rank) {
            auto* values = reinterpret_cast<float*>(buffers_->of(rank));
            for (std::uint64_t i = begin; i < end; ++i) {
                values[i] *= 1.0625F;
            }
        }
        buffers_->barrier();
    }
    [[nodiscard]] const std::byte* output() override { return buffers_->of(job_.rank); }
    [[nodiscard]] bool has_result() const override { return false; }
    void end() override { buffers_.reset(); }

private:
    Job job_;
    Case case_;
    std::unique_ptr<SharedBuffers> buffers_;
};

/// Returns whether an MPI launcher started this process. Without one, MPI would know only this process and not the job.
bool launched_by_mpi() {
    return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr ||
           std::getenv("PMIX_RANK") != nullptr;
}

bool uses_mpi() {
    int initialized = 0;
    check(MPI_Initialized(&initialized), "MPI_Initialized");
    return initialized != 0;
}

}  // namespace

void add_mpi_candidates(std::vector<std::unique_ptr<Candidate>>& candidates, const Job& job) {
    if (uses_mpi()) {
        candidates.push_back(std::make_unique<MpiCandidate>(job));
        candidates.push_back(std::make_unique<SharedSum>(job));
        candidates.push_back(std::make_unique<SharedCopy>(job));
        candidates.push_back(std::make_unique<SingleCopy>(job));
        candidates.push_back(std::make_unique<CrossingBound>(job));
    }
}

void line_up() {
    if (uses_mpi()) {
        check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    } else {
        rueda::barrier();
    }
}

std::string mpi_description() {
    if (!uses_mpi()) {
        return "none";
    }
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
    const std::string all(text, static_cast<std::size_t>(length));
    return all.substr(0, all.find_first_of(",\n"));
}

void begin_mpi(int* argc, char*** argv) {
    int provided = 0;
    if (launched_by_mpi()) {
        check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
}

void end_mpi() {
    if (uses_mpi()) {
        check(MPI_Finalize(), "MPI_Finalize");
    }
}

}  // namespace rueda::bench
