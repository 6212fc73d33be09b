// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>

#include "data/formats/splitter.hpp"
#include "rueda/training/random.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;

std::vector<std::string> column_texts(const Batch& batch, std::string_view column) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.rows()); ++i) {
        all.emplace_back(batch.column(column).text(i));
    }
    return all;
}

std::string refusal(const std::string& bytes, const Format& format) {
    return message_of([&] { parse(bytes, format); });
}

/// Splits the bytes, which arrive in pieces of `piece` bytes.
std::vector<std::string> split_in_pieces(const std::string& bytes, std::size_t piece, bool quotes) {
    const auto splitter = make_line_splitter(quotes, "");
    std::vector<std::string> found;
    std::size_t begin = 0;
    for (std::size_t end = 0; begin < bytes.size();) {
        end = std::min(end + piece, bytes.size());
        std::vector<Record> records;
        const bool at_end = end == bytes.size();
        const auto used = splitter->split(std::string_view(bytes).substr(begin, end - begin), begin, at_end, records);
        REQUIRE(used.is_ok());
        for (const Record& record : records) {
            CHECK(bytes.substr(record.offset, record.size) == record.text());
            found.emplace_back(record.text());
        }
        begin += used.value();
        REQUIRE((!at_end || begin == bytes.size()));
    }
    return found;
}

TEST_CASE("Lines end with a newline, with or without a carriage return, or with the file", "[unit]") {
    const Batch batch = parse("\xef\xbb\xbfone\ntwo\r\n\n\r\nthree", Lines{});
    CHECK(column_texts(batch, "line") == std::vector<std::string>{"one", "two", "three"});
}

TEST_CASE("Rows are the same in whatever pieces the bytes arrive", "[unit]") {
    training::Random random(4);
    for (int round = 0; round < 300; ++round) {
        std::string bytes;
        for (std::uint64_t i = random.below(60); i > 0; --i) {
            bytes += "a,\"\n\r"[random.below(5)];
        }
        bytes += std::count(bytes.begin(), bytes.end(), '"') % 2 == 0 ? "" : "\"";
        CAPTURE(bytes);
        const auto whole = split_in_pieces(bytes, bytes.size() + 1, true);
        for (const std::size_t piece : {1U, 2U, 3U, 7U}) {
            CHECK(split_in_pieces(bytes, piece, true) == whole);
        }
    }
}

TEST_CASE("LibSVM lines become labels and ragged columns", "[unit]") {
    const Batch batch = parse("1 1:0.5 7:-2e1 3:4 # a comment\n-1\n+1\tqid:3 0:1 0:2  \r\n", Libsvm{});
    CHECK(values<float>(batch, "label") == std::vector<float>{1, -1, 1});
    CHECK(values<std::int64_t>(batch, "index") == std::vector<std::int64_t>{1, 7, 3, 0, 0});
    CHECK(values<float>(batch, "value") == std::vector<float>{0.5F, -20, 4, 1, 2});
    CHECK(offsets(batch, "index") == std::vector<std::int64_t>{0, 3, 3, 5});
    CHECK(offsets(batch, "value") == offsets(batch, "index"));
}

TEST_CASE("LibSVM indices can begin with 1, and lines can have fields and query ids", "[unit]") {
    const Batch one_based = parse("0 1:2 5:3\n", Libsvm{.one_based = true});
    CHECK(values<std::int64_t>(one_based, "index") == std::vector<std::int64_t>{0, 4});
    const Batch fields = parse("0 qid:9 2:1:2 3:5:3\n1 qid:10\n", Libsvm{.fields = true, .query_ids = true});
    CHECK(values<std::int64_t>(fields, "field") == std::vector<std::int64_t>{2, 3});
    CHECK(values<std::int64_t>(fields, "index") == std::vector<std::int64_t>{1, 5});
    CHECK(values<std::int64_t>(fields, "qid") == std::vector<std::int64_t>{9, 10});
    CHECK(offsets(fields, "field") == std::vector<std::int64_t>{0, 2, 2});
}

