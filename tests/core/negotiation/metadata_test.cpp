// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/metadata.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

/// For each field of the metadata, a function that changes this field.
const std::vector<std::function<void(Metadata&)>> kChanges = {
    [](Metadata& m) { m.operation = 1; },       [](Metadata& m) { m.dtype = 0; },
    [](Metadata& m) { m.reduce_op = 1; },       [](Metadata& m) { m.ndim = 1; },
    [](Metadata& m) { m.shape[1] = 5; },        [](Metadata& m) { m.root = 2; },
    [](Metadata& m) { m.process_set = 3; },     [](Metadata& m) { m.compression = 1; },
    [](Metadata& m) { m.prescale = 0.5; },      [](Metadata& m) { m.postscale = -1; },
    [](Metadata& m) { m.root_is_foreign = 1; }, [](Metadata& m) { m.device = 1; },
};

TEST_CASE("ranks agree when every field is the same, and else do not") {
    const Metadata base = allreduce_of({3, 4});
    CHECK(agree(base, base));
    std::set<std::uint64_t> signatures = {signature_of(base)};
    for (const auto& change : kChanges) {
        Metadata changed = base;
        change(changed);
        CHECK_FALSE(agree(base, changed));
        CHECK_FALSE(agree(changed, base));
        signatures.insert(signature_of(changed));
    }
    CHECK(signatures.size() == kChanges.size() + 1);
}

TEST_CASE("extents behind the last dimension mean nothing, and a NaN agrees with itself") {
    Metadata a = allreduce_of({3, 4});
    Metadata b = a;
    b.shape[2] = 99;
    CHECK(agree(a, b));
    CHECK(signature_of(a) == signature_of(b));
    a.prescale = b.prescale = std::numeric_limits<double>::quiet_NaN();
    CHECK(agree(a, b));
    b.prescale = 0.0;
    a.prescale = -0.0;
    CHECK_FALSE(agree(a, b));  // floating-point fields are compared bit by bit
}

TEST_CASE("a tensor on a GPU and one in the CPU's memory do not agree, and share no batch") {
    std::vector<Metadata> by_rank(3, allreduce_of({3, 4}));
    by_rank[1].device = static_cast<std::uint8_t>(DeviceType::cuda);
    CHECK(mismatch_of("layer1.weight", by_rank).message() ==
          "tensor 'layer1.weight': the ranks disagree about the device: ranks 0, 2: the CPU; rank 1: a GPU");
    CHECK(fusion_of(by_rank[0]) == Fusion::allreduces);
    CHECK(fusion_of(by_rank[1]) == Fusion::device_allreduces);
    Metadata broadcast = by_rank[1];
    broadcast.operation = static_cast<std::uint8_t>(collectives::Operation::broadcast);
    CHECK(fusion_of(broadcast) == Fusion::alone);
}

TEST_CASE("numbers of rows of tensors on a GPU do not agree with tensors of the CPU") {
    Metadata cpu = allreduce_of({Metadata::kAnyExtent, 3});
    cpu.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
    Metadata rows = cpu;
    rows.dtype = static_cast<std::uint8_t>(DType::int64);
    rows.device = kRowsOfDevice;
    CHECK(is_plausible(rows));
    CHECK_FALSE(agree(cpu, rows));
    CHECK(mismatch_of("table", std::vector{rows, cpu}).message() ==
          "tensor 'table': the ranks disagree about the device: rank 0: a GPU; rank 1: the CPU");
    const std::string message = mismatch_of_unnamed(1, {{rows, {0}}, {cpu, {1}}}).message();
    CHECK(message.starts_with(
        "the 1st unnamed operation of this process set: the ranks disagree about the device: rank 0: allgather of a "
        "tensor on a GPU; rank 1: allgather float32 [any, 3];"));
}

TEST_CASE("a mismatch of two calls on GPUs does not name the dtype of the exchange of rows") {
    Metadata direct = allreduce_of({Metadata::kAnyExtent, 3});
    direct.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
    direct.device = static_cast<std::uint8_t>(DeviceType::cuda);
    Metadata rows = direct;
    rows.dtype = static_cast<std::uint8_t>(DType::int64);
    rows.device = kRowsOfDevice;
    CHECK(
        mismatch_of("table", std::vector{rows, direct}).message() ==
        "tensor 'table': the ranks disagree about who allocates the output: rank 0: rueda.torch, after an exchange of "
        "the numbers of rows; rank 1: the caller");
    // The third rank's tensor is on the CPU. The error names only the device, because the device is compared first.
    Metadata cpu = direct;
    cpu.device = 0;
    CHECK(mismatch_of("table", std::vector{rows, direct, cpu}).message() ==
          "tensor 'table': the ranks disagree about the device: ranks 0, 1: a GPU; rank 2: the CPU");
}

TEST_CASE("bytes of a tensor") {
    CHECK(bytes_of(allreduce_of({3, 4})) == 48);
    CHECK(bytes_of(allreduce_of({3, 4}, DType::int64)) == 96);
    CHECK(bytes_of(allreduce_of({}, DType::bfloat16)) == 2);
    CHECK(bytes_of(allreduce_of({3, 0, 4})) == 0);
    // The number of rows is unknown. Therefore the result is the size of one row.
    CHECK(bytes_of(allreduce_of({Metadata::kAnyExtent, 5})) == 20);
}

