// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/sampler.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "rueda/training/random.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;
using Indices = std::vector<std::int64_t>;

/// Returns a global batch: the batches of all ranks in rank order.
Indices gathered(SamplerOptions options, int size, std::int64_t epoch, std::int64_t batch) {
    Indices all;
    options.size = size;
    for (options.rank = 0; options.rank < size; ++options.rank) {
        Sampler sampler(options);
        sampler.start_epoch(epoch);
        const auto share = sampler.share(batch);
        all.insert(all.end(), share.begin(), share.end());
    }
    return all;
}

// The values come from a Python implementation of the published algorithms. This implementation was checked against the
// published outputs of splitmix64 (seed 1234567) and xoshiro256** (state 1, 2, 3, 4).
TEST_CASE("random numbers are those of xoshiro256** on every platform", "[training]") {
    Random random(1);
    CHECK(random.next() == 0xee127fe613436e33);
    CHECK(random.next() == 0xd6dad8d34a1874ea);
    CHECK(random.next() == 0x2a52c16cec1116a9);
    Random stream(1, 7);
    CHECK(stream.next() == 0x16cd47cafa1617c5);
    CHECK(stream.next() == 0x64c0d3f44a9b8a46);
}

TEST_CASE("bounded random numbers are spread evenly, and fractions stay below one", "[training]") {
    Random random(3);
    std::vector<int> counts(7);
    double sum = 0.0;
    for (int i = 0; i < 70000; ++i) {
        ++counts.at(random.below(7));
        const double fraction = random.uniform();
        REQUIRE((fraction >= 0.0 && fraction < 1.0));
        sum += fraction;
    }
    for (const int count : counts) {
        CHECK(std::abs(count - 10000) < 500);  // 500 is five times the standard deviation (about 93)
    }
    CHECK(sum / 70000 == Approx(0.5).margin(0.006));  // 0.006 is about five times the standard deviation (0.0011)
    CHECK(random.below(1) == 0);
}

TEST_CASE("the permutation of an epoch follows from seed and epoch alone", "[training]") {
    const SamplerOptions options{.samples = 10, .batch = 10, .seed = 5};
    CHECK(gathered(options, 1, 0, 0) == Indices{0, 2, 3, 1, 6, 7, 8, 5, 4, 9});
    CHECK(gathered(options, 1, 3, 0) == Indices{4, 5, 0, 3, 6, 1, 7, 9, 2, 8});
    Sampler sampler(options);
    sampler.start_epoch(1);
    sampler.start_epoch(3);
    CHECK(Indices(sampler.share(0).begin(), sampler.share(0).end()) == Indices{4, 5, 0, 3, 6, 1, 7, 9, 2, 8});
}

TEST_CASE("a global batch is the same at any number of ranks", "[training]") {
    const SamplerOptions options{.samples = 103, .batch = 10, .seed = 9, .empty_shares = EmptyShares::allow};
    for (const std::int64_t batch : {0, 5, 10}) {
        const Indices alone = gathered(options, 1, 2, batch);
        for (const int size : {2, 3, 4, 7, 16}) {
            CHECK(gathered(options, size, 2, batch) == alone);
        }
    }
}

TEST_CASE("an epoch shows every sample once, or drops the remainder", "[training]") {
    SamplerOptions options{.samples = 103, .batch = 10, .seed = 9};
    const Sampler keep(options);
    REQUIRE(keep.batches() == 11);
    Indices seen;
    for (std::int64_t batch = 0; batch < keep.batches(); ++batch) {
        CHECK(keep.batch_size(batch) == (batch < 10 ? 10 : 3));
        CHECK(static_cast<std::int64_t>(keep.share(batch).size()) == keep.batch_size(batch));
        seen.insert(seen.end(), keep.share(batch).begin(), keep.share(batch).end());
    }
    std::sort(seen.begin(), seen.end());
    Indices all(103);
    std::iota(all.begin(), all.end(), 0);
    CHECK(seen == all);
    options.remainder = Remainder::drop;
    CHECK(Sampler(options).batches() == 10);
}

TEST_CASE("ranks get no sample only if the program allows it", "[training]") {
    SamplerOptions options{.samples = 7, .batch = 3, .seed = 1, .rank = 3, .size = 4};
    const auto refusal = [&] { return message_of<InvalidArgument>([&] { Sampler{options}; }); };
    CHECK_THAT(refusal(), Contains("the last batch of 7 samples has 1 for 4 ranks, so 3 would get no sample") &&
                              Contains("Remainder::pad"));
    options.remainder = Remainder::pad;
    CHECK_THAT(refusal(), Contains("a batch of 7 samples has 3 for 4 ranks, so 1 would get no sample"));
    options.remainder = Remainder::keep;
    options.empty_shares = EmptyShares::allow;
    CHECK(Sampler(options).share(0).empty());
    CHECK(Sampler(options).counted(0) == 0);
    CHECK(Sampler(options).average_weight(0) == 0.0);
    CHECK(gathered(options, 4, 0, 2).size() == 1);
}