TEST_CASE("A malformed LibSVM line is an error that shows its place", "[unit]") {
    const std::string good = "1 1:2\n";
    CHECK_THAT(refusal(good + "1 2 3:4\n", Libsvm{}),
               Contains("reading 'given bytes', record 1 at offset 6: found '2 3:4' at byte 2 of the line, expected "
                        "'index:value'"));
    CHECK_THAT(refusal("x 1:2\n", Libsvm{}), Contains("found 'x 1:2' at byte 0 of the line, expected a label"));
    CHECK_THAT(refusal("1,3 1:2\n", Libsvm{}), Contains("expected a label"));
    CHECK_THAT(refusal("1 1:\n", Libsvm{}),
               Contains("found the end of the line at byte 4 of the line, expected a number"));
    CHECK_THAT(refusal("1 1:2x\n", Libsvm{}), Contains("expected a number behind the colon, and then a space"));
    CHECK_THAT(refusal("1 1:1e99\n", Libsvm{}), Contains("expected a number"));
    CHECK_THAT(refusal("1 0:2\n", Libsvm{.one_based = true}),
               Contains("the index 0 at byte 5 of the line is too small"));
    CHECK_THAT(refusal("1 -1:2\n", Libsvm{}), Contains("the index -1"));
    CHECK_THAT(refusal("1 -9223372036854775808:2\n", Libsvm{.one_based = true}),
               Contains("the index -9223372036854775808 at byte"));
    CHECK_THAT(refusal("1 1:2\n", Libsvm{.fields = true}), Contains("'field:index:value'"));
    CHECK_THAT(refusal("1 qid:x\n", Libsvm{}), Contains("an integer behind 'qid:'"));
    CHECK_THAT(refusal("1 1:2\n", Libsvm{.query_ids = true}), Contains("expected 'qid:' and a number"));
    const Batch rest = parse("1 1:2\nbad\n3 1:x\n4 5:6\n", Libsvm{}, 2);
    CHECK(values<float>(rest, "label") == std::vector<float>{1, 4});
    CHECK(values<std::int64_t>(rest, "index") == std::vector<std::int64_t>{1, 5});
}

TEST_CASE("CSV columns are found by the names in the first row", "[unit]") {
    const Csv format{.columns = {{"price", DType::float64}, {"id", DType::int64}, {"name", DType::uint8}}};
    const Batch batch =
        parse("\xef\xbb\xbfid,name,\"price\",more\r\n1,\"Smith, \"\"Jo\"\"\nand son\",2.5,x\r\n2,,-1e3,\r\n", format);
    CHECK(values<std::int64_t>(batch, "id") == std::vector<std::int64_t>{1, 2});
    CHECK(values<double>(batch, "price") == std::vector<double>{2.5, -1000});
    CHECK(column_texts(batch, "name") == std::vector<std::string>{"Smith, \"Jo\"\nand son", ""});
    CHECK_THAT(refusal("a,b\n1,2\n", Csv{.columns = {{"c"}}}), Contains("no column 'c'; their first row is 'a,b'"));
}

TEST_CASE("CSV without a header has all columns in order, and empty fields can have a value", "[unit]") {
    const Csv format{.columns = {{"label"}, {"count", DType::int64, -1}, {"hash", DType::uint8}},
                     .separator = '\t',
                     .header = false,
                     .quotes = false};
    const Batch batch = parse("1\t\t68fd1e64\n0\t7\t\"\n", format);
    CHECK(values<float>(batch, "label") == std::vector<float>{1, 0});
    CHECK(values<std::int64_t>(batch, "count") == std::vector<std::int64_t>{-1, 7});
    CHECK(column_texts(batch, "hash") == std::vector<std::string>{"68fd1e64", "\""});
}

