// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes messages about the end of a checked operation (RUEDA_VERIFY, RUEDA_CHECK_NAN), and about the end of a body in
// run_on_root(). A rank must accept only bytes that a correct rank would send.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/operations/verdicts.hpp"
#include "tests/fuzz/input.hpp"
#include "training/outcome.hpp"

namespace {

using namespace rueda;
using fuzz::expect;
using fuzz::Input;

/// Computes the expected outcome from the bits of the numbers, independently of judge().
ErrorCode expected_code(const std::vector<std::int64_t>& numbers) {
    bool not_finite = false;
    bool changed = false;
    std::set<std::int64_t> sums;
    for (const std::int64_t number : numbers) {
        const std::int64_t kind = number / (std::int64_t{1} << 60);
        not_finite = not_finite || kind >= 2;
        changed = changed || kind == 1;
        if (kind == 0) {
            sums.insert(number);
        }
    }
    return not_finite ? ErrorCode::invalid_argument
                      : (changed || sums.size() > 1 ? ErrorCode::mismatch : ErrorCode::ok);
}

void judge_verdicts(Input input) {
    std::vector<std::int64_t> numbers;
    std::vector<core::VerdictOfRank> verdicts;
    while (!input.empty()) {
        const auto number = input.take<std::int64_t>();
        const auto verdict = core::decode_verdict(number);
        expect(verdict.has_value() == (number >= 0 && number >> 60 <= 3 && (number >> 60 != 1 || number << 4 == 0)));
        if (verdict) {
            expect(core::encode(*verdict) == number);
            verdicts.push_back({static_cast<std::int32_t>(verdicts.size()), *verdict});
            numbers.push_back(number);
        }
    }
    const Status judged = core::judge("tensor 'w'", {}, verdicts);
    expect(judged.code() == expected_code(numbers));
    expect(judged.message().find('\n') == std::string::npos);
}

bool is_shown(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\t';
}

/// Returns whether the bytes have the right format: a code, a length that is valid for the code, a text, and zeros.
bool is_outcome(std::span<const std::uint8_t> bytes) {
    Input input(bytes);
    const auto code = input.take<std::uint32_t>();
    const auto length = input.take<std::uint32_t>();
    constexpr std::size_t kHead = 8;
    return bytes.size() == training::kOutcomeBytes && code <= static_cast<std::uint32_t>(ErrorCode::internal) &&
           length <= bytes.size() - kHead && (code != 0 || length == 0) &&
           std::all_of(bytes.begin() + kHead + static_cast<std::ptrdiff_t>(length), bytes.end(),
                       [](std::uint8_t byte) { return byte == 0; });
}

/// Encoding an accepted outcome again must give the same bytes, unless a character of the text had to be replaced.
void read_outcome(std::span<const std::uint8_t> bytes) {
    const Status ended = training::decode_outcome(bytes, 3);
    expect(std::all_of(ended.message().begin(), ended.message().end(), is_shown));
    if (!is_outcome(bytes)) {
        expect(ended.code() == ErrorCode::internal && ended.message().starts_with("rank 3 sent "));
        return;
    }
    const training::OutcomeBytes again = training::encode_outcome(ended);
    for (std::size_t i = 0; i < again.size(); ++i) {
        expect(again[i] == bytes[i] || (again[i] == '?' && !is_shown(static_cast<char>(bytes[i]))));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::span input(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        judge_verdicts(Input(input));
        return 0;
    }
    read_outcome(input);
    std::vector<std::uint8_t> whole(input.begin(), input.end());
    whole.resize(training::kOutcomeBytes);
    read_outcome(whole);
    return 0;
}
