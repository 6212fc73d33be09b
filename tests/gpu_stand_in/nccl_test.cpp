// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdint>

#include "tests/gpu_stand_in/fixture.hpp"
#include "tests/support/gpu_stand_in/nccl/arithmetic.hpp"

using namespace rueda::tests::gpu;

namespace {

/// Each rank's value is the rank plus 1.
template <typename T>
void check_reductions(NcclType type) {
    constexpr int kRanks = 3;
    reset(static_cast<std::uint64_t>(type), kRanks);
    const NcclUniqueId id = make_id();
    CHECK(run_ranks_on_devices(kRanks, [&](int rank) {
              const NcclCommunicator communicator = connect(id, kRanks, rank);
              const CudaStream stream = make_stream();
              const auto reduce = [&](NcclReduction reduction) {
                  const DeviceAddress values = upload(std::vector<T>(5, static_cast<T>(rank + 1)), stream);
                  MUST(nccl().all_reduce(pointer(values), pointer(values), 5, type, reduction, communicator, stream) ==
                       kNcclSuccess);
                  return download<T>(values, 5, stream);
              };
              MUST(reduce(kNcclSum) == std::vector<T>(5, 6));
              MUST(reduce(kNcclProduct) == std::vector<T>(5, 6));
              MUST(reduce(kNcclMax) == std::vector<T>(5, 3));
              MUST(reduce(kNcclMin) == std::vector<T>(5, 1));
              MUST(std::abs(static_cast<double>(reduce(kNcclAverage)[4]) - 2) < 1e-6);
              T factor = 2;
              NcclReduction scaled = 0;
              MUST(nccl().create_premultiplied_sum(&scaled, &factor, type, kNcclScalarHostImmediate, communicator) ==
                   kNcclSuccess);
              MUST(scaled > kNcclAverage);
              factor = 50;  // NCCL read the factor during the call, so this change has no effect
              MUST(reduce(scaled) == std::vector<T>(5, 12));
              MUST(nccl().destroy_reduction(scaled, communicator) == kNcclSuccess);
              MUST(nccl().destroy(communicator) == kNcclSuccess);
          }) == "");
    CHECK(violations().empty());
    CHECK(live_communicators() == 0);
}

}  // namespace

TEST_CASE("Reductions of all types", "[unit]") {
    check_reductions<std::int8_t>(kNcclInt8);
    check_reductions<std::uint8_t>(kNcclUint8);
    check_reductions<std::int32_t>(kNcclInt32);
    check_reductions<std::uint32_t>(kNcclUint32);
    check_reductions<std::int64_t>(kNcclInt64);
    check_reductions<std::uint64_t>(kNcclUint64);
    check_reductions<float>(kNcclFloat32);
    check_reductions<double>(kNcclFloat64);
}

TEST_CASE("Small floats are converted and rounded to even", "[unit]") {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const bool is_nan = (half & 0x7C00U) == 0x7C00U && (half & 0x3FFU) != 0;
        if (!is_nan && to_half(from_half(half)) != half) {
            FAIL("float16 " << bits);
        }
    }
    CHECK(to_half(1.0F + 0x1p-11F) == 0x3C00);  // halfway, to even
    CHECK(to_half(1.0F + 0x1p-11F + 0x1p-20F) == 0x3C01);
    CHECK(to_half(1.0F + 3 * 0x1p-11F) == 0x3C02);
    CHECK(to_half(65519.0F) == 0x7BFF);
    CHECK(to_half(65520.0F) == 0x7C00);
    CHECK(to_half(0x1p-25F) == 0);
    CHECK(to_half(0x1p-24F) == 1);
    CHECK(to_half(-0.0F) == 0x8000);
    CHECK(std::isnan(from_half(to_half(NAN))));
    CHECK(to_bfloat16(1.0F + 0x1p-8F) == 0x3F80);  // halfway, to even
    CHECK(to_bfloat16(1.0F + 3 * 0x1p-8F) == 0x3F82);
    CHECK(std::isnan(from_bfloat16(to_bfloat16(NAN))));
}

TEST_CASE("Sums of float16 and bfloat16 are rounded at every addition", "[unit]") {
    // In float16, 2048 + 1 is 2048. So the result shows the order of the additions: (2048 + 1) + 1 is 2048, but 2048 +
    // (1 + 1) is 2050.
    for (const NcclType type : {kNcclFloat16, kNcclBfloat16}) {
        const float big = type == kNcclFloat16 ? 2048.0F : 256.0F;
        const auto encode = type == kNcclFloat16 ? to_half : to_bfloat16;
        reset(1, 3);
        const NcclUniqueId id = make_id();
        CHECK(run_ranks_on_devices(3, [&](int rank) {
                  const NcclCommunicator communicator = connect(id, 3, rank);
                  const CudaStream stream = make_stream();
                  const std::vector<std::uint16_t> mine{encode(rank == 0 ? big : 1.0F), encode(1.0F)};
                  const DeviceAddress values = upload(mine, stream);
                  MUST(nccl().all_reduce(pointer(values), pointer(values), 2, type, kNcclSum, communicator, stream) ==
                       kNcclSuccess);
                  MUST(download<std::uint16_t>(values, 2, stream) ==
                       std::vector<std::uint16_t>{encode(big), encode(3.0F)});
                  MUST(nccl().destroy(communicator) == kNcclSuccess);
              }) == "");
        CHECK(violations().empty());
    }
}