TEST_CASE("a padded batch is full, and every sample counts once per epoch", "[training]") {
    for (const int size : {1, 2, 3, 4, 7, 10}) {
        for (const std::int64_t samples : {1, 4, 97, 103, 110}) {
            SamplerOptions options{.samples = samples, .batch = 10, .seed = 3, .remainder = Remainder::pad};
            options.size = size;
            CAPTURE(size, samples);
            Indices counted;
            double weights = 0.0;
            const std::int64_t last = Sampler(options).batches() - 1;
            for (options.rank = 0; options.rank < size; ++options.rank) {
                const Sampler sampler(options);
                for (std::int64_t batch = 0; batch <= last; ++batch) {
                    const auto share = sampler.share(batch);
                    REQUIRE(static_cast<std::int64_t>(share.size()) == shard(10, options.rank, size).size());
                    counted.insert(counted.end(), share.begin(), share.begin() + sampler.counted(batch));
                    CHECK(std::all_of(share.begin(), share.end(), [&](auto i) { return i >= 0 && i < samples; }));
                }
                weights += sampler.average_weight(last);
            }
            std::sort(counted.begin(), counted.end());
            Indices all(static_cast<std::size_t>(samples));
            std::iota(all.begin(), all.end(), 0);
            CHECK(counted == all);
            CHECK(weights == Approx(size));
        }
    }
}

TEST_CASE("padding is the beginning of the epoch", "[training]") {
    const SamplerOptions options{.samples = 7, .batch = 5, .seed = 1, .remainder = Remainder::pad};
    const Sampler whole(options);
    REQUIRE(whole.batches() == 2);
    CHECK(whole.batch_size(1) == 2);
    CHECK(whole.counted(1) == 2);
    const auto first = whole.share(0);
    const auto last = whole.share(1);
    REQUIRE(last.size() == 5);
    CHECK(Indices(last.begin() + 2, last.end()) == Indices(first.begin(), first.begin() + 3));
}

TEST_CASE("the weights make an average over ranks the mean over samples", "[training]") {
    for (const Remainder remainder : {Remainder::keep, Remainder::pad}) {
        SamplerOptions options{.samples = 17, .batch = 10, .seed = 2, .remainder = remainder};
        options.size = 4;
        for (const std::int64_t batch : {0, 1}) {
            double average = 0.0;
            double sum = 0.0;
            for (options.rank = 0; options.rank < options.size; ++options.rank) {
                const Sampler sampler(options);
                const auto share = sampler.share(batch).first(static_cast<std::size_t>(sampler.counted(batch)));
                const auto mine = static_cast<double>(std::accumulate(share.begin(), share.end(), std::int64_t{0}));
                average += sampler.average_weight(batch) * mine / static_cast<double>(share.size()) / options.size;
                sum += mine;
            }
            CHECK(average == Approx(sum / (batch == 0 ? 10 : 7)));
        }
    }
}

TEST_CASE("shards differ by at most one, and huge counts do not overflow", "[training]") {
    for (const std::int64_t count : {0, 1, 5, 359}) {
        std::int64_t end = 0;
        for (int rank = 0; rank < 4; ++rank) {
            const Range range = shard(count, rank, 4);
            CHECK(range.begin == end);
            CHECK(std::abs(range.size() - count / 4) <= 1);
            end = range.end;
        }
        CHECK(end == count);
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    CHECK(shard(kMost, 4095, 4096).end == kMost);
    CHECK_THAT(message_of<InvalidArgument>([] { (void)shard(5, 4, 4); }), Contains("rank 4 of 4"));
    CHECK_THAT(message_of<InvalidArgument>([] { (void)shard(-1, 0, 4); }), Contains("-1"));
}

TEST_CASE("the sampler names options out of range", "[training]") {
    CHECK_THAT(message_of<InvalidArgument>([] { Sampler({.samples = 0, .batch = 1}); }), Contains("samples is 0"));
    CHECK_THAT(message_of<InvalidArgument>([] { Sampler({.samples = 1, .batch = 0}); }), Contains("batch is 0"));
    CHECK_THAT(message_of<InvalidArgument>([] { Sampler({.samples = 1, .batch = 1, .rank = 2, .size = 2}); }),
               Contains("rank 2 of 2"));
    CHECK_THAT(message_of<InvalidArgument>([] { Sampler({.samples = 4, .batch = 5, .remainder = Remainder::drop}); }),
               Contains("batch is 5") && Contains("4 samples"));
    const Sampler sampler({.samples = 4, .batch = 2});
    CHECK_THAT(message_of<InvalidArgument>([&] { (void)sampler.share(2); }),
               Contains("batch 2") && Contains("2 batches"));
    CHECK_THAT(message_of<InvalidArgument>([&] { (void)sampler.batch_size(-1); }), Contains("batch -1"));
}

}  // namespace
}  // namespace rueda::training
