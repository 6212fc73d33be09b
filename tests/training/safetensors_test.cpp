// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/safetensors/safetensors.hpp"

#include <catch2/catch.hpp>

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;

std::string refusal(std::string_view text, std::uint64_t data_bytes = 8) {
    const Result<Header> header = parse_header(text, data_bytes);
    if (header.is_ok()) {
        return "accepted";
    }
    return header.status().code() == ErrorCode::invalid_argument ? header.status().message() : "another code";
}

std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST_CASE("a header with every dtype is read", "[training]") {
    const Result<Header> header = parse_header(
        R"({"b":{"dtype":"I8","shape":[],"data_offsets":[26,27]},"__metadata__":{"epoch":"3"},)"
        R"("f":{"dtype":"F16","shape":[1,1],"data_offsets":[24,26]},"a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]},)"
        R"("z":{"dtype":"U8","shape":[2,0],"data_offsets":[27,27]}}   )",
        27);
    REQUIRE(header.status().message() == "");
    CHECK(header.value().metadata == Metadata{{"epoch", "3"}});
    REQUIRE(header.value().tensors.size() == 4);
    CHECK(header.value().tensors[0].info.name == "a");
    CHECK(header.value().tensors[1].info.dtype == DType::float16);
    CHECK(header.value().tensors[2].info.shape.ndim() == 0);
    CHECK(header.value().tensors[3].info.shape.elements() == 0);
    CHECK(parse_header("{}", 0).is_ok());
    for (const char* const dtype : {"BOOL", "U8", "I8", "U16", "I16", "F16", "BF16", "U32", "I32", "F32", "U64", "I64",
                                    "F64", "F8_E4M3", "F8_E5M2"}) {
        CHECK(parse_header(one_tensor(dtype, "[0]", "[0,0]"), 0).is_ok());
    }
}

TEST_CASE("a damaged header is refused with what was found and what was expected", "[training]") {
    CHECK_THAT(refusal("{"), Contains("not JSON") && Contains("byte 2"));
    CHECK_THAT(refusal("[]", 0), Contains("must be a JSON object"));
    CHECK_THAT(refusal(" {}", 0), Contains("must be a JSON object"));
    CHECK_THAT(refusal(R"({"w":3})"), Contains(R"("w")") && Contains("dtype, shape and data_offsets"));
    CHECK_THAT(refusal(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})"), Contains("nothing else"));
    CHECK_THAT(refusal(one_tensor("F31", "[2]", "[0,8]")),
               Contains("F31") && Contains("F64, F32") && Contains("U64, U32, U16, U8, BOOL"));
    CHECK_THAT(refusal(one_tensor("F32", "[-2]", "[0,8]")), Contains("[-2]"));
    CHECK_THAT(refusal(one_tensor("F32", "[2.0]", "[0,8]")), Contains("[2.0]"));
    CHECK_THAT(refusal(one_tensor("F32", "\"2\"", "[0,8]")), Contains("list of whole numbers"));
    CHECK_THAT(refusal(one_tensor("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]")), Contains("17 dimensions"));
    CHECK_THAT(refusal(one_tensor("F32", "[2]", "[0]")), Contains("data_offsets [0]"));
    CHECK_THAT(refusal(one_tensor("F32", "[2]", "[8,0]")), Contains("bytes 8 to 0"));
    CHECK_THAT(refusal(one_tensor("F32", "[2]", "[0,8]"), 7), Contains("has 7 bytes") && Contains("truncated"));
    CHECK_THAT(refusal(one_tensor("F32", "[3]", "[0,8]")), Contains("has 8 bytes") && Contains("must have 12"));
    CHECK_THAT(refusal(R"({"__metadata__":{"epoch":3}})", 0), Contains("epoch") && Contains("must be a string"));
    CHECK_THAT(refusal(R"({"__metadata__":"x"})", 0), Contains("object of strings"));
}

TEST_CASE("sizes that do not fit 64 bits are refused", "[training]") {
    CHECK_THAT(refusal(one_tensor("F32", "[1e999]", "[0,8]")), Contains("fits no type"));
    CHECK_THAT(refusal("1e999", 0), Contains("fits no type"));
    CHECK_THAT(refusal(one_tensor("F32", "[9223372036854775807,9]", "[0,8]")), Contains("more than 2^64"));
    CHECK_THAT(refusal(one_tensor("F32", "[18446744073709551615]", "[0,8]")), Contains("whole numbers"));
    CHECK_THAT(refusal(one_tensor("F32", "[4611686018427387904]", "[0,0]"), 0), Contains("more than 2^64"));
    CHECK(parse_header(one_tensor("F32", "[9223372036854775807,9223372036854775807,0]", "[0,0]"), 0).is_ok());
}

