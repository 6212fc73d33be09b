// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures hand-written programs that use no library. Their times are bounds: a library that does the same work, and in
// addition checks and records it, can hardly be faster. The argument chooses the program:
// - crossing: every rank scales its share of the buffers of all ranks in place. With buffers of S bytes, each rank thus
//   reads S bytes, most of which other cores have written, and writes S bytes. Every allreduce in shared memory has to
//   read and write at least this much. The program computes no sums.
// - hand: the tensors are in shared memory. Every rank waits for all inputs, copies or adds its part, and waits for all
//   ranks.
// - cells: the tensors are in private memory. Two ranks copy them through small buffers in shared memory that stay in
//   the caches. A message of up to 56 bytes needs one cache line.
// - set: the tensors are in private memory, and there are many of them. Each of two ranks copies all tensors into one
//   buffer in shared memory, each with its number and its size. The ranks wait for each other once. Then each rank
//   checks the number and the size of each tensor, and adds the other rank's elements to its own.
// - single: the tensors are in private memory, and the kernel copies between the two processes.
// With the argument `probe`, the program only says by its exit status whether the kernel allows this copy.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "harness.hpp"

namespace {

constexpr std::uint64_t kLine = 64;

std::uint64_t sum_of(const std::vector<std::uint64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// A range of elements.
struct Share {
    std::uint64_t begin;
    std::uint64_t end;
};

/// Returns this rank's share of `count` elements, in whole cache lines.
Share share_of(const compare::Place& place, std::uint64_t count) {
    constexpr std::uint64_t kUnit = kLine / sizeof(float);
    const std::uint64_t units = (count + kUnit - 1) / kUnit;
    const auto rank = static_cast<std::uint64_t>(place.rank);
    const auto size = static_cast<std::uint64_t>(place.size);
    return {std::min(units * rank / size * kUnit, count), std::min(units * (rank + 1) / size * kUnit, count)};
}

class Program : public compare::Peer {
public:
    explicit Program(const compare::Place& place) : place_(place) {}

protected:
    /// Sets the case, and returns the number of elements of the output, or 0 if the operation runs in place.
    std::uint64_t set_case(const compare::Case& c) {
        case_ = c;
        count_ = sum_of(c.counts);
        part_ = count_ / static_cast<std::uint64_t>(place_.size);
        if (c.operation == "allgather") {
            return count_ * static_cast<std::uint64_t>(place_.size);
        }
        return c.operation == "alltoall" || c.operation == "message" ? count_
               : c.operation == "reducescatter"                      ? part_
                                                                     : 0;
    }
    [[nodiscard]] std::uint64_t rank() const { return static_cast<std::uint64_t>(place_.rank); }

    compare::Place place_;
    compare::Case case_;
    std::uint64_t count_ = 0;  // the number of elements of one rank's input
    std::uint64_t part_ = 0;   // the number of elements for each rank
};

/// The tensors of a set lie in one buffer, one after the other.
class Crossing final : public Program {
public:
    using Program::Program;
    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        set_case(c);
        buffers_.clear();
        for (std::byte* buffer : compare::shared_buffers(place_, count_ * sizeof(float))) {
            buffers_.push_back(reinterpret_cast<float*>(buffer));
        }
        std::vector<float*> inputs;
        float* input = buffers_[rank()];
        for (const std::uint64_t count : c.counts) {
            inputs.push_back(input);
            input += count;
        }
        return inputs;
    }
    void run() override {
        const Share share = share_of(place_, count_);
        compare::line_up(place_);
        for (float* values : buffers_) {
            for (std::uint64_t i = share.begin; i < share.end; ++i) {
                values[i] *= 1.0625F;
            }
        }
        compare::line_up(place_);
    }
    [[nodiscard]] std::vector<const float*> outputs() override { return {}; }
    void end() override {}

private:
    std::vector<float*> buffers_;
};

class ByHand final : public Program {
public:
    using Program::Program;
    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        output_.resize(set_case(c));
        buffers_.clear();
        for (std::byte* buffer : compare::shared_buffers(place_, count_ * sizeof(float))) {
            buffers_.push_back(reinterpret_cast<float*>(buffer));
        }
        return {buffers_[rank()]};
    }
    void run() override {
        compare::line_up(place_);
        if (case_.operation == "allreduce") {
            allreduce();
        } else if (case_.operation == "broadcast") {
            const Share share = share_of(place_, count_);
            for (std::size_t other = 1; other < buffers_.size(); ++other) {
                std::memcpy(buffers_[other] + share.begin, buffers_[0] + share.begin,
                            (share.end - share.begin) * sizeof(float));
            }
        } else if (case_.operation == "reducescatter") {
            add(output_.data(), rank() * part_, part_);
        } else {
            const bool all = case_.operation == "allgather";
            const std::uint64_t count = all ? count_ : part_;
            for (std::size_t other = 0; other < buffers_.size(); ++other) {
                std::memcpy(output_.data() + other * count, buffers_[other] + (all ? 0 : rank() * part_),
                            count * sizeof(float));
            }
        }
        compare::line_up(place_);
    }
    [[nodiscard]] std::vector<const float*> outputs() override {
        return {output_.empty() ? buffers_[rank()] : output_.data()};
    }
    void end() override { output_ = {}; }

private:
    /// Writes the sums of all ranks' elements from `begin` on to `to`.
    void add(float* to, std::uint64_t begin, std::uint64_t count) const {
        std::memcpy(to, buffers_[0] + begin, count * sizeof(float));
        for (std::size_t other = 1; other < buffers_.size(); ++other) {
            const float* values = buffers_[other] + begin;
            for (std::uint64_t i = 0; i < count; ++i) {
                to[i] += values[i];
            }
        }
    }
    void allreduce() {
        constexpr std::uint64_t kBlock = 2048;  // number of float32 values; the block's sum stays in the L1 cache
        alignas(kLine) float sum[kBlock];
        const Share share = share_of(place_, count_);
        for (std::uint64_t block = share.begin; block < share.end; block += kBlock) {
            const std::uint64_t count = std::min(kBlock, share.end - block);
            add(sum, block, count);
            for (float* buffer : buffers_) {
                std::memcpy(buffer + block, sum, count * sizeof(float));
            }
        }
    }
    std::vector<float*> buffers_;
    std::vector<float> output_;
};

