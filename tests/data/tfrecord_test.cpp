// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <cstring>

#include "data/crc32c.hpp"
#include "data/formats/wire.hpp"
#include "rueda/training/random.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;
using training::Random;

std::vector<std::string> texts(const Batch& batch, std::string_view column) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i + 1 < batch.column(column).offsets().size(); ++i) {
        all.emplace_back(batch.column(column).text(i));
    }
    return all;
}

/// Encodes a field of a message.
std::string field(std::uint64_t number, const std::string& content) {
    std::string bytes;
    wire::append_field(bytes, number, content);
    return bytes;
}

std::string varint(std::uint64_t value) {
    std::string bytes;
    wire::append_varint(bytes, value);
    return bytes;
}

std::string float_bytes(float value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

/// An Example with one feature; `feature` is the message tf.train.Feature.
std::string example(const std::string& key, const std::string& feature) {
    return field(1, field(1, field(1, key) + field(2, feature)));
}

Batch parse_example(const std::string& bytes, std::vector<Feature> features) {
    return parse(tfrecord_bytes({bytes}), Examples{std::move(features)});
}

std::string refusal(const std::string& bytes, std::vector<Feature> features) {
    return message_of([&] { parse_example(bytes, std::move(features)); });
}

TEST_CASE("A TFRecord file has exactly the bytes of the format", "[unit]") {
    const std::string bytes = tfrecord_bytes({"123456789"});
    REQUIRE(bytes.size() == 12 + 9 + 4);
    CHECK(bytes.substr(0, 8) == std::string("\x09\0\0\0\0\0\0\0", 8));
    std::uint32_t data_crc = 0;
    std::memcpy(&data_crc, bytes.data() + 21, 4);
    CHECK(data_crc == 0xc78ab0e5);  // from TensorFlow
}

TEST_CASE("Records of any length are read, in a file that is longer than a chunk", "[unit]") {
    Random random(3);
    std::vector<std::string> records = {"", "a", std::string(3'000'000, 'b'), ""};
    for (int i = 0; i < 900; ++i) {
        records.emplace_back(random.below(9000), static_cast<char>('a' + i % 26));
    }
    const Batch batch = parse(tfrecord_bytes(records), Tfrecords{});
    CHECK(texts(batch, "record") == records);
}

TEST_CASE("A damaged TFRecord file is an error that names file, record, offset and remedy", "[unit]") {
    const std::string bytes = tfrecord_bytes({"first", "second"});
    const auto refused = [](const std::string& given) { return message_of([&] { parse(given, Tfrecords{}); }); };
    std::string data = bytes;
    data[21 + 12] = 'S';
    CHECK_THAT(refused(data),
               Contains("reading 'given bytes', record 1 at offset 21: damaged data: the masked CRC of its 6 "
                        "bytes is") &&
                   Contains("to leave such records out, set malformed_limit"));
    std::string length = bytes;
    length[21] = 7;
    CHECK_THAT(refused(length), Contains("reading 'given bytes' after 1 records: damaged length at offset 21"));
    for (std::size_t size = 22; size < bytes.size(); ++size) {
        CHECK_THAT(refused(bytes.substr(0, size)),
                   Contains("the file ends inside of the record that begins at offset 21: " +
                            std::to_string(size - 21) + " bytes of it are there"));
    }
    // a header with the length 2^60, which gets a correct CRC below
    std::string huge("\0\0\0\0\0\0\0\x10\0\0\0\0", 12);
    const std::uint32_t huge_crc = masked(crc32c(huge.data(), 8));
    std::memcpy(huge.data() + 8, &huge_crc, sizeof huge_crc);
    CHECK_THAT(refused(bytes + huge), Contains("the record at offset " + std::to_string(bytes.size()) +
                                               " has 1152921504606846976 bytes, expected at most 2147483647"));
    CHECK_THAT(refused("\x1f\x8b\x08 0123456789"), Contains("begins like gzip data: set FileCompression::gzip"));
    CHECK_THAT(refused("\x28\xb5\x2f\xfd 0123456789"), Contains("begins like zstd data: set FileCompression::zstd"));
    CHECK(refused("") == "no error");
}

TEST_CASE("A file that is no TFRecord file is an error, whatever the limit", "[unit]") {
    const auto refused = [](const std::string& given) { return message_of([&] { parse(given, Tfrecords{}, 1000); }); };
    CHECK_THAT(refused("label,x,y\n1,2,3\n"),
               Contains("reading 'given bytes' after 0 records: the file begins with the text 'label,x,y', which is no "
                        "TFRecord: is this file of another format, for example CSV or LibSVM?"));
    CHECK_THAT(refused("\xef\xbb\xbf"
                       "1 2:3\n"),
               Contains("begins with the text '1 2:3'"));
    CHECK_THAT(refused("\x1f\x8b\x08 0123456789"), Contains("begins like gzip data"));
    // The following bytes may be from a damaged or cut TFRecord file. Such a file is a malformed record.
    CHECK(refused("A") == "no error");
    CHECK(refused(std::string("\x1f\x8b\0\0\0\0\0\0", 8)) == "no error");
    CHECK(refused(std::string(20, '\xff')) == "no error");
    CHECK_THAT(message_of([&] { parse(std::string(20, '\xff'), Tfrecords{}); }), Contains("is not a TFRecord file"));
}

TEST_CASE("Malformed records are left out up to a limit, and the rest of a file counts as one", "[unit]") {
    std::string bytes = tfrecord_bytes({"one", "two", "three", "four"});
    bytes[12] = 'O';       // damages the data of the first record
    bytes[19 + 19] = 'x';  // damages the length of the third record
    const Batch batch = parse(bytes, Tfrecords{}, 2);
    CHECK(texts(batch, "record") == std::vector<std::string>{"two"});
    CHECK_THAT(message_of([&] { parse(bytes, Tfrecords{}, 1); }),
               Contains("malformed_limit allows 1 malformed records in each epoch, and there are 2 now"));
    CHECK(texts(parse(bytes.substr(0, 38), Tfrecords{.check_data = false}), "record") ==
          std::vector<std::string>{"One", "two"});
}

TEST_CASE("Features of each type and length are read as they were built", "[unit]") {
    const std::vector<float> floats = {1.5F, -2.25F};
    const std::vector<std::int64_t> integers = {
        0, 1, 127, 128, 300, -1, std::int64_t{1} << 62, -(std::int64_t{1} << 62)};
    const std::vector<std::string> words = {"hello", ""};
    ExampleBuilder builder;
    std::vector<std::string> records;
    for (int i = 0; i < 3; ++i) {
        builder.add("f", floats).add("i", integers).add("w", words).add("one", static_cast<float>(i));
        builder.add("many", std::span(integers).first(static_cast<std::size_t>(i)))
            .add("not asked for", std::int64_t{5});
        builder.add("text", std::span(words).first(i == 1 ? 1 : 0));
        records.push_back(builder.finish());
    }
    const Batch batch = parse(tfrecord_bytes(records), Examples{{{"i", DType::int64, 8},
                                                                 {"one"},
                                                                 {"f", DType::float32, 2},
                                                                 {"w", DType::uint8, 2},
                                                                 {"many", DType::int64, 0},
                                                                 {"text", DType::uint8, 0}}});
    CHECK(batch.rows() == 3);
    CHECK(values<float>(batch, "f") == std::vector<float>{1.5F, -2.25F, 1.5F, -2.25F, 1.5F, -2.25F});
    CHECK(values<float>(batch, "one") == std::vector<float>{0, 1, 2});
    std::vector<std::int64_t> thrice;
    for (int i = 0; i < 3; ++i) {
        thrice.insert(thrice.end(), integers.begin(), integers.end());
    }
    CHECK(values<std::int64_t>(batch, "i") == thrice);
    CHECK(texts(batch, "w") == std::vector<std::string>{"hello", "", "hello", "", "hello", ""});
    CHECK(values<std::int64_t>(batch, "many") == std::vector<std::int64_t>{0, 0, 1});
    CHECK(offsets(batch, "many") == std::vector<std::int64_t>{0, 0, 1, 3});
    CHECK(texts(batch, "text") == std::vector<std::string>{"", "hello", ""});
    CHECK(reinterpret_cast<std::uintptr_t>(batch.column("f").data.data()) % 64 == 0);
}

TEST_CASE("Lists may be packed, not packed, or both", "[unit]") {
    const std::string floats = std::string("\x0d") + float_bytes(1) + field(1, float_bytes(2) + float_bytes(3)) +
                               std::string("\x0d") + float_bytes(4);
    CHECK(values<float>(parse_example(example("x", field(2, floats)), {{"x", DType::float32, 4}}), "x") ==
          std::vector<float>{1, 2, 3, 4});
    const std::string integers = "\x08" + varint(5) + field(1, varint(600) + varint(7)) + "\x08" + varint(800);
    CHECK(values<std::int64_t>(parse_example(example("x", field(3, integers)), {{"x", DType::int64, 4}}), "x") ==
          std::vector<std::int64_t>{5, 600, 7, 800});
    CHECK(values<std::int64_t>(parse_example(example("x", field(3, integers)), {{"x", DType::int64, 0}}), "x") ==
          std::vector<std::int64_t>{5, 600, 7, 800});
}

TEST_CASE("Varints of every length are read", "[unit]") {
    for (unsigned bit = 0; bit < 64; ++bit) {
        for (const std::uint64_t value :
             {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) - 1, ~(std::uint64_t{1} << bit)}) {
            const std::string list = field(1, varint(value) + varint(bit));
            const Batch batch = parse_example(example("x", field(3, list)), {{"x", DType::int64, 2}});
            CHECK(values<std::int64_t>(batch, "x") ==
                  std::vector<std::int64_t>{static_cast<std::int64_t>(value), static_cast<std::int64_t>(bit)});
        }
    }
}

