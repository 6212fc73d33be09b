// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures an MPI; the file is compiled with each MPI's mpicxx. The argument chooses how a set of tensors is reduced:
// - each: calls MPI_Allreduce for one tensor after another.
// - nonblocking: calls MPI_Iallreduce for each tensor, and waits for all of them at the end.
// - packed: copies the tensors into one buffer, reduces the buffer at the end, and copies the results back.
// In a backward pass, the call or the copy for a tensor follows as soon as the tensor is ready.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>

#include "harness.hpp"

namespace {

void check(int code, const char* call) {
    if (code != MPI_SUCCESS) {
        throw std::runtime_error(std::string(call) + " failed with code " + std::to_string(code));
    }
}

enum class Way { each, nonblocking, packed };

class MpiPeer final : public compare::Peer {
public:
    MpiPeer(Way way, int size) : way_(way), size_(static_cast<std::uint64_t>(size)) {}

    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        case_ = c;
        std::vector<float*> pointers;
        for (const std::uint64_t count : case_.counts) {
            inputs_.emplace_back(count);
            pointers.push_back(inputs_.back().data());
        }
        if (case_.operation == "allgather" || case_.operation == "alltoall" || case_.operation == "reducescatter" ||
            case_.operation == "message") {
            output_.resize(case_.counts.front() * (case_.operation == "allgather" ? size_ : 1));
        }
        if (way_ == Way::packed) {
            packed_.resize(std::accumulate(case_.counts.begin(), case_.counts.end(), std::uint64_t{0}));
        }
        requests_.resize(case_.counts.size());
        return pointers;
    }
    void run() override {
        if (case_.operation != "allreduce") {
            return run_one();
        }
        switch (way_) {
            case Way::each:
                for (std::size_t i = 0; i < inputs_.size(); ++i) {
                    compare::compute_before(case_, i);
                    sum(inputs_[i]);
                }
                return;
            case Way::nonblocking:
                return run_nonblocking();
            case Way::packed:
                return run_packed();
        }
    }
    [[nodiscard]] std::vector<const float*> outputs() override {
        if (!output_.empty()) {
            return {output_.data()};
        }
        std::vector<const float*> pointers;
        for (const std::vector<float>& tensor : inputs_) {
            pointers.push_back(tensor.data());
        }
        return pointers;
    }
    void end() override {
        inputs_ = {};
        output_ = {};
        packed_ = {};
    }

private:
    static void sum(std::vector<float>& tensor) {
        check(MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT, MPI_SUM,
                            MPI_COMM_WORLD),
              "MPI_Allreduce");
    }
    void run_one() {
        float* in = inputs_.front().data();
        const int count = static_cast<int>(case_.counts.front());
        const int part = count / static_cast<int>(size_);
        if (case_.operation == "broadcast") {
            check(MPI_Bcast(in, count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
        } else if (case_.operation == "allgather") {
            check(MPI_Allgather(in, count, MPI_FLOAT, output_.data(), count, MPI_FLOAT, MPI_COMM_WORLD),
                  "MPI_Allgather");
        } else if (case_.operation == "reducescatter") {
            check(MPI_Reduce_scatter_block(in, output_.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                  "MPI_Reduce_scatter_block");
        } else if (case_.operation == "message") {
            run_message(in, count);
        } else {
            check(MPI_Alltoall(in, part, MPI_FLOAT, output_.data(), part, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Alltoall");
        }
    }
    void run_message(const float* in, int count) {
        int rank = 0;
        check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
        const int partner = rank ^ 1;
        if (partner > rank) {
            check(MPI_Send(in, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD), "MPI_Send");
            receive(count, partner);
        } else {
            receive(count, partner);
            check(MPI_Send(output_.data(), count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD), "MPI_Send");
        }
    }
    void receive(int count, int partner) {
        check(MPI_Recv(output_.data(), count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    }
    void run_nonblocking() {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            compare::compute_before(case_, i);
            check(MPI_Iallreduce(MPI_IN_PLACE, inputs_[i].data(), static_cast<int>(inputs_[i].size()), MPI_FLOAT,
                                 MPI_SUM, MPI_COMM_WORLD, &requests_[i]),
                  "MPI_Iallreduce");
        }
        check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    }
    void run_packed() {
        float* to = packed_.data();
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            compare::compute_before(case_, i);
            std::memcpy(to, inputs_[i].data(), inputs_[i].size() * sizeof(float));
            to += inputs_[i].size();
        }
        sum(packed_);
        const float* from = packed_.data();
        for (std::vector<float>& tensor : inputs_) {
            std::memcpy(tensor.data(), from, tensor.size() * sizeof(float));
            from += tensor.size();
        }
    }

    Way way_;
    std::uint64_t size_;
    compare::Case case_;
    std::vector<std::vector<float>> inputs_;
    std::vector<float> output_;
    std::vector<float> packed_;
    std::vector<MPI_Request> requests_;
};

Way way_named(const std::string& name) {
    const std::map<std::string, Way> ways{
        {"each", Way::each}, {"nonblocking", Way::nonblocking}, {"packed", Way::packed}};
    const auto found = ways.find(name);
    if (found == ways.end()) {
        throw std::runtime_error("'" + name + "' is not a way: each, nonblocking, packed");
    }
    return found->second;
}

int run(int argc, char** argv) {
    const Way way = way_named(argc > 1 ? argv[1] : "each");
    const std::uint64_t before = compare::proportional_bytes();
    check(MPI_Init(&argc, &argv), "MPI_Init");
    compare::Place place;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &place.rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &place.size), "MPI_Comm_size");
    MpiPeer peer(way, place.size);
    compare::run_plan(peer, place, before);
    check(MPI_Finalize(), "MPI_Finalize");
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return compare::guarded("mpi_peer", run, argc, argv); }
