// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "base/safetensors/checksum.hpp"
#include "base/safetensors/safetensors.hpp"
#include "rueda/training/checkpoint.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;

std::string with_length(std::string header) {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes + std::move(header);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file with the tensors x (float32, 2 × 3 values in each row) and y (int32). Row i has the numbers from 10 × i on.
std::string numbered_file(int first, int rows) {
    std::vector<float> x;
    std::vector<std::int32_t> y;
    for (int row = first; row < first + rows; ++row) {
        for (int i = 0; i < 6; ++i) {
            x.push_back(static_cast<float>(10 * row + i));
        }
        y.push_back(row);
    }
    const std::string count = std::to_string(rows);
    // The header has an odd length, so the values of x are not aligned.
    std::string header = R"({"x":{"dtype":"F32","shape":[)" + count + R"(,2,3],"data_offsets":[0,)" +
                         std::to_string(24 * rows) + R"(]},"y":{"dtype":"I32","shape":[)" + count +
                         R"(],"data_offsets":[)" + std::to_string(24 * rows) + "," + std::to_string(28 * rows) + "]}}";
    header += header.size() % 2 == 0 ? " " : "";
    return with_length(header) + bytes_of(x) + bytes_of(y);
}

const Safetensors kNumbered{{{"y", DType::int64}, {"x", DType::float32, 6}}};

std::vector<std::int64_t> ids_of_epoch(const PipelineOptions& options) {
    Pipeline pipeline(options);
    Batch batch;
    std::vector<std::int64_t> ids;
    while (pipeline.next(batch)) {
        const auto y = batch.values<std::int64_t>("y");
        const auto x = batch.values<float>("x");
        REQUIRE(x.size() == 6 * y.size());
        for (std::size_t row = 0; row < y.size(); ++row) {
            ids.push_back(y[row]);
            for (std::size_t i = 0; i < 6; ++i) {
                CHECK(x[6 * row + i] == static_cast<float>(10 * y[row]) + static_cast<float>(i));
            }
        }
    }
    return ids;
}

TEST_CASE("The rows of safetensors files become samples, also in a mapped file", "[threads]") {
    const Folder folder;
    write_file(folder.file("a.safetensors"), numbered_file(0, 7));
    write_file(folder.file("b.safetensors"), numbered_file(7, 0));
    write_file(folder.file("c.safetensors"), numbered_file(7, 5000));
    PipelineOptions options{
        .sources = files((folder.path() / "*.safetensors").string()), .format = kNumbered, .batch = 9};
    options.epochs = 1;
    std::vector<std::int64_t> ids = ids_of_epoch(options);
    REQUIRE(ids.size() == 5007);
    CHECK(std::is_sorted(ids.begin(), ids.end()));
    options.shuffle = 1000;
    options.threads = 3;
    ids = ids_of_epoch(options);
    CHECK_FALSE(std::is_sorted(ids.begin(), ids.end()));
    CHECK(std::set<std::int64_t>(ids.begin(), ids.end()).size() == 5007);
}

TEST_CASE("A pipeline of safetensors files goes on in the middle of an epoch with another number of ranks",
          "[threads]") {
    PipelineOptions options{.sources = memory("rows", numbered_file(0, 103)), .format = kNumbered, .batch = 20};
    options.epochs = 1;
    options.shuffle = 40;
    std::vector<std::int64_t> ids;
    Position position;
    Batch batch;
    for (options.rank = 0, options.size = 2; options.rank < 2; ++options.rank) {
        Pipeline pipeline(options);
        for (int step = 0; step < 2; ++step) {
            REQUIRE(pipeline.next(batch));
            const auto y = batch.values<std::int64_t>("y");
            ids.insert(ids.end(), y.begin(), y.end());
        }
        position = pipeline.position();
    }
    options.start = position;
    for (options.rank = 0, options.size = 3; options.rank < 3; ++options.rank) {
        const auto rest = ids_of_epoch(options);
        ids.insert(ids.end(), rest.begin(), rest.end());
    }
    std::sort(ids.begin(), ids.end());
    REQUIRE(ids.size() == 103);
    CHECK((ids.front() == 0 && ids.back() == 102 && std::adjacent_find(ids.begin(), ids.end()) == ids.end()));
}

/// Makes a file whose only tensor is "v", and returns the values that the reader converts it to.
template <class T>
std::vector<T> converted(const std::string& dtype, const std::string& data, std::size_t count, DType to) {
    const std::string header = R"({"v":{"dtype":")" + dtype + R"(","shape":[)" + std::to_string(count) +
                               R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
    return values<T>(parse(with_length(header) + data, Safetensors{{{"v", to}}}), "v");
}

TEST_CASE("Values of narrow types are converted exactly", "[unit]") {
    CHECK(converted<std::int64_t>("I8", bytes_of<std::int8_t>({-128, 127}), 2, DType::int64) ==
          std::vector<std::int64_t>{-128, 127});
    CHECK(converted<std::int64_t>("U8", bytes_of<std::uint8_t>({0, 255}), 2, DType::int64) ==
          std::vector<std::int64_t>{0, 255});
    CHECK(converted<std::int64_t>("I16", bytes_of<std::int16_t>({-32768, 32767}), 2, DType::int64) ==
          std::vector<std::int64_t>{-32768, 32767});
    CHECK(converted<std::int64_t>("U16", bytes_of<std::uint16_t>({65535}), 1, DType::int64) ==
          std::vector<std::int64_t>{65535});
    CHECK(converted<std::int64_t>("U32", bytes_of<std::uint32_t>({4294967295}), 1, DType::int64) ==
          std::vector<std::int64_t>{4294967295});
    CHECK(converted<std::uint8_t>("BOOL", bytes_of<std::uint8_t>({0, 1}), 2, DType::uint8) ==
          std::vector<std::uint8_t>{0, 1});
    CHECK(converted<double>("F64", bytes_of<double>({0.1}), 1, DType::float64) == std::vector<double>{0.1});
    // 1.5, -2, the smallest number, the largest number and infinity of each type
    CHECK(converted<float>("F16", bytes_of<std::uint16_t>({0x3e00, 0xc000, 1, 0x7bff, 0xfc00}), 5, DType::float32) ==
          std::vector<float>{1.5F, -2.0F, std::ldexp(1.0F, -24), 65504.0F, -std::numeric_limits<float>::infinity()});
    CHECK(converted<float>("BF16", bytes_of<std::uint16_t>({0x3fc0, 0xc000, 0x7f80}), 3, DType::float32) ==
          std::vector<float>{1.5F, -2.0F, std::numeric_limits<float>::infinity()});
    CHECK(std::isnan(converted<float>("F16", bytes_of<std::uint16_t>({0x7e00}), 1, DType::float32)[0]));
}

std::string refusal(const std::string& bytes, std::vector<ArrayColumn> tensors) {
    return message_of([&] { parse(bytes, Safetensors{std::move(tensors)}); });
}

TEST_CASE("A safetensors file that does not fit is refused with its name and the reason", "[unit]") {
    const std::string good = numbered_file(0, 4);
    CHECK_THAT(refusal(good, {{"z"}}), Contains("reading 'given bytes': there is no tensor 'z'"));
    CHECK_THAT(refusal(good, {{"x", DType::float32, 5}}), Contains("shape [4, 2, 3]; expected 5 values in each row"));
    CHECK_THAT(refusal(good, {{"x", DType::float64, 6}}), Contains("does not fit its column of dtype float64"));
    CHECK_THAT(refusal(good.substr(0, good.size() - 1), {{"y", DType::int64}}), Contains("truncated or damaged"));
    CHECK_THAT(refusal("", {{"y"}}), Contains("the file has 0 bytes"));
    CHECK_THAT(refusal("no safetensors file", {{"y"}}), Contains("the header's length at offset 0"));
    CHECK_THAT(refusal(good, {}), Contains("Safetensors has no columns"));
    CHECK_THAT(refusal(good, {{"x", DType::float32, 6}, {"x", DType::float32, 6}}), Contains("two times"));
    CHECK_THAT(refusal(good, {{"x", DType::float16, 6}}), Contains("expected float32, float64, int64 or uint8"));
    CHECK_THAT(refusal(good, {{"x", DType::float32, 0}}), Contains("the width 0"));
    const std::string uneven = with_length(
        R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})");
    CHECK_THAT(refusal(uneven + "abc", {{"a", DType::uint8}, {"b", DType::uint8}}), Contains("expected 2 rows"));
    CHECK_THAT(
        message_of([&] {
            Pipeline pipeline(
                {.sources = memory("x.gz", good, FileCompression::gzip), .format = kNumbered, .batch = 1, .epochs = 1});
            Batch batch;
            pipeline.next(batch);
        }),
        Contains("opening 'x.gz': a compressed source cannot be mapped"));
}