TEST_CASE("Keys may have any order and repeat, and unknown fields are skipped", "[unit]") {
    const auto feature = [](float value) { return field(2, field(1, float_bytes(value))); };
    // a map entry in which the value stands before the key
    const std::string reversed = field(2, feature(1)) + field(1, "a");
    const std::string unknown = field(9, "new") + "\x50\x05" + std::string("\x59") + std::string(8, 'x');
    const std::string bytes = unknown + field(1, field(1, reversed) + field(1, field(1, "b") + field(2, feature(2))) +
                                                     field(1, field(1, "a") + field(2, feature(3)) + unknown));
    const Batch batch = parse_example(bytes, {{"a"}, {"b"}});
    CHECK(values<float>(batch, "a") == std::vector<float>{3});
    CHECK(values<float>(batch, "b") == std::vector<float>{2});
    // If a key occurs twice, its last occurrence counts. This holds even if the Feature of the last occurrence is
    // empty, so that the feature counts as missing.
    const std::string emptied = field(1, field(1, field(1, "a") + field(2, feature(1))) + field(1, field(1, "a")));
    CHECK_THAT(refusal(emptied, {{"a"}}), Contains("feature 'a' is missing"));
    CHECK(values<float>(parse_example(emptied, {{"a", DType::float32, 1, 8}}), "a") == std::vector<float>{8});
}

