// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

TEST_CASE("An allreduce and a broadcast in a group", "[unit]") {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        reset(seed, 3);
        REQUIRE(cuda().init(0) == kCudaSuccess);
        const NcclUniqueId id = make_id();
        run_ranks_on_devices(3, [&](int rank) {
            const NcclCommunicator communicator = connect(id, 3, rank);
            const CudaStream stream = make_stream();
            const DeviceAddress sum = upload(std::vector<float>{1.0F * static_cast<float>(rank), 2.0F}, stream);
            const DeviceAddress copy = upload(std::vector<int>{rank}, stream);
            CHECK(nccl().group_start() == kNcclSuccess);
            CHECK(nccl().all_reduce(pointer(sum), pointer(sum), 2, kNcclFloat32, kNcclSum, communicator, stream) ==
                  kNcclSuccess);
            CHECK(nccl().broadcast(pointer(copy), pointer(copy), 1, kNcclInt32, 2, communicator, stream) ==
                  kNcclSuccess);
            CHECK(nccl().group_end() == kNcclSuccess);
            CHECK(download<float>(sum, 2, stream) == std::vector<float>{3.0F, 6.0F});
            CHECK(download<int>(copy, 1, stream) == std::vector<int>{2});
            CHECK(nccl().destroy(communicator) == kNcclSuccess);
        });
        CHECK(violations().empty());
    }
}