TEST_CASE("Tensors that a file does not have as listed are an error, whatever the limit", "[unit]") {
    const std::string good = numbered_file(0, 4);
    const auto refused = [&](std::vector<ArrayColumn> tensors) {
        return message_of([&] { parse(good, Safetensors{std::move(tensors)}, 1000); });
    };
    CHECK_THAT(refused({{"z"}}), Catch::Equals("reading 'given bytes': there is no tensor 'z'; the file has 'x', 'y'; "
                                               "correct the names in Safetensors"));
    CHECK_THAT(refused({{"x", DType::float32, 5}}),
               Contains("has dtype float32 and shape [4, 2, 3]; expected 5 values"));
    CHECK_THAT(refused({{"x", DType::float64, 6}}), Contains("does not fit its column of dtype float64"));
    CHECK(parse("damaged", Safetensors{{{"x"}}}, 1).rows() == 0);  // a damaged file is a malformed record
}

/// A file with the tensor "v" of four float32, and its checksum.
std::string checked_file() {
    std::vector<float> numbers = {1, 2, 3, 4};
    const std::vector<training::NamedTensor> tensors = {{"v", TensorView(std::span(numbers))}};
    auto header = training::lay_out(tensors, {});
    REQUIRE(header.is_ok());
    header.value().has_checksums = true;
    training::Checksum checksum;
    checksum.add(std::as_bytes(std::span(numbers)));
    header.value().tensors[0].checksum = checksum.value();
    return with_length(training::format_header(header.value()).value()) + bytes_of(numbers);
}