TEST_CASE("A feature that is missing, too long or of another type is an error that names it", "[unit]") {
    ExampleBuilder builder;
    const std::array<float, 3> three = {1, 2, 3};
    const std::string bytes = builder.add("x", three).finish();
    CHECK_THAT(refusal(bytes, {{"y"}}),
               Contains("record 0 at offset 0: feature 'y' is missing") && Contains("Feature::missing"));
    CHECK_THAT(refusal(bytes, {{"x", DType::float32, 2}}), Contains("feature 'x' has 3 values, expected 2"));
    CHECK_THAT(refusal(bytes, {{"x", DType::float32, 4}}), Contains("feature 'x' has 3 values, expected 4"));
    CHECK_THAT(refusal(bytes, {{"x", DType::int64, 3}}),
               Contains("feature 'x' has a float_list, expected an int64_list"));
    CHECK_THAT(refusal(bytes, {{"x", DType::float64, 3}}), Contains("feature 'x' has dtype float64"));
    CHECK_THAT(refusal(bytes, {{"x", DType::float32, -1}}), Contains("feature 'x' has length -1"));
    CHECK_THAT(refusal(bytes, {{"y", DType::uint8}}), Contains("feature 'y' is missing") && Contains("set length = 0"));
    CHECK_THAT(refusal(bytes, {{"x", DType::int64, 3, 0.5}}), Contains("expected an integer of at most 2^53"));
    CHECK_THAT(refusal(bytes, {{"x"}, {"x"}}), Contains("the feature 'x' is listed twice"));
    CHECK_THAT(refusal("not protobuf", {{"x"}}), Contains("is not a serialized tf.train.Example"));
}

TEST_CASE("An Example that is cut or changed at any byte is read or refused, and nothing worse", "[unit]") {
    ExampleBuilder builder;
    const std::array<std::int64_t, 5> integers = {1, 200, 70000, -1, 1LL << 40};
    const std::array<float, 2> floats = {1, 2};
    const std::array<std::string, 2> words = {"ab", "c"};
    const std::string bytes = builder.add("i", integers).add("f", floats).add("w", words).finish();
    const std::vector<Feature> fixed = {{"i", DType::int64, 5}, {"f", DType::float32, 2}, {"w", DType::uint8, 2}};
    const std::vector<Feature> ragged = {{"i", DType::int64, 0}, {"f", DType::float32, 0}, {"w", DType::uint8, 2}};
    std::vector<std::string> records;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        records.push_back(bytes.substr(0, i));
        for (unsigned bit = 0; bit < 8; ++bit) {
            records.push_back(bytes);
            records.back()[i] = static_cast<char>(static_cast<unsigned char>(records.back()[i]) ^ (1U << bit));
        }
    }
    for (const auto& features : {fixed, ragged}) {
        const Batch batch = parse(tfrecord_bytes(records), Examples{features}, 1000000);
        CHECK(batch.rows() > 0);
        CHECK(batch.rows() < static_cast<std::int64_t>(records.size()));
        CHECK(batch.column("w").offsets().size() == static_cast<std::size_t>(batch.rows()) * 2 + 1);
    }
}

TEST_CASE("A TFRecord file cannot be written with zstd or to a folder that does not exist", "[unit]") {
    const Folder folder;
    CHECK_THAT(message_of([&] { TfrecordWriter(folder.file("x.zst")); }), Contains("TensorFlow could not read them"));
    CHECK_THAT(message_of([&] { TfrecordWriter(folder.file("no/x")); }), Contains("fopen failed: No such file"));
    TfrecordWriter full("/dev/full");
    CHECK_THAT(message_of([&] {
                   full.write(std::string(100000, 'x'));
                   full.close();
               }),
               Contains("writing '/dev/full'") && Contains("No space left on device"));
}

}  // namespace
