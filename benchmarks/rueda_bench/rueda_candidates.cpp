// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdlib>
#include <optional>

#include "candidate.hpp"
#include "rueda/rueda.hpp"

namespace rueda::bench {
namespace {

enum class Memory { staged, resident };

class Buffer {
public:
    Buffer(Memory kind, std::uint64_t bytes) : kind_(kind) {
        constexpr std::uint64_t kAlignment = 64;
        const std::uint64_t rounded = (bytes / kAlignment + 1) * kAlignment;
        data_ = static_cast<std::byte*>(kind == Memory::resident ? rueda::allocate(rounded)
                                                                 : std::aligned_alloc(kAlignment, rounded));
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() {
        if (kind_ == Memory::resident) {
            rueda_deallocate(data_);
        } else {
            std::free(data_);
        }
    }
    [[nodiscard]] std::byte* data() const { return data_; }

private:
    Memory kind_;
    std::byte* data_ = nullptr;
};

/// In place where the operation can be; blocking; by a slot or by name.
class RuedaCandidate final : public Candidate {
public:
    RuedaCandidate(Memory memory, bool by_name) : memory_(memory), by_name_(by_name) {}

    [[nodiscard]] std::string name() const override {
        return std::string("rueda ") + (memory_ == Memory::resident ? "resident" : "staged") +
               (by_name_ ? ", by name" : "");
    }
    /// The look-up of the name is a matter of latency.
    [[nodiscard]] bool can(const Case& c) const override { return !by_name_ || c.bytes <= 4096; }
    void begin(const Case& c) override {
        case_ = c;
        buffer_.emplace(memory_, c.bytes);
        text_ = name() + std::to_string(static_cast<int>(c.operation)) + name_of(c.dtype) + std::to_string(c.bytes);
        slot_.emplace(text_);
    }
    [[nodiscard]] std::byte* input() override { return buffer_->data(); }
    void run() override {
        const TensorView tensor(buffer_->data(), case_.dtype, Shape{static_cast<std::int64_t>(case_.count())});
        const TensorName tensor_name = by_name_ ? TensorName(text_) : TensorName(*slot_);
        switch (case_.operation) {
            case Operation::allreduce:
                rueda::allreduce(tensor_name, tensor, {.op = ReduceOp::sum});
                return;
            case Operation::broadcast:
                rueda::broadcast(tensor_name, tensor, 0);
                return;
            case Operation::allgather:
                gathered_ = rueda::allgather(tensor_name, tensor);
                return;
        }
    }
    [[nodiscard]] const std::byte* output() override {
        return case_.operation == Operation::allgather ? static_cast<const std::byte*>(gathered_.output().data())
                                                       : buffer_->data();
    }
    void end() override {
        gathered_ = Handle();
        slot_.reset();
        buffer_.reset();
    }

private:
    Memory memory_;
    bool by_name_;
    Case case_;
    std::string text_;
    std::optional<Buffer> buffer_;
    std::optional<TensorSlot> slot_;
    Handle gathered_;
};

}  // namespace

std::vector<std::unique_ptr<Candidate>> make_candidates(const Job& job) {
    std::vector<std::unique_ptr<Candidate>> candidates;
    add_mpi_candidates(candidates, job);
    candidates.push_back(std::make_unique<RuedaCandidate>(Memory::staged, false));
    candidates.push_back(std::make_unique<RuedaCandidate>(Memory::staged, true));
    candidates.push_back(std::make_unique<RuedaCandidate>(Memory::resident, false));
    return candidates;
}

}  // namespace rueda::bench
