// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests what happens to the last samples of an epoch if they do not fill a batch.
#include <algorithm>
#include <numeric>
#include <optional>

#include "rueda/data/vocabulary.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;

/// Returns options for sources in memory. The source number i has lengths[i] lines. Each line has a number and its
/// square.
PipelineOptions squares(const std::vector<int>& lengths, std::int64_t batch, Remainder remainder) {
    PipelineOptions options{
        .sources = {}, .format = Csv{.columns = {{"n", DType::int64}, {"square"}}, .header = false}, .batch = batch};
    int next = 0;
    for (const int length : lengths) {
        std::string lines;
        for (int i = 0; i < length; ++i, ++next) {
            lines += std::to_string(next) + "," + std::to_string(next * next) + "\n";
        }
        options.sources.push_back(memory("part " + std::to_string(next), lines).front());
    }
    options.remainder = remainder;
    options.epochs = 1;
    options.threads = 1;
    return options;
}

std::vector<Batch> take_all(const PipelineOptions& options) {
    Pipeline pipeline(options);
    std::vector<Batch> batches;
    for (Batch batch; pipeline.next(batch); batch = Batch()) {
        batches.push_back(std::move(batch));
    }
    return batches;
}

/// Returns the sum of the squares over the rows that count. With Remainder::pad, adds all rows, each multiplied by its
/// weight.
double weighted_sum(const Batch& batch, Remainder remainder) {
    const auto values = batch.values<float>("square");
    if (remainder != Remainder::pad) {
        return std::accumulate(values.begin(), values.end(), 0.0);
    }
    const auto weights = batch.values<float>("weight");
    REQUIRE(weights.size() == values.size());
    return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0);
}

/// Computes the mean over the samples of one step from the means of the ranks, as docs/data.md describes. A rank whose
/// epoch has ended has no batch.
double average_of_ranks(const std::vector<std::optional<Batch>>& ranks, Remainder remainder) {
    std::int64_t total = 0;
    for (const auto& batch : ranks) {
        total += batch ? batch->counted() : 0;
    }
    double average = 0;
    for (const auto& batch : ranks) {
        if (batch && batch->counted() > 0) {
            const auto counted = static_cast<double>(batch->counted());
            const double mean = weighted_sum(*batch, remainder) / counted;
            const double weight = counted * static_cast<double>(ranks.size()) / static_cast<double>(total);
            average += weight * mean / static_cast<double>(ranks.size());
        }
    }
    return average;
}

TEST_CASE("The weighted average over ranks with uneven batches is the mean of one process", "[unit]") {
    const auto remainder = GENERATE(Remainder::keep, Remainder::pad);
    const std::int64_t lanes = GENERATE(1, 2, 3);
    auto options = squares({11, 5, 7}, 9, remainder);
    options.lanes = lanes;
    auto one = options;
    one.remainder = Remainder::keep;
    const std::vector<Batch> serial = take_all(one);
    for (int size = 1; size <= 5; ++size) {
        std::vector<std::vector<Batch>> ranks;
        for (int rank = 0; rank < size; ++rank) {
            options.rank = rank;
            options.size = size;
            ranks.push_back(take_all(options));
        }
        for (std::size_t step = 0; step < serial.size(); ++step) {
            std::vector<std::optional<Batch>> batches(ranks.size());
            for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
                if (step < ranks[rank].size()) {
                    batches[rank] = std::move(ranks[rank][step]);
                }
            }
            const double expected =
                weighted_sum(serial[step], Remainder::keep) / static_cast<double>(serial[step].rows());
            CHECK(average_of_ranks(batches, remainder) == Approx(expected).epsilon(1e-12));
        }
    }
}

