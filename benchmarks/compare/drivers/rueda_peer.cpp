// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures Rueda with tensors in private memory (`staged`) or in the arena (`resident`). A single tensor is reduced by
// a blocking call that identifies it by a slot (a number). The tensors of a set are submitted by name, as a trainer
// does, and then awaited.
#include <memory>
#include <optional>
#include <stdexcept>

#include "harness.hpp"
#include "rueda/rueda.hpp"

namespace {

enum class Memory { staged, resident };

struct Release {
    Memory memory;
    void operator()(float* data) const {
        if (memory == Memory::resident) {
            rueda_deallocate(data);
        } else {
            std::free(data);
        }
    }
};
using Buffer = std::unique_ptr<float, Release>;

Buffer allocate(Memory memory, std::uint64_t count) {
    constexpr std::uint64_t kAlignment = 64;
    const std::uint64_t bytes = (count * sizeof(float) / kAlignment + 1) * kAlignment;
    void* data = memory == Memory::resident ? rueda::allocate(bytes) : std::aligned_alloc(kAlignment, bytes);
    return {static_cast<float*>(data), Release{memory}};
}

class RuedaPeer final : public compare::Peer {
public:
    explicit RuedaPeer(Memory memory) : memory_(memory) {}

    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        case_ = c;
        std::vector<float*> pointers;
        for (const std::uint64_t count : c.counts) {
            buffers_.push_back(allocate(memory_, count));
            pointers.push_back(buffers_.back().get());
            views_.emplace_back(pointers.back(), rueda::DType::float32, rueda::Shape{static_cast<std::int64_t>(count)});
            names_.push_back(c.label + "." + std::to_string(names_.size()));
        }
        slot_ = std::make_unique<rueda::TensorSlot>(names_.front());
        const auto ranks = static_cast<std::uint64_t>(rueda::size());
        const std::uint64_t output_count = case_.operation == "allgather"       ? c.counts.front() * ranks
                                           : case_.operation == "reducescatter" ? c.counts.front() / ranks
                                           : case_.operation == "alltoall"      ? c.counts.front()
                                           : case_.operation == "message"       ? c.counts.front()
                                                                                : 0;
        if (output_count > 0) {
            output_ = allocate(memory_, output_count);
            output_view_.emplace(output_.get(), rueda::DType::float32,
                                 rueda::Shape{static_cast<std::int64_t>(output_count)});
        }
        handles_.reserve(names_.size());
        return pointers;
    }
    void run() override {
        if (views_.size() > 1) {
            run_set();
        } else if (case_.operation == "allreduce") {
            rueda::allreduce(*slot_, views_.front(), {.op = rueda::ReduceOp::sum});
        } else if (case_.operation == "broadcast") {
            rueda::broadcast(*slot_, views_.front(), 0);
        } else if (case_.operation == "allgather") {
            rueda::allgather_into(*slot_, views_.front(), *output_view_);
        } else if (case_.operation == "reducescatter") {
            rueda::reducescatter(*slot_, views_.front(), *output_view_, {.op = rueda::ReduceOp::sum});
        } else if (case_.operation == "alltoall") {
            rueda::alltoall_into(*slot_, views_.front(), *output_view_);
        } else if (case_.operation == "message") {
            run_message();
        } else {
            throw std::runtime_error("Rueda has no " + case_.operation + " here");
        }
    }
    [[nodiscard]] std::vector<const float*> outputs() override {
        if (output_view_) {
            return {output_.get()};
        }
        std::vector<const float*> pointers;
        for (const Buffer& buffer : buffers_) {
            pointers.push_back(buffer.get());
        }
        return pointers;
    }
    void end() override {
        output_view_.reset();
        output_.reset();
        slot_.reset();
        views_.clear();
        names_.clear();
        buffers_.clear();
    }

private:
    void run_message() {
        const int partner = rueda::rank() ^ 1;
        if (partner > rueda::rank()) {
            rueda::send(views_.front(), partner);
            rueda::receive(*output_view_, partner);
        } else {
            rueda::receive(*output_view_, partner);
            rueda::send(*output_view_, partner);
        }
    }
    void run_set() {
        for (std::size_t i = 0; i < views_.size(); ++i) {
            compare::compute_before(case_, i);
            handles_.push_back(rueda::allreduce_async(names_[i], views_[i], {.op = rueda::ReduceOp::sum}));
        }
        for (const rueda::Handle& handle : handles_) {
            handle.wait();
        }
        handles_.clear();
    }

    Memory memory_;
    compare::Case case_;
    std::vector<Buffer> buffers_;
    std::vector<rueda::TensorView> views_;
    std::vector<std::string> names_;
    std::unique_ptr<rueda::TensorSlot> slot_;
    std::vector<rueda::Handle> handles_;
    Buffer output_;  // receives the result if the operation does not run in place
    std::optional<rueda::TensorView> output_view_;
};

int run(int argc, char** argv) {
    const std::string memory = argc > 1 ? argv[1] : "staged";
    if (memory != "staged" && memory != "resident") {
        throw std::runtime_error("'" + memory + "' is not where tensors can lie: staged, resident");
    }
    const std::uint64_t before = compare::proportional_bytes();
    rueda::init();
    {
        RuedaPeer peer(memory == "resident" ? Memory::resident : Memory::staged);
        compare::run_plan(peer, {rueda::rank(), rueda::size()}, before);
    }
    rueda::shutdown();
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return compare::guarded("rueda_peer", run, argc, argv); }
