// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/verdicts.hpp"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "collectives/operation.hpp"
#include "rueda/rueda.h"

namespace rueda::core {
namespace {

using Kind = Verdict::Kind;

Metadata metadata_of(collectives::Operation operation) {
    Metadata metadata;
    metadata.operation = static_cast<std::uint8_t>(operation);
    return metadata;
}

const Metadata kAllreduce = metadata_of(collectives::Operation::allreduce);

TEST_CASE("verdicts travel as numbers that are not negative", "[threads]") {
    for (const Kind kind : {Kind::checksum, Kind::changed, Kind::not_a_number, Kind::infinite}) {
        for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{17}, (std::uint64_t{1} << 60) - 1}) {
            if (kind == Kind::changed && value != 0) {
                continue;  // ranks never send this combination
            }
            const std::int64_t number = encode({kind, value});
            CHECK(number >= 0);
            REQUIRE(decode_verdict(number));
            CHECK(*decode_verdict(number) == Verdict{kind, value});
        }
    }
    CHECK_FALSE(decode_verdict(-1));
    CHECK_FALSE(decode_verdict(std::int64_t{1} << 62));
    CHECK_FALSE(decode_verdict(encode({Kind::changed, 1})));
}

TEST_CASE("one bit more or less is another checksum", "[threads]") {
    std::vector<std::byte> memory(1000, std::byte{5});
    const std::uint64_t sum = checksum_of(memory.data(), memory.size());
    CHECK(sum >> Verdict::kValueBits == 0);
    CHECK(checksum_of(memory.data(), memory.size() - 1) != sum);
    for (std::size_t at = 0; at < memory.size(); at += 37) {
        memory[at] ^= std::byte{1};
        CHECK(checksum_of(memory.data(), memory.size()) != sum);
        memory[at] ^= std::byte{1};
    }
    CHECK(checksum_of(memory.data(), memory.size()) == sum);
}

template <class Word>
std::optional<Verdict> look(DType dtype, std::size_t count, std::size_t at, Word bits) {
    std::vector<Word> words(count, Word{0});
    words.at(at) = bits;
    return find_not_finite(dtype, reinterpret_cast<const std::byte*>(words.data()), count);
}

TEST_CASE("the first value that is not finite is found, wherever it is", "[threads]") {
    constexpr std::size_t kCount = 5000;
    const auto float_bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    using Floats = std::numeric_limits<float>;
    for (const std::size_t at : std::initializer_list<std::size_t>{0, 1, 1023, 1024, 4999}) {
        CHECK(look(DType::float32, kCount, at, float_bits(Floats::quiet_NaN())) == Verdict{Kind::not_a_number, at});
        CHECK(look(DType::float32, kCount, at, float_bits(-Floats::infinity())) == Verdict{Kind::infinite, at});
        CHECK_FALSE(look(DType::float32, kCount, at, float_bits(-Floats::max())));
        CHECK(look(DType::float64, kCount, at, std::bit_cast<std::uint64_t>(Floats::infinity() * -1.0)) ==
              Verdict{Kind::infinite, at});
        CHECK(look<std::uint16_t>(DType::float16, kCount, at, 0xfc01) == Verdict{Kind::not_a_number, at});
        CHECK(look<std::uint16_t>(DType::float16, kCount, at, 0x7c00) == Verdict{Kind::infinite, at});
        CHECK_FALSE(look<std::uint16_t>(DType::float16, kCount, at, 0x7bff));
        CHECK(look<std::uint16_t>(DType::bfloat16, kCount, at, 0xff80) == Verdict{Kind::infinite, at});
        // In bfloat16, these bits are a finite number.
        CHECK_FALSE(look<std::uint16_t>(DType::bfloat16, kCount, at, 0x7c00));
        CHECK(look<std::uint8_t>(DType::float8_e4m3fn, kCount, at, 0xff) == Verdict{Kind::not_a_number, at});
        CHECK_FALSE(look<std::uint8_t>(DType::float8_e4m3fn, kCount, at, 0x7e));
        CHECK(look<std::uint8_t>(DType::float8_e5m2, kCount, at, 0xfc) == Verdict{Kind::infinite, at});
        CHECK(look<std::uint8_t>(DType::float8_e5m2, kCount, at, 0x7d) == Verdict{Kind::not_a_number, at});
        CHECK_FALSE(look<std::uint8_t>(DType::float8_e5m2, kCount, at, 0x7b));
        CHECK_FALSE(look<std::uint32_t>(DType::int32, kCount, at, 0x7fc0'0000));
    }
    CHECK_FALSE(find_not_finite(DType::float32, nullptr, 0));
}

TEST_CASE("operations that compare are named after the tensor, within what a name may have", "[threads]") {
    CHECK(name_of_check("layer1.weight") == "layer1.weight (checksums)");
    const std::string longest(RUEDA_MAX_NAME, 'a');
    const std::string other = longest.substr(1) + "b";
    CHECK(name_of_check(longest).size() <= RUEDA_MAX_NAME);
    CHECK(name_of_check(longest) != name_of_check(other));
    std::string wide;
    while (wide.size() + 2 <= RUEDA_MAX_NAME) {
        wide += "ä";
    }
    const std::string named = name_of_check(wide);
    CHECK(named.find("\xc3\xe2") == std::string::npos);  // a name must not be cut inside a two-byte character
}

TEST_CASE("the ranks are judged by what is worst, and named by what they found", "[threads]") {
    const auto text = [](std::vector<VerdictOfRank> verdicts) { return judge("tensor 'w'", kAllreduce, verdicts); };
    CHECK(text({{0, {Kind::checksum, 7}}, {1, {Kind::checksum, 7}}}).is_ok());
    CHECK(text({}).is_ok());

    const Status differ = text({{0, {Kind::checksum, 0xabc}}, {1, {Kind::checksum, 7}}, {2, {Kind::checksum, 0xabc}}});
    CHECK(differ.code() == ErrorCode::mismatch);
    CHECK(
        differ.message() ==
        "tensor 'w': the results of this allreduce differ between the ranks (RUEDA_VERIFY), by their checksums: ranks "
        "0, 2: 000000000000abc; rank 1: 000000000000007; something has written into the output while the operation "
        "was under way, or memory or a processor is faulty");

    const Status changed =
        text({{3, {Kind::checksum, 1}}, {4, {Kind::changed, 0}}, {5, {Kind::checksum, 2}}, {6, {Kind::changed, 0}}});
    CHECK(changed.code() == ErrorCode::mismatch);
    CHECK(changed.message() ==
          "tensor 'w': the input of this allreduce was changed while the operation was under way (RUEDA_VERIFY): ranks "
          "4, 6; leave it alone from the call until the operation has completed");

    const Status not_finite = text(
        {{0, {Kind::changed, 0}}, {1, {Kind::not_a_number, 17}}, {2, {Kind::checksum, 2}}, {3, {Kind::infinite, 0}}});
    CHECK(not_finite.code() == ErrorCode::invalid_argument);
    CHECK(not_finite.message() ==
          "tensor 'w': the input of this allreduce has values that are not finite (RUEDA_CHECK_NAN): rank 1: NaN at "
          "element 17; rank 3: infinity at element 0; look for their cause before this operation");
}

}  // namespace
}  // namespace rueda::core