/// Small buffers in shared memory, the same number for each rank. Chunk number k goes to the cell k mod kCells. The
/// writer writes the chunk, and then the number k + 1 to the head of the cell (release). The reader waits for this
/// number (acquire). A small chunk lies beside the number, in the same cache line.
class Cells {
public:
    static constexpr std::uint64_t kChunk = 32 * 1024;
    static constexpr std::uint64_t kCells = 8;

    explicit Cells(const compare::Place& place)
        : rank_(static_cast<std::size_t>(place.rank)),
          memory_(compare::shared_buffers(place, kCells * kStride + kLine)) {}

    void put(std::uint64_t number, std::size_t owner, const std::byte* from, std::uint64_t bytes) {
        std::byte* cell = at(number, owner);
        std::memcpy(data(cell, bytes), from, bytes);
        head(cell).store(number + 1, std::memory_order_release);
    }
    [[nodiscard]] const std::byte* take(std::uint64_t number, std::size_t owner, std::uint64_t bytes) {
        std::byte* cell = at(number, owner);
        wait(head(cell), number + 1);
        return data(cell, bytes);
    }
    /// Tells the other rank that this rank has read all chunks before `number`.
    void report_read(std::uint64_t number) { read_by(rank_).store(number, std::memory_order_release); }
    /// Waits until the other rank has read the chunk that was in the cell of chunk `number` before.
    void wait_until_free(std::uint64_t number) {
        if (number >= kCells) {
            wait(read_by(1 - rank_), number + 1 - kCells);
        }
    }

private:
    static constexpr std::uint64_t kStride = kChunk + kLine;