TEST_CASE("With padding, all batches of a rank have the same number of rows", "[unit]") {
    auto options = squares({4, 3}, 5, Remainder::pad);
    options.size = 2;
    for (int rank = 0; rank < 2; ++rank) {
        options.rank = rank;
        const auto batches = take_all(options);
        REQUIRE(batches.size() == 2);
        const std::int64_t rows = rank == 0 ? 2 : 3;  // of 5
        CHECK(batches[0].rows() == rows);
        CHECK(batches[0].counted() == rows);
        CHECK(batches[1].rows() == rows);
        CHECK(batches[1].counted() == (rank == 0 ? 0 : 2));  // the last batch has two samples
    }
    const auto of_rank_1 = take_all(options);
    const Batch& last = of_rank_1[1];
    CHECK(values<std::int64_t>(last, "n") == std::vector<std::int64_t>{5, 6, 0});
    CHECK(values<float>(last, "weight") == std::vector<float>{1, 1, 0});
    options = squares({4, 3}, 5, Remainder::pad);
    Pipeline pipeline(options);
    Batch batch;
    while (pipeline.next(batch)) {
    }
    CHECK(pipeline.statistics().records == 7);  // padding does not count
}

TEST_CASE("Padding of ragged columns and texts is empty, and map functions do not see it", "[unit]") {
    PipelineOptions options{.sources = memory("lines", "1 3:0.5 7:2\n"), .format = Libsvm{}, .batch = 3};
    options.remainder = Remainder::pad;
    options.weights = "counts";
    options.epochs = 1;
    std::int64_t seen = 0;
    options.maps = {[&](Batch& batch) {
        seen = batch.rows();
        Column& twice = batch.add_column("twice", DType::float64, 2);
        twice.data.resize(2 * sizeof(double));
        std::ranges::fill(twice.values<double>(), 9.0);
        // wrong on purpose: the number of values is not the number of rows
        batch.add_column("loss", DType::float32).data.resize(20);
    }};
    options.threads = 1;
    const auto ragged = take_all(options);
    REQUIRE(ragged.size() == 1);
    CHECK(seen == 1);
    CHECK(offsets(ragged[0], "index") == std::vector<std::int64_t>{0, 2, 2, 2});
    CHECK(values<float>(ragged[0], "value") == std::vector<float>{0.5, 2});
    CHECK(values<float>(ragged[0], "label") == std::vector<float>{1, 0, 0});
    CHECK(values<float>(ragged[0], "counts") == std::vector<float>{1, 0, 0});
    CHECK(values<double>(ragged[0], "twice") == std::vector<double>{9, 9, 0, 0, 0, 0});
    CHECK(ragged[0].column("loss").data.size() == 20);

    ExampleBuilder example;
    const std::vector<std::string> pair = {"a", "bc"};
    options.sources = memory("records", tfrecord_bytes({example.add("pair", pair).finish()}));
    options.format = Examples{{{"pair", DType::uint8, 2}}};
    options.maps = {};
    const auto texts = take_all(options);
    REQUIRE(texts.size() == 1);
    CHECK(offsets(texts[0], "pair") == std::vector<std::int64_t>{0, 1, 3, 3, 3, 3, 3});
    CHECK(texts[0].column("pair").text(5).empty());
}

TEST_CASE("Padding takes the place of malformed records", "[unit]") {
    PipelineOptions options{.sources = memory("lines", "1\nbad\n3\n4\n"),
                            .format = Csv{.columns = {{"n", DType::int64}}, .header = false},
                            .batch = 2};
    options.remainder = Remainder::pad;
    options.malformed_limit = 1;
    options.epochs = 1;
    const auto batches = take_all(options);
    REQUIRE(batches.size() == 2);
    CHECK(values<std::int64_t>(batches[0], "n") == std::vector<std::int64_t>{1, 0});
    CHECK(batches[0].counted() == 1);
    CHECK(batches[1].counted() == 2);
}