TEST_CASE("A flipped bit is found by the checksum, and the file is left out if malformed_limit allows it",
          "[threads]") {
    const Safetensors format{{{"v"}}};
    const std::string good = checked_file();
    CHECK(values<float>(parse(good, format), "v") == std::vector<float>{1, 2, 3, 4});
    std::string damaged = good;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    CHECK_THAT(message_of([&] { parse(damaged, format); }), Contains("reading 'given bytes'") && Contains("checksum"));
    CHECK(parse(damaged, Safetensors{.tensors = {{"v"}}, .check_data = false}).rows() == 4);
    PipelineOptions options{.sources = memory("damaged", damaged), .format = format, .batch = 10};
    options.sources.push_back(memory("good", good).front());
    options.epochs = 1;
    options.malformed_limit = 1;
    Pipeline pipeline(options);
    Batch batch;
    REQUIRE(pipeline.next(batch));
    CHECK(values<float>(batch, "v") == std::vector<float>{1, 2, 3, 4});
    CHECK(pipeline.statistics().malformed == 1);
}

/// Files with the texts "0", "1", ….
std::vector<Source> text_files(const Folder& folder, int count) {
    for (int i = 0; i < count; ++i) {
        write_file(folder.file(("f" + std::to_string(i)).c_str()), std::to_string(i));
    }
    return files((folder.path() / "f*").string());
}

WholeFiles counting_files(std::atomic<int>& calls) {
    return {.columns = {{"number"}, {"pixels", DType::uint8, 3}},
            .decode = [&calls](const FileBytes& file, const SampleRow& row) {
                calls.fetch_add(1, std::memory_order_relaxed);
                const auto* const text = reinterpret_cast<const char*>(file.bytes.data());
                int number = 0;
                if (std::from_chars(text, text + file.bytes.size(), number).ptr != text + file.bytes.size()) {
                    throw std::runtime_error("not a number");
                }
                row.values<float>("number")[0] = static_cast<float>(number);
                std::ranges::fill(row.values<std::uint8_t>("pixels"), static_cast<std::uint8_t>(number));
            }};
}