    [[nodiscard]] std::byte* at(std::uint64_t number, std::size_t owner) const {
        return memory_[owner] + number % kCells * kStride;
    }
    static std::byte* data(std::byte* cell, std::uint64_t bytes) {
        return cell + (bytes <= kLine - sizeof(std::uint64_t) ? sizeof(std::uint64_t) : kLine);
    }
    static std::atomic<std::uint64_t>& head(std::byte* memory) {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory);  // the shared memory is filled with zeros
    }
    [[nodiscard]] std::atomic<std::uint64_t>& read_by(std::size_t rank) const {
        return head(memory_[rank] + kCells * kStride);
    }
    static void wait(const std::atomic<std::uint64_t>& value, std::uint64_t least) {
        for (std::uint64_t tries = 0; value.load(std::memory_order_acquire) < least; ++tries) {
            if (tries > 10'000) {
                sched_yield();
            }
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }

    std::size_t rank_;
    std::vector<std::byte*> memory_;  // the cells of each rank
};

class ThroughCells final : public Program {
public:
    explicit ThroughCells(const compare::Place& place) : Program(place), cells_(place) {}
    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        output_.resize(set_case(c));
        input_.resize(count_);
        return {input_.data()};
    }
    void run() override {
        const std::uint64_t bytes = count_ * sizeof(float);
        const bool first = rank() == 0;
        if (case_.operation == "broadcast") {
            first ? send(bytes_of(input_), bytes, 0) : receive(bytes_of(input_), bytes, 0);
        } else if (case_.operation == "message") {
            first ? send(bytes_of(input_), bytes, 0) : receive(bytes_of(output_), bytes, 0);
            first ? receive(bytes_of(output_), bytes, 1) : send(bytes_of(output_), bytes, 1);
        } else {
            exchange();
        }
    }
    [[nodiscard]] std::vector<const float*> outputs() override {
        return {output_.empty() ? input_.data() : output_.data()};
    }
    void end() override {
        input_ = {};
        output_ = {};
    }

private:
    static std::byte* bytes_of(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }

    void send(const std::byte* from, std::uint64_t bytes, std::size_t owner) {
        for (std::uint64_t done = 0; done < bytes; done += Cells::kChunk) {
            cells_.wait_until_free(next_[owner]);
            cells_.put(next_[owner]++, owner, from + done, std::min(Cells::kChunk, bytes - done));
        }
    }
    void receive(std::byte* to, std::uint64_t bytes, std::size_t owner) {
        for (std::uint64_t done = 0; done < bytes; done += Cells::kChunk) {
            const std::uint64_t size = std::min(Cells::kChunk, bytes - done);
            std::memcpy(to + done, cells_.take(next_[owner], owner, size), size);
            cells_.report_read(++next_[owner]);
        }
    }
    /// Both ranks send and receive the same number of bytes. In every round of all cells, the ranks swap their cells.
    /// So a rank writes to a cell whose last chunk it has read itself, and need not wait for the cell.
    void exchange() {
        const bool whole = case_.operation == "allreduce" || case_.operation == "allgather";
        const std::uint64_t other = 1 - rank();
        const std::uint64_t bytes = (whole ? count_ : part_) * sizeof(float);
        const std::byte* from = bytes_of(input_) + (whole ? 0 : other * bytes);
        const std::uint64_t first = next_[0];
        const auto put = [&](std::uint64_t done) {
            const std::uint64_t number = first + done / Cells::kChunk;
            cells_.put(number, owner(number, rank()), from + done, std::min(Cells::kChunk, bytes - done));
        };
        put(0);
        copy_own(bytes);
        for (std::uint64_t done = 0; done < bytes; done += Cells::kChunk) {
            if (done + Cells::kChunk < bytes) {
                put(done + Cells::kChunk);
            }
            const std::uint64_t size = std::min(Cells::kChunk, bytes - done);
            const std::uint64_t number = first + done / Cells::kChunk;
            use(cells_.take(number, owner(number, other), size), done, size, bytes);
            next_[0] = number + 1;
        }
    }
    static std::size_t owner(std::uint64_t number, std::uint64_t rank) { return (number / Cells::kCells + rank) % 2; }
    /// Copies the part of the output that comes from this rank.
    void copy_own(std::uint64_t bytes) {
        if (case_.operation == "allgather" || case_.operation == "alltoall") {
            const std::uint64_t offset = case_.operation == "alltoall" ? rank() * bytes : 0;
            std::memcpy(bytes_of(output_) + rank() * bytes, bytes_of(input_) + offset, bytes);
        }
    }
    void use(const std::byte* chunk, std::uint64_t done, std::uint64_t size, std::uint64_t bytes) {
        const auto* values = reinterpret_cast<const float*>(chunk);
        const std::uint64_t begin = done / sizeof(float);
        const std::uint64_t count = size / sizeof(float);
        if (case_.operation == "allreduce") {
            add(input_.data() + begin, input_.data() + begin, values, count);
        } else if (case_.operation == "reducescatter") {
            add(output_.data() + begin, input_.data() + rank() * part_ + begin, values, count);
        } else {
            std::memcpy(bytes_of(output_) + (1 - rank()) * bytes + done, chunk, size);
        }
    }
    static void add(float* to, const float* one, const float* two, std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            to[i] = one[i] + two[i];
        }
    }

    Cells cells_;
    std::uint64_t next_[2] = {0, 0};  // numbers of the next chunks; an exchange uses the first number
    std::vector<float> input_;
    std::vector<float> output_;
};