TEST_CASE("The column of weights is added after the map functions", "[unit]") {
    auto options = squares({5}, 3, Remainder::pad);
    // The map function removes the first row of each batch. It does not know that there will be a column of weights.
    options.maps = {[](Batch& batch) {
        for (Column& column : batch.columns()) {
            const std::size_t bytes = column.data.size() / static_cast<std::size_t>(batch.rows());
            std::copy(column.data.data() + bytes, column.data.data() + column.data.size(), column.data.data());
            column.data.resize(column.data.size() - bytes);
        }
        batch.set_rows(batch.rows() - 1);
    }};
    const auto batches = take_all(options);
    REQUIRE(batches.size() == 2);
    CHECK(values<std::int64_t>(batches[0], "n") == std::vector<std::int64_t>{1, 2, 0});
    CHECK(values<float>(batches[0], "weight") == std::vector<float>{1, 1, 0});
    CHECK(values<float>(batches[1], "weight") == std::vector<float>{1, 0, 0});
    options.maps = {[](Batch& batch) { batch.add_column("weight", DType::float32).data.resize(4); }};
    CHECK_THAT(message_of([&] { take_all(options); }),
               Contains("a map function added the column 'weight', which is also the name of the column of weights"));
}

TEST_CASE("A growing vocabulary counts no padding", "[unit]") {
    const auto dtype = GENERATE(DType::uint8, DType::int64);
    PipelineOptions options{.sources = memory("lines", "5\n6\n7\n7\n"),
                            .format = Csv{.columns = {{"a", dtype}}, .header = false},
                            .batch = 3};
    options.remainder = Remainder::pad;
    options.epochs = 1;
    Vocabulary vocabulary(std::vector<std::string>{"5"}, {.most_terms = 9, .grows = true});
    std::vector<std::int64_t> ids;
    for (Batch& batch : take_all(options)) {
        vocabulary.look_up_and_count(batch.column("a"), batch.counted());
        const auto more = values<std::int64_t>(batch, "a");
        ids.insert(ids.end(), more.begin(), more.end());
    }
    CHECK(ids == std::vector<std::int64_t>{0, 9, 9, 9, 0, 0});  // id 0 is "5", and also padding
    CHECK(vocabulary.merge(vocabulary.unmerged()) == 2);
    CHECK(vocabulary.term(1) == "7");
    CHECK(vocabulary.term(2) == "6");
    Column column;
    CHECK_THAT(message_of([&] { vocabulary.look_up_and_count(column, -1); }), Contains("-1 rows are to be counted"));
    column.dtype = DType::int64;
    column.width = 0;
    column.data.resize(8);
    column.values<std::int64_t>()[0] = 6;
    // rows that pad a ragged column have no values, so this value belongs to a sample
    vocabulary.look_up_and_count(column, 0);
    CHECK(column.values<std::int64_t>()[0] == 2);
}

TEST_CASE("drop_remainder means the same as before, and contradictions are refused", "[unit]") {
    auto options = squares({4, 3}, 3, Remainder::keep);
    CHECK(take_all(options).size() == 3);
    options.drop_remainder = true;
    CHECK(take_all(options).size() == 2);
    const Position position = Pipeline(options).position();
    options = squares({4, 3}, 3, Remainder::drop);
    CHECK(take_all(options).size() == 2);
    CHECK(Pipeline(options).position() == position);  // both options can use the same checkpoints

    options.remainder = Remainder::pad;
    options.drop_remainder = true;
    CHECK_THAT(message_of([&] { Pipeline{options}; }), Contains("drop_remainder is true, and remainder is pad"));
    options.drop_remainder = false;
    options.weights = "square";
    CHECK_THAT(message_of([&] { Pipeline{options}; }),
               Contains("the column of weights has the name 'square', like a column of the format"));
    options.sources.front().name = "";
    CHECK_THAT(message_of([&] { Pipeline{options}; }), Contains("the name of a source is empty"));
    options = squares({4, 3}, 3, Remainder::pad);
    options.weights = "";
    CHECK_THAT(message_of([&] { Pipeline{options}; }), Contains("weights is empty"));
}

}  // namespace