TEST_CASE("tensors must fill the data exactly", "[training]") {
    const auto two = [](const char* a, const char* b) {
        return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
               R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
    };
    CHECK(refusal(two("[0,4]", "[4,8]")) == "accepted");
    CHECK_THAT(refusal(two("[0,4]", "[3,7]")), Contains("inside the one before it, which ends at byte 4"));
    CHECK_THAT(refusal(two("[0,4]", "[5,9]"), 9), Contains("begins at byte 5") && Contains("ends at byte 4"));
    CHECK_THAT(refusal(two("[1,5]", "[5,9]"), 9), Contains("begins at byte 1"));
    CHECK_THAT(refusal(two("[0,4]", "[4,8]"), 9), Contains("end at byte 8") && Contains("9 bytes"));
}

TEST_CASE("a name that stands twice is refused, in the header and inside a tensor", "[training]") {
    CHECK_THAT(refusal(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
               Contains(R"("w" stands twice)"));
    CHECK_THAT(refusal(R"({"w":{"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]}})"),
               Contains(R"("dtype" stands twice)"));
}

TEST_CASE("messages stay short and printable whatever the file holds", "[training]") {
    const std::string message = refusal(R"({"\u001b[2J)" + std::string(5000, 'x') + R"(":1})");
    CHECK(message.size() < 400);
    CHECK(message.find('\x1b') == std::string::npos);
    CHECK_THAT(refusal("{\"\xff\":1}"), Contains("not JSON"));
}

TEST_CASE("tensors are laid out by alignment, then in order", "[training]") {
    const auto tensor = [](const char* name, DType dtype, std::int64_t count) {
        return NamedTensor{name, {nullptr, dtype, {count}}};
    };
    const std::vector<NamedTensor> tensors = {tensor("bytes", DType::uint8, 3), tensor("b", DType::float32, 1),
                                              tensor("a", DType::float32, 2), tensor("wide", DType::int64, 1)};
    const Result<Header> header = lay_out(tensors, {});
    REQUIRE(header.is_ok());
    const auto& placed = header.value().tensors;
    CHECK((placed[0].info.name == "wide" && placed[0].begin == 0 && placed[0].end == 8));
    CHECK((placed[1].info.name == "b" && placed[1].begin == 8 && placed[1].end == 12));
    CHECK((placed[2].info.name == "a" && placed[2].begin == 12 && placed[2].end == 20));
    CHECK((placed[3].info.name == "bytes" && placed[3].begin == 20 && placed[3].end == 23));
    const Result<std::string> text = format_header(header.value());
    REQUIRE(text.is_ok());
    CHECK(text.value().size() % 8 == 0);
    CHECK(parse_header(text.value(), 23).is_ok());
}

TEST_CASE("checksums that are no checksums are refused", "[training]") {
    const auto with = [](const std::string& key, const std::string& value) {
        return R"({"__metadata__":{")" + key + R"(":")" + value +
               R"("},"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})";
    };
    const std::string sum = " 0123456789abcdef";
    for (const std::string& value :
         {std::string(), std::string("rueda:xxh3-64"), "rueda:xxh3-64" + sum, "rueda:xxh3-64" + sum + sum + sum,
          "rueda:xxh3-64" + sum + sum + " ", "rueda:xxh3-65" + sum + sum, "rueda:xxh3-64 0123456789ABCDEF" + sum,
          "rueda:xxh3-64 0x23456789abcdef" + sum, "rueda:xxh3-64" + sum + "-0123456789abcdef"}) {
        INFO(value);
        CHECK_THAT(refusal(with("rueda.checksums", value)),
                   Contains("2 checksums of 16 hexadecimal digits") && Contains("the file is damaged"));
    }
    CHECK_THAT(refusal(with("rueda.checksums", "rueda:xxh3-64" + sum + sum)),
               Contains("expected 0123456789abcdef, which was recorded"));
    CHECK_THAT(refusal(with("rueda.checksumr", "rueda:xxh3-64" + sum + sum)),
               Contains(R"(checksums under "rueda.checksumr")"));
    CHECK(refusal(with("checksums", "sha256")) == "accepted");
}

TEST_CASE("names that a checkpoint cannot hold are refused", "[training]") {
    const auto problem = [](std::vector<NamedTensor> tensors) { return lay_out(tensors, {}).status().message(); };
    const TensorView one(nullptr, DType::uint8, {0});
    CHECK_THAT(problem({{"", one}}), Contains("''"));
    CHECK_THAT(problem({{"__metadata__", one}}), Contains("'__metadata__'"));
    CHECK_THAT(problem({{"w", one}, {"v", one}, {"w", one}}), Contains("two tensors have the name 'w'"));
    CHECK_THAT(problem({{"w", {nullptr, DType::uint8, {-1}}}}), Contains("negative"));
    const std::vector<NamedTensor> not_utf8 = {{"\xff", one}};
    CHECK_THAT(format_header(lay_out(not_utf8, {}).value()).status().message(), Contains("UTF-8"));
}

}  // namespace
}  // namespace rueda::training