class WholeSet final : public Program {
public:
    using Program::Program;
    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        set_case(c);
        memory_ = compare::shared_buffers(place_, kLine + count_ * sizeof(float) + c.counts.size() * sizeof(Header));
        std::vector<float*> inputs;
        for (const std::uint64_t count : c.counts) {
            inputs.push_back(tensors_.emplace_back(count).data());
        }
        return inputs;
    }
    void run() override {
        std::byte* mine = memory_[rank()] + kLine;
        for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
            mine = write(mine, header_of(i));
            std::memcpy(mine, tensors_[i].data(), tensors_[i].size() * sizeof(float));
            mine += tensors_[i].size() * sizeof(float);
        }
        ++rounds_;
        ready(rank()).store(rounds_, std::memory_order_release);
        while (ready(1 - rank()).load(std::memory_order_acquire) < rounds_) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        const std::byte* theirs = memory_[1 - rank()] + kLine;
        for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
            const Header expected = header_of(i);
            if (std::memcmp(theirs, &expected, sizeof(expected)) != 0) {
                throw std::runtime_error("the other rank has sent another tensor");
            }
            theirs += sizeof(expected);
            add(tensors_[i], theirs);
            theirs += tensors_[i].size() * sizeof(float);
        }
    }
    [[nodiscard]] std::vector<const float*> outputs() override {
        std::vector<const float*> outputs;
        for (const std::vector<float>& tensor : tensors_) {
            outputs.push_back(tensor.data());
        }
        return outputs;
    }
    void end() override {
        compare::line_up(place_);  // the other rank may still read the shared memory
        ready(rank()).store(0, std::memory_order_relaxed);
        rounds_ = 0;
        tensors_.clear();
        compare::line_up(place_);
    }

private:
    struct Header {
        std::uint32_t number;
        std::uint32_t count;
    };
    [[nodiscard]] Header header_of(std::uint32_t number) const {
        return {number, static_cast<std::uint32_t>(tensors_[number].size())};
    }
    static std::byte* write(std::byte* to, const Header& header) {
        std::memcpy(to, &header, sizeof(header));
        return to + sizeof(header);
    }
    static void add(std::vector<float>& to, const std::byte* from) {
        const auto* values = reinterpret_cast<const float*>(from);
        for (std::size_t i = 0; i < to.size(); ++i) {
            to[i] += values[i];
        }
    }
    /// How many rounds a rank has written. The rank stores it with release, and the other rank loads it with acquire.
    [[nodiscard]] std::atomic<std::uint64_t>& ready(std::uint64_t rank) const {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory_[rank]);  // the shared memory is filled with zeros
    }

    std::vector<std::byte*> memory_;
    std::vector<std::vector<float>> tensors_;
    std::uint64_t rounds_ = 0;
};

/// Copies between the memory of two processes.
using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

bool copies(Copy copy, pid_t process, std::byte* mine, std::byte* theirs, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes;) {
        const iovec here{mine + done, bytes - done};
        const iovec there{theirs + done, bytes - done};
        const ssize_t copied = copy(process, &here, 1, &there, 1, 0);
        if (copied <= 0) {
            return false;
        }
        done += static_cast<std::uint64_t>(copied);
    }
    return true;
}