TEST_CASE("bytes that no working rank writes are recognized") {
    CHECK(is_plausible(allreduce_of({3, 4})));
    CHECK(is_plausible(allreduce_of({Metadata::kAnyExtent, 4})));
    const std::vector<std::function<void(Metadata&)>> broken = {
        [](Metadata& m) { m.operation = 255; },
        [](Metadata& m) { m.dtype = kDTypeCount; },
        [](Metadata& m) { m.reduce_op = 6; },
        [](Metadata& m) { m.ndim = RUEDA_MAX_DIMENSIONS + 1; },
        [](Metadata& m) { m.shape[0] = -2; },
        [](Metadata& m) { m.shape[1] = -1; },
        [](Metadata& m) { m.compression = 3; },
        [](Metadata& m) { m.device = 3; },
        // kRowsOfDevice marks an exchange of numbers of rows, and an allreduce is no such exchange
        [](Metadata& m) { m.device = kRowsOfDevice; },
        [](Metadata& m) {
            m.operation = 7;
            m.ndim = 0;
        },
    };
    for (const auto& breaks : broken) {
        Metadata metadata = allreduce_of({3, 4});
        breaks(metadata);
        CHECK_FALSE(is_plausible(metadata));
    }
}

TEST_CASE("a mismatch names the tensor, the difference, and the value of each rank") {
    std::vector<Metadata> by_rank(4, allreduce_of({3, 4}));
    by_rank[3] = allreduce_of({3, 5});
    const Status status = mismatch_of("layer1.weight", by_rank);
    CHECK(status.code() == ErrorCode::mismatch);
    CHECK(status.message() ==
          "tensor 'layer1.weight': the ranks disagree about the shape: ranks 0-2: [3, 4]; rank 3: [3, 5]");
}

TEST_CASE("a mismatch of unnamed operations gives the number of the call and all metadata of each rank") {
    Metadata broadcast = allreduce_of({7});
    broadcast.operation = static_cast<std::uint8_t>(collectives::Operation::broadcast);
    broadcast.root = 1;
    Metadata scaled = allreduce_of({3, 4});
    scaled.reduce_op = static_cast<std::uint8_t>(ReduceOp::sum);
    scaled.prescale = 0.5;
    scaled.compression = static_cast<std::uint16_t>(Compression::bf16);
    const std::string advice =
        "; operations without a name match by the order of the calls: if a rank has made one call more or less than "
        "the others, names or RUEDA_CALL_SITES=1 show which call";
    CHECK(mismatch_of_unnamed(17, {{allreduce_of({3, 4}), {2, 0}}, {broadcast, {1}}}).message() ==
          "the 17th unnamed operation of this process set: the ranks disagree about the operation: ranks 0, 2: "
          "allreduce float32 [3, 4], average; rank 1: broadcast float32 [7], root rank 1" +
              advice);
    const std::vector<std::int32_t> job_ranks{3, 5, 8};
    const Status status = mismatch_of_unnamed(1, {{broadcast, {0}}, {scaled, {1, 2}}}, job_ranks);
    CHECK(status.code() == ErrorCode::mismatch);
    CHECK(status.message() ==
          "the 1st unnamed operation of this process set: the ranks disagree about the operation: rank 3: broadcast "
          "float32 [7], root rank 5; ranks 5, 8: allreduce float32 [3, 4], sum, prescale factor 0.5, compression bf16" +
              advice);
}

TEST_CASE("calls are counted as people do") {
    const auto which = [](std::uint64_t call) {
        const std::string text = describe_unnamed(call);
        return text.substr(4, text.find(' ', 4) - 4);
    };
    const std::vector<std::uint64_t> calls{1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 101, 111, 1013, 1022, 1'000'003};
    std::string counted;
    for (const std::uint64_t call : calls) {
        counted += which(call) + " ";
    }
    CHECK(counted == "1st 2nd 3rd 4th 10th 11th 12th 13th 20th 21st 22nd 101st 111th 1013th 1022nd 1000003rd ");
}

TEST_CASE("an error about several differences names the first cause, and the value of the lowest rank first") {
    const auto text = [](const std::function<void(Metadata&)>& change) {
        std::vector<Metadata> by_rank(3, allreduce_of({3, 4}));
        change(by_rank[0]);
        return mismatch_of("t", by_rank).message();
    };
    const std::string head = "tensor 't': the ranks disagree about ";
    CHECK(text([](Metadata& m) {
              m.operation = 1;
              m.ndim = 0;
          }) == head + "the operation: rank 0: broadcast; ranks 1, 2: allreduce");
    CHECK(text([](Metadata& m) { m.dtype = 3; }) == head + "the dtype: rank 0: int64; ranks 1, 2: float32");
    CHECK(text([](Metadata& m) { m.ndim = 0; }) == head + "the shape: rank 0: []; ranks 1, 2: [3, 4]");
    CHECK(text([](Metadata& m) { m.shape[0] = Metadata::kAnyExtent; }) ==
          head + "the shape: rank 0: [any, 4]; ranks 1, 2: [3, 4]");
    CHECK(text([](Metadata& m) { m.reduce_op = 1; }) ==
          head + "the reduce operation: rank 0: sum; ranks 1, 2: average");
    CHECK(text([](Metadata& m) { m.root = 2; }) == head + "the root rank: rank 0: 2; ranks 1, 2: 0");
    CHECK(text([](Metadata& m) { m.prescale = 0.5; }) == head + "the prescale factor: rank 0: 0.5; ranks 1, 2: 1");
    CHECK(text([](Metadata& m) { m.postscale = 0.25; }) == head + "the postscale factor: rank 0: 0.25; ranks 1, 2: 1");
    CHECK(text([](Metadata& m) { m.process_set = 2; }) == head + "the process set: rank 0: 2; ranks 1, 2: 0");
    CHECK(text([](Metadata& m) { m.compression = 2; }) == head + "the compression: rank 0: bf16; ranks 1, 2: none");
}

}  // namespace
}  // namespace rueda::core::test