TEST_CASE("A decode function makes the values of whole files, and a rank reads only its own files", "[threads]") {
    const Folder folder;
    std::atomic<int> calls = 0;
    PipelineOptions options{.sources = text_files(folder, 40), .format = counting_files(calls), .batch = 8};
    options.epochs = 1;
    options.shuffle = 40;
    options.threads = 3;
    options.size = 4;
    std::multiset<float> numbers;
    for (options.rank = 0; options.rank < 4; ++options.rank) {
        Pipeline pipeline(options);
        CHECK(pipeline.warnings().empty());
        Batch batch;
        while (pipeline.next(batch)) {
            const auto number = batch.values<float>("number");
            const auto pixels = batch.values<std::uint8_t>("pixels");
            REQUIRE((batch.rows() == 2 && pixels.size() == 6));
            for (std::size_t i = 0; i < 6; ++i) {
                CHECK(pixels[i] == static_cast<std::uint8_t>(number[i / 3]));
            }
            numbers.insert(number.begin(), number.end());
        }
        CHECK(pipeline.statistics().bytes > 0);
    }
    CHECK(numbers.size() == 40);
    CHECK(std::set<float>(numbers.begin(), numbers.end()).size() == 40);
    CHECK(calls.load(std::memory_order_relaxed) == 40);
}

TEST_CASE("The error of a decode function names the file", "[threads]") {
    const Folder folder;
    std::atomic<int> calls = 0;
    write_file(folder.file("f7-bad"), "seven");
    PipelineOptions options{.sources = text_files(folder, 10), .format = counting_files(calls), .batch = 4};
    options.epochs = 1;
    Batch batch;
    CHECK_THAT(message_of([&] {
                   Pipeline pipeline(options);
                   while (pipeline.next(batch)) {
                   }
               }),
               Contains("f7-bad'") && Contains("the decode function failed: not a number"));
    options.malformed_limit = 1;
    Pipeline pipeline(options);
    std::int64_t rows = 0;
    while (pipeline.next(batch)) {
        rows += batch.rows();
    }
    CHECK(rows == 10);
    CHECK(pipeline.statistics().malformed == 1);
}

TEST_CASE("Without a decode function, a batch has the names and the bytes of files", "[threads]") {
    const Folder folder;
    const std::string large(300000, 'x');  // too long for the buffer's initial size
    write_file(folder.file("f9"), large);
    auto sources = text_files(folder, 2);
    sources.push_back(memory("in memory", "").front());
    PipelineOptions options{.sources = sources, .format = WholeFiles(), .batch = 4};
    options.epochs = 1;
    options.threads = 1;
    Pipeline pipeline(options);
    Batch batch;
    REQUIRE(pipeline.next(batch));
    REQUIRE(batch.rows() == 4);
    CHECK(batch.column("name").text(0) == folder.file("f0").string());
    CHECK(batch.column("name").text(3) == "in memory");
    CHECK((batch.column("bytes").text(0) == "0" && batch.column("bytes").text(1) == "1"));
    CHECK((batch.column("bytes").text(2) == large && batch.column("bytes").text(3).empty()));
    CHECK(pipeline.statistics().bytes == 300002);
}

TEST_CASE("Sources and columns that whole files cannot have are refused", "[threads]") {
    const Folder folder;
    make_fifo(folder.file("stream"));
    Batch batch;
    PipelineOptions options{.sources = fifo(folder.file("stream")), .format = WholeFiles(), .batch = 1, .epochs = 1};
    CHECK_THAT(message_of([&] { Pipeline pipeline(options); }), Contains("WholeFiles reads files in any order"));
    options.sources = text_files(folder, 1);
    options.format = WholeFiles{.columns = {{"x"}}};
    CHECK_THAT(message_of([&] { Pipeline pipeline(options); }), Contains("no decode function that fills it"));
    options.format = WholeFiles{.columns = {}, .decode = [](const FileBytes&, const SampleRow&) {}};
    CHECK_THAT(message_of([&] { Pipeline pipeline(options); }), Contains("WholeFiles has no columns"));
    options.format = WholeFiles();
    std::filesystem::remove(folder.file("f0"));
    options.malformed_limit = 9;  // a file that cannot be read is always an error
    CHECK_THAT(message_of([&] { Pipeline(options).next(batch); }), Contains("f0': open failed"));
}

}  // namespace