class SingleCopy final : public Program {
public:
    explicit SingleCopy(const compare::Place& place) : Program(place) {
        // If Yama restricts ptrace, this call allows all processes of this user to read this process's memory. Without
        // Yama the call fails, but it is not needed either.
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }
    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        output_.resize(set_case(c));
        input_.resize(count_);
        for (std::byte* memory : compare::shared_buffers(place_, sizeof(Address))) {
            addresses_.push_back(reinterpret_cast<Address*>(memory));
        }
        *addresses_[rank()] = {getpid(), reinterpret_cast<std::byte*>(input_.data()),
                               reinterpret_cast<std::byte*>(output_.data())};
        return {input_.data()};
    }
    void run() override {
        compare::line_up(place_);
        const Address other = *addresses_[1 - rank()];
        auto* const input = reinterpret_cast<std::byte*>(input_.data());
        auto* const output = reinterpret_cast<std::byte*>(output_.data());
        const std::uint64_t bytes = count_ * sizeof(float);
        const std::uint64_t half = bytes / 2;
        if (case_.operation == "broadcast") {  // the root writes the second half, so that it is not idle
            rank() == 0 ? must_copy(process_vm_writev, other, input + half, other.input + half, bytes - half)
                        : must_copy(process_vm_readv, other, input, other.input, half);
        } else if (case_.operation == "message") {  // there, and back
            if (rank() == 1) {
                must_copy(process_vm_readv, other, output, other.input, bytes);
            }
            compare::line_up(place_);
            if (rank() == 0) {
                must_copy(process_vm_readv, other, output, other.output, bytes);
            }
        } else {
            const bool all = case_.operation == "allgather";
            const std::uint64_t size = all ? bytes : half;
            const std::uint64_t offset = all ? 0 : rank() * half;
            std::memcpy(output + rank() * size, input + offset, size);
            must_copy(process_vm_readv, other, output + (1 - rank()) * size, other.input + offset, size);
        }
        compare::line_up(place_);
    }
    [[nodiscard]] std::vector<const float*> outputs() override {
        return {output_.empty() ? input_.data() : output_.data()};
    }
    void end() override {
        compare::line_up(place_);  // the other rank may still read the address
        addresses_.clear();
        input_ = {};
        output_ = {};
    }

private:
    struct Address {
        pid_t process;
        std::byte* input;
        std::byte* output;
    };
    static void must_copy(Copy copy, const Address& other, std::byte* mine, std::byte* theirs, std::uint64_t bytes) {
        if (!copies(copy, other.process, mine, theirs, bytes)) {
            throw std::runtime_error("the kernel does not copy between two processes here");
        }
    }

    std::vector<Address*> addresses_;  // by rank, in shared memory
    std::vector<float> input_;
    std::vector<float> output_;
};

/// Returns 0 if a process may read the memory of another process of the same user. A process may always read its own
/// children's memory, so the child tries to read the memory of its parent.
int probe() {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    std::byte mine{};
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        std::byte read{};
        _exit(copies(process_vm_readv, parent, &read, &mine, 1) ? 0 : 1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

std::unique_ptr<compare::Peer> program_named(const std::string& name, const compare::Place& place) {
    if (name != "crossing" && name != "hand" && place.size != 2) {
        throw std::runtime_error("the program '" + name + "' is for 2 ranks");
    }
    if (name == "crossing") {
        return std::make_unique<Crossing>(place);
    }
    if (name == "hand") {
        return std::make_unique<ByHand>(place);
    }
    if (name == "cells") {
        return std::make_unique<ThroughCells>(place);
    }
    if (name == "set") {
        return std::make_unique<WholeSet>(place);
    }
    if (name == "single") {
        return std::make_unique<SingleCopy>(place);
    }
    throw std::runtime_error("'" + name + "' is not a program: crossing, hand, cells, set, single");
}

int run(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "crossing";
    if (name == "probe") {
        return probe();
    }
    const compare::Place place = compare::place_from_conductor();
    compare::bind_to_own_core(place);
    const std::unique_ptr<compare::Peer> peer = program_named(name, place);
    compare::run_plan(*peer, place, compare::proportional_bytes());
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return compare::guarded("bound_peer", run, argc, argv); }