TEST_CASE("A malformed CSV row is an error that names column, finding and remedy", "[unit]") {
    const Csv format{.columns = {{"a"}, {"b", DType::int64}}};
    CHECK_THAT(refusal("a,b\n1,2\n1,2,3\n", format),
               Contains("record 1 at offset 8: the row has 3 fields, expected 2"));
    CHECK_THAT(refusal("a,b\n1\n", format), Contains("the row has 1 fields, expected 2"));
    CHECK_THAT(refusal("a,b\n1,2.5\n", format), Contains("column 'b' has '2.5', expected a number of type int64"));
    CHECK_THAT(refusal("a,b\n1,-9223372036854775809\n", format), Contains("which is out of the range of int64"));
    CHECK_THAT(refusal("a,b\n+1e99,2\n", format),
               Contains("column 'a' has '+1e99', which is out of the range of float32"));
    CHECK_THAT(refusal("a,b\n1e99x,2\n", format), Contains("has '1e99x', expected a number of type float32"));
    CHECK_THAT(refusal("a,b\n,2\n", format),
               Contains("column 'a' has an empty field") && Contains("CsvColumn::missing"));
    CHECK_THAT(refusal("a,b\n\"1,2\n", format),
               Contains("the row that begins at offset 4 has a double quote without a second one"));
    CHECK_THAT(refusal("a,b\n1\"2\",2\n", format), Contains("field 1 of the row has a double quote at a wrong place"));
    CHECK_THAT(refusal("a,b\n\"1\"2,2\n", format), Contains("field 1 of the row has a double quote at a wrong place"));
    CHECK_THAT(refusal("", format), Contains("the file is empty; expected a first row"));
    CHECK_THAT(refusal("a,b\n", Csv{.columns = {{"a", DType::uint8, 1}}}), Contains("a missing text is empty"));
    CHECK_THAT(refusal("a,b\n", Csv{.columns = {{"a"}}, .separator = '.'}), Contains("the CSV separator is '.'"));
    CHECK_THAT(refusal("a,b\n", Csv{}), Contains("Csv lists no column"));
    CHECK_THAT(refusal("a,b\n", Csv{.columns = {{"a"}, {"a"}}}), Contains("the CSV column 'a' is listed twice"));
    CHECK_THAT(refusal("a,b\n", Csv{.columns = {{"a", DType::int32}}}), Contains("has dtype int32"));
}

TEST_CASE("All CSV files must have the header of the first one", "[unit]") {
    PipelineOptions options{.sources = memory("one", "a,b\n1,2\n"), .format = Csv{.columns = {{"a"}}}, .batch = 10};
    options.sources.push_back(memory("other", "b,a\n1,2\n").front());
    options.epochs = 1;
    options.malformed_limit = 1000;  // a wrong header is an error, even if malformed records are allowed
    Pipeline pipeline(options);
    Batch batch;
    CHECK_THAT(
        message_of([&] {
            while (pipeline.next(batch)) {
            }
        }),
        Contains("reading 'other' after 0 records: the first row is 'b,a', expected 'a,b' as in the first file"));
}

TEST_CASE("A file that is no text is named as the probable cause, and ordinary mistakes are not", "[unit]") {
    const std::string hint = "is this file of another format, for example TFRecord, or is it compressed?";
    const Csv header{.columns = {{"a"}}};
    const Csv plain{.columns = {{"a"}}, .header = false};
    for (const std::string& bytes : {tfrecord_bytes({"1 2:3"}), std::string("\x1f\x8b\x08\0\0\0\0\0\x02\xff", 10)}) {
        CHECK_THAT(refusal(bytes, Libsvm{}), Contains(hint));
        CHECK_THAT(refusal(bytes, header), Contains(hint));
        CHECK_THAT(refusal(bytes, plain), Contains(hint));
        CHECK_THAT(refusal(bytes + "\"", plain), Contains("without a second one") && Contains(hint));
        CHECK_THAT(refusal("1\n" + bytes, Libsvm{}), !Contains(hint));  // one damaged line
    }
    CHECK_THAT(refusal("größe\n", plain), !Contains(hint));
    CHECK_THAT(refusal("x\t1\n", Libsvm{}), !Contains(hint));
}

TEST_CASE("If a batch does not have what is asked for, the error says what it has", "[unit]") {
    const Batch batch = parse("1 1:2\n", Libsvm{});
    CHECK_THAT(message_of([&] { (void)batch.column("labels"); }),
               Contains("there is no column 'labels'; there are: label, index, value"));
    CHECK_THAT(message_of([&] { (void)batch.values<double>("label"); }),
               Contains("column 'label' has dtype float32, and values of float64 were asked for"));
    CHECK_THAT(message_of([&] { (void)batch.column("label").text(0); }), Contains("has no text 0"));
    const Batch lines = parse("a\nb\n", Lines{});
    for (const std::size_t index : {std::size_t{2}, ~std::size_t{0}}) {
        CHECK_THAT(message_of([&] { (void)lines.column("line").text(index); }), Contains("it has 2 texts"));
    }
}

}  // namespace
