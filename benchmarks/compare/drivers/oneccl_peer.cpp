// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures oneCCL. Intel MPI's mpiexec starts the ranks, and oneCCL calls this MPI itself. The operations of a set are
// all started, and then awaited. With the argument `--version`, the program only prints oneCCL's version.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <oneapi/ccl.hpp>
#include <stdexcept>
#include <thread>

#include "harness.hpp"

namespace {

const char* required(const char* variable) {
    const char* value = std::getenv(variable);
    if (value == nullptr) {
        throw std::runtime_error(std::string(variable) + " is not set: start this program by benchmarks/compare");
    }
    return value;
}

/// Rank 0 writes the address of its key-value store to a file, from which the other ranks read it.
ccl::communicator connected(const compare::Place& place) {
    const std::string path = required("COMPARE_RENDEZVOUS");
    ccl::shared_ptr_class<ccl::kvs> store;
    if (place.rank == 0) {
        store = ccl::create_main_kvs();
        const ccl::kvs::address_type address = store->get_address();
        std::ofstream(path + ".new", std::ios::binary)
            .write(address.data(), static_cast<std::streamsize>(address.size()));
        std::filesystem::rename(path + ".new", path);
    } else {
        while (!std::filesystem::exists(path)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        ccl::kvs::address_type address;
        std::ifstream(path, std::ios::binary).read(address.data(), static_cast<std::streamsize>(address.size()));
        store = ccl::create_kvs(address);
    }
    return ccl::create_communicator(place.size, place.rank, store);
}

class OneCclPeer final : public compare::Peer {
public:
    explicit OneCclPeer(const compare::Place& place)
        : size_(static_cast<std::uint64_t>(place.size)), communicator_(connected(place)) {}

    [[nodiscard]] std::vector<float*> begin(const compare::Case& c) override {
        case_ = c;
        std::vector<float*> pointers;
        for (const std::uint64_t count : case_.counts) {
            inputs_.emplace_back(count);
            pointers.push_back(inputs_.back().data());
        }
        const std::uint64_t count = case_.counts.front();
        output_.resize(case_.operation == "allgather"       ? count * size_
                       : case_.operation == "alltoall"      ? count
                       : case_.operation == "reducescatter" ? count / size_
                                                            : 0);
        return pointers;
    }
    void run() override {
        if (case_.operation != "allreduce") {
            return start_one().wait();
        }
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            compare::compute_before(case_, i);
            std::vector<float>& tensor = inputs_[i];
            events_.push_back(
                ccl::allreduce(tensor.data(), tensor.data(), tensor.size(), kType, ccl::reduction::sum, communicator_));
        }
        for (ccl::event& event : events_) {
            event.wait();
        }
        events_.clear();
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
    }

private:
    static constexpr ccl::datatype kType = ccl::datatype::float32;

    [[nodiscard]] ccl::event start_one() {
        float* in = inputs_.front().data();
        const std::uint64_t count = case_.counts.front();
        if (case_.operation == "broadcast") {
            return ccl::broadcast(in, count, kType, 0, communicator_);
        }
        if (case_.operation == "allgather") {
            return ccl::allgather(in, output_.data(), count, kType, communicator_);
        }
        if (case_.operation == "reducescatter") {
            return ccl::reduce_scatter(in, output_.data(), count / size_, kType, ccl::reduction::sum, communicator_);
        }
        return ccl::alltoall(in, output_.data(), count / size_, kType, communicator_);
    }

    std::uint64_t size_;
    ccl::communicator communicator_;
    compare::Case case_;
    std::vector<std::vector<float>> inputs_;
    std::vector<float> output_;
    std::vector<ccl::event> events_;
};

int run(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
        std::printf("%d.%d.%d\n", CCL_MAJOR_VERSION, CCL_MINOR_VERSION, CCL_UPDATE_VERSION);
        return 0;
    }
    const std::uint64_t before = compare::proportional_bytes();
    ccl::init();
    const compare::Place place{std::atoi(required("PMI_RANK")), std::atoi(required("PMI_SIZE"))};
    OneCclPeer peer(place);
    compare::run_plan(peer, place, before);
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return compare::guarded("oneccl_peer", run, argc, argv); }