TEST_CASE("All operations, in one group and one by one", "[unit]") {
    constexpr int kRanks = 4;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        reset(seed, kRanks);
        const NcclUniqueId id = make_id();
        const bool grouped = seed % 2 == 0;
        CHECK(run_ranks_on_devices(kRanks, [&](int rank) {
                  const NcclCommunicator communicator = connect(id, kRanks, rank);
                  const CudaStream stream = make_stream();
                  const auto mine = static_cast<int>(10 * (rank + 1));
                  const DeviceAddress copy = upload(std::vector<int>{mine}, stream);
                  const DeviceAddress sum = upload(std::vector<int>{mine}, stream);
                  const DeviceAddress gathered = upload(std::vector<int>(kRanks, -1), stream);
                  const DeviceAddress parts = upload(std::vector<int>{mine, mine + 1, mine + 2, mine + 3}, stream);
                  const DeviceAddress part = upload(std::vector<int>{-1}, stream);
                  const DeviceAddress outgoing = upload(std::vector<int>{rank, rank, rank, rank}, stream);
                  const DeviceAddress incoming = upload(std::vector<int>(kRanks, -1), stream);
                  if (grouped) {
                      MUST(nccl().group_start() == kNcclSuccess);
                  }
                  MUST(nccl().broadcast(pointer(copy), pointer(copy), 1, kNcclInt32, 2, communicator, stream) == 0);
                  MUST(nccl().reduce(pointer(sum), pointer(sum), 1, kNcclInt32, kNcclSum, 1, communicator, stream) ==
                       0);
                  MUST(nccl().all_gather(pointer(parts), pointer(gathered), 1, kNcclInt32, communicator, stream) == 0);
                  MUST(nccl().reduce_scatter(pointer(parts), pointer(part), 1, kNcclInt32, kNcclSum, communicator,
                                             stream) == 0);
                  // An alltoall. Its sends and receives must be in one group. Otherwise, they would wait for each
                  // other.
                  MUST(nccl().group_start() == kNcclSuccess);
                  for (int peer = 0; peer < kRanks; ++peer) {
                      const auto offset = static_cast<std::size_t>(peer) * sizeof(int);
                      MUST(nccl().send(pointer(outgoing + offset), 1, kNcclInt32, peer, communicator, stream) == 0);
                      MUST(nccl().receive(pointer(incoming + offset), 1, kNcclInt32, peer, communicator, stream) == 0);
                  }
                  MUST(nccl().group_end() == kNcclSuccess);
                  if (grouped) {
                      MUST(nccl().group_end() == kNcclSuccess);
                  }
                  MUST(download<int>(copy, 1, stream) == std::vector<int>{30});
                  MUST(download<int>(sum, 1, stream) == std::vector<int>{rank == 1 ? 100 : mine});
                  MUST(download<int>(gathered, kRanks, stream) == std::vector<int>{10, 20, 30, 40});
                  MUST(download<int>(part, 1, stream) == std::vector<int>{100 + kRanks * rank});
                  MUST(download<int>(incoming, kRanks, stream) == std::vector<int>{0, 1, 2, 3});
                  MUST(nccl().destroy(communicator) == kNcclSuccess);
              }) == "");
        CHECK(violations().empty());
    }
}

TEST_CASE("Many operations in a row", "[unit]") {
    reset(2, 2);
    set_delays(std::chrono::microseconds(0));
    const NcclUniqueId id = make_id();
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect(id, 2, rank);
              const CudaStream stream = make_stream();
              const DeviceAddress values = upload(std::vector<float>{1}, stream);
              for (int i = 0; i < 100; ++i) {
                  all_reduce(values, 1, communicator, stream);
              }
              MUST(download<float>(values, 1, stream)[0] == std::ldexp(1.0F, 100));
              MUST(nccl().destroy(communicator) == kNcclSuccess);
          }) == "");
    CHECK(nccl_operations().size() == 200);
    CHECK(nccl_operations()[0] == "ncclAllReduce 1 float32 sum");
}

