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

/// Rueda's blocking calls, in place if the operation allows it. A call identifies its tensor by a slot (a number) or by
/// its name.
class RuedaCandidate final : public Candidate {
public:
    RuedaCandidate(const Job& job, Memory memory, bool by_name) : job_(job), memory_(memory), by_name_(by_name) {}

    [[nodiscard]] std::string name() const override {
        return std::string("rueda ") + (memory_ == Memory::resident ? "resident" : "staged") +
               (by_name_ ? ", by name" : "");
    }
    /// Calls by name are measured only for small tensors. For large tensors, the look-up of the name takes a negligible
    /// part of the time.
    [[nodiscard]] bool can(const Case& c) const override {
        return c.is_even(job_.size) && (!by_name_ || (c.bytes <= 4096 && c.operation != Operation::message));
    }
    void begin(const Case& c) override {
        case_ = c;
        buffer_.emplace(memory_, c.bytes);
        if (c.has_output()) {
            output_.emplace(memory_, c.output_count(job_.size) * size_of(c.dtype));
        }
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
                rueda::allgather_into(tensor_name, tensor, output_tensor());
                return;
            case Operation::reducescatter:
                rueda::reducescatter(tensor_name, tensor, output_tensor(), {.op = ReduceOp::sum});
                return;
            case Operation::alltoall:
                rueda::alltoall_into(tensor_name, tensor, output_tensor());
                return;
            case Operation::message:
                if (begins(job_)) {
                    rueda::send(tensor, partner_of(job_));
                    rueda::receive(output_tensor(), partner_of(job_));
                } else {
                    rueda::receive(output_tensor(), partner_of(job_));
                    rueda::send(output_tensor(), partner_of(job_));
                }
                return;
        }
    }
    [[nodiscard]] const std::byte* output() override { return (output_ ? *output_ : *buffer_).data(); }
    void end() override {
        output_.reset();
        slot_.reset();
        buffer_.reset();
    }

private:
    [[nodiscard]] TensorView output_tensor() const {
        return {output_->data(), case_.dtype, Shape{static_cast<std::int64_t>(case_.output_count(job_.size))}};
    }

    Job job_;
    Memory memory_;
    bool by_name_;
    Case case_;
    std::string text_;
    std::optional<Buffer> buffer_;
    std::optional<TensorSlot> slot_;
    std::optional<Buffer> output_;  // has no value if the output is in the input's memory
};

}  // namespace

std::vector<std::unique_ptr<Candidate>> make_candidates(const Job& job) {
    std::vector<std::unique_ptr<Candidate>> candidates;
    add_mpi_candidates(candidates, job);
    candidates.push_back(std::make_unique<RuedaCandidate>(job, Memory::staged, false));
    candidates.push_back(std::make_unique<RuedaCandidate>(job, Memory::staged, true));
    candidates.push_back(std::make_unique<RuedaCandidate>(job, Memory::resident, false));
    return candidates;
}

}  // namespace rueda::bench