TEST_CASE("An operation of NCCL reads its input before the event that orders it", "[unit]") {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        for (const bool with_wait : {true, false}) {
            reset(seed, 2);
            const NcclUniqueId id = make_id();
            CHECK(run_ranks_on_devices(2, [&](int rank) {
                      const NcclCommunicator communicator = connect(id, 2, rank);
                      const CudaStream compute = make_stream();
                      const CudaStream stream = make_stream();
                      const CudaEvent event = make_event();
                      const DeviceAddress values = upload(std::vector<float>{1, 2}, compute);
                      record(event, compute);
                      if (with_wait) {
                          wait_for(stream, event);
                      }
                      all_reduce(values, 2, communicator, stream);
                      synchronize(stream);
                      settle();
                      MUST(nccl().destroy(communicator) == kNcclSuccess);
                  }) == "");
            CHECK(violations().empty() == with_wait);
            CHECK(has_violation("ncclAllReduce 2 float32 sum") != with_wait);
        }
    }
}

TEST_CASE("A group over two streams waits for both, and both wait for it", "[unit]") {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        reset(seed, 2);
        const NcclUniqueId id = make_id();
        CHECK(run_ranks_on_devices(2, [&](int rank) {
                  const NcclCommunicator communicator = connect(id, 2, rank);
                  const CudaStream first = make_stream();
                  const CudaStream second = make_stream();
                  const DeviceAddress a = upload(std::vector<float>{1}, first);
                  const DeviceAddress b = upload(std::vector<float>{2}, second);
                  MUST(nccl().group_start() == kNcclSuccess);
                  all_reduce(a, 1, communicator, first);
                  all_reduce(b, 1, communicator, second);
                  MUST(nccl().group_end() == kNcclSuccess);
                  MUST(download<float>(a, 1, second)[0] == 2);  // the other stream waits, too
                  MUST(download<float>(b, 1, first)[0] == 4);
                  MUST(nccl().destroy(communicator) == kNcclSuccess);
              }) == "");
        CHECK(violations().empty());
    }
}

TEST_CASE("One thread drives two devices in one group", "[unit]") {
    reset(3, 2);
    const NcclUniqueId id = make_id();
    std::vector<NcclCommunicator> communicators(2);
    MUST(nccl().group_start() == kNcclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
        const OnDevice device(rank);
        communicators[static_cast<std::size_t>(rank)] = connect(id, 2, rank);
    }
    MUST(nccl().group_end() == kNcclSuccess);
    std::vector<CudaStream> streams;
    std::vector<DeviceAddress> values;
    const OnDevice first(0);
    streams.push_back(make_stream());
    values.push_back(upload(std::vector<float>{1}, streams[0]));
    const OnDevice second(1);
    streams.push_back(make_stream());
    values.push_back(upload(std::vector<float>{5}, streams[1]));
    MUST(nccl().group_start() == kNcclSuccess);
    all_reduce(values[0], 1, communicators[0], streams[0]);
    all_reduce(values[1], 1, communicators[1], streams[1]);
    MUST(nccl().group_end() == kNcclSuccess);
    CHECK(download<float>(values[0], 1, streams[0])[0] == 6);
    CHECK(download<float>(values[1], 1, streams[1])[0] == 6);
    CHECK(nccl().destroy(communicators[0]) == kNcclSuccess);
    CHECK(nccl().destroy(communicators[1]) == kNcclSuccess);
    CHECK(violations().empty());
}

TEST_CASE("Wrong arguments are refused, and the communicator still works", "[unit]") {
    reset(3, 1);
    const OnDevice device(0);
    const NcclCommunicator communicator = connect(make_id(), 1, 0);
    const CudaStream stream = make_stream();
    const DeviceAddress values = upload(std::vector<float>{1}, stream);
    CHECK(nccl().all_reduce(pointer(values), pointer(values), 1, 99, kNcclSum, communicator, stream) ==
          kNcclInvalidArgument);
    CHECK(nccl().broadcast(pointer(values), pointer(values), 1, kNcclFloat32, 1, communicator, stream) ==
          kNcclInvalidArgument);
    CHECK(violations().empty());
    CHECK(nccl().all_reduce(pointer(values), pointer(values), 1, kNcclFloat32, 9, communicator, stream) ==
          kNcclInvalidArgument);
    CHECK(has_violation("the reduction was destroyed"));
    clear_violations();
    all_reduce(values, 1, communicator, stream);
    CHECK(download<float>(values, 1, stream)[0] == 1);
    CHECK(nccl().group_end() == kNcclInvalidUsage);
    CHECK(std::string(nccl().get_error_string(kNcclRemoteError)) ==
          "remote process exited or there was a network error");
    CHECK(nccl().destroy(communicator) == kNcclSuccess);
    CHECK(nccl().destroy(communicator) == kNcclInvalidArgument);
    CHECK(has_violation("the communicator does not exist"));
}
