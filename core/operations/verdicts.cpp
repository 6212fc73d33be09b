// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/verdicts.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "collectives/operation.hpp"
#include "rueda/rueda.h"

namespace rueda::core {
namespace {

constexpr std::uint64_t kValueMask = (std::uint64_t{1} << Verdict::kValueBits) - 1;

/// Finds the first floating-point element that is infinite or NaN. `Word` is an unsigned integer type that is as large
/// as an element. An element is infinite or NaN if its bits without the sign are at least `lowest`. The value `lowest`
/// stands for infinity, and larger values for NaNs. If `has_infinity` is false, `lowest` stands for a NaN, too.
template <class Word>
std::optional<Verdict> find_in(const std::byte* memory, std::uint64_t count, Word lowest, bool has_infinity = true) {
    // All elements of a block are checked together first, without a branch for each element.
    constexpr std::uint64_t kBlock = 1024;
    constexpr auto kMagnitude = static_cast<Word>(~(Word{1} << (8 * sizeof(Word) - 1)));
    const auto magnitude = [&](std::uint64_t i) {
        Word word = 0;
        std::memcpy(&word, memory + i * sizeof(Word), sizeof(Word));
        return static_cast<Word>(word & kMagnitude);
    };
    for (std::uint64_t begin = 0; begin < count; begin += kBlock) {
        const std::uint64_t end = std::min(count, begin + kBlock);
        bool any = false;
        for (std::uint64_t i = begin; i < end; ++i) {
            any |= magnitude(i) >= lowest;
        }
        for (std::uint64_t i = begin; any && i < end; ++i) {
            if (magnitude(i) >= lowest) {
                const bool is_infinite = has_infinity && magnitude(i) == lowest;
                return Verdict{is_infinite ? Verdict::Kind::infinite : Verdict::Kind::not_a_number, i};
            }
        }
    }
    return std::nullopt;
}

/// Returns a text such as "rank 2: NaN at element 17".
std::string not_finite_text(const VerdictOfRank& found) {
    return fmt::format("rank {}: {} at element {}", found.rank,
                       found.verdict.kind == Verdict::Kind::infinite ? "infinity" : "NaN", found.verdict.value);
}

/// Returns a text such as "ranks 0, 1: 00ff…; rank 2: 17ab…". The checksum of the lowest rank comes first. The result
/// is "" if all checksums are equal.
std::string differing_checksums(std::span<const VerdictOfRank> verdicts) {
    std::map<std::uint64_t, std::vector<std::int32_t>> ranks_of;
    for (const VerdictOfRank& one : verdicts) {
        if (one.verdict.kind == Verdict::Kind::checksum) {
            ranks_of[one.verdict.value].push_back(one.rank);
        }
    }
    if (ranks_of.size() < 2) {
        return {};
    }
    std::vector<std::pair<std::uint64_t, std::vector<std::int32_t>>> sums(ranks_of.begin(), ranks_of.end());
    std::sort(sums.begin(), sums.end(),
              [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
    std::string text;
    for (const auto& [sum, ranks] : sums) {
        text += fmt::format("{}{}: {:015x}", text.empty() ? "" : "; ", base::format_ranks(ranks), sum);
    }
    return text;
}

}  // namespace

std::int64_t encode(const Verdict& verdict) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(verdict.kind) << Verdict::kValueBits |
                                     (verdict.value & kValueMask));
}

std::optional<Verdict> decode_verdict(std::int64_t number) {
    const auto bits = static_cast<std::uint64_t>(number);
    const std::uint64_t kind = bits >> Verdict::kValueBits;
    if (kind > static_cast<std::uint64_t>(Verdict::Kind::infinite)) {
        return std::nullopt;
    }
    const Verdict verdict{static_cast<Verdict::Kind>(kind), bits & kValueMask};
    return verdict.kind == Verdict::Kind::changed && verdict.value != 0 ? std::nullopt : std::optional(verdict);
}

std::uint64_t checksum_of(const std::byte* memory, std::uint64_t bytes) {
    return XXH3_64bits(memory, bytes) & kValueMask;
}

std::optional<Verdict> find_not_finite(DType dtype, const std::byte* memory, std::uint64_t count) {
    switch (dtype) {
        case DType::float16:
            return find_in<std::uint16_t>(memory, count, 0x7c00);
        case DType::bfloat16:
            return find_in<std::uint16_t>(memory, count, 0x7f80);
        case DType::float8_e4m3fn:
            return find_in<std::uint8_t>(memory, count, 0x7f, /*has_infinity=*/false);
        case DType::float8_e5m2:
            return find_in<std::uint8_t>(memory, count, 0x7c);
        case DType::float32:
            return find_in<std::uint32_t>(memory, count, 0x7f80'0000);
        case DType::float64:
            return find_in<std::uint64_t>(memory, count, 0x7ff0'0000'0000'0000);
        default:
            return std::nullopt;
    }
}

std::string name_of_check(std::string_view name) {
    constexpr std::string_view kSuffix = " (checksums)";
    if (name.size() + kSuffix.size() <= RUEDA_MAX_NAME) {
        return fmt::format("{}{}", name, kSuffix);
    }
    const std::string whole = fmt::format("…{:016x}{}", XXH3_64bits(name.data(), name.size()), kSuffix);
    std::size_t length = RUEDA_MAX_NAME - whole.size();
    while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) {
        --length;  // moves the cut to the beginning of a UTF-8 character
    }
    return fmt::format("{}{}", name.substr(0, length), whole);
}

Status judge(std::string_view tensor, const Metadata& metadata, std::span<const VerdictOfRank> verdicts) {
    const char* const operation = collectives::name_of(static_cast<collectives::Operation>(metadata.operation));
    std::string not_finite;
    std::vector<std::int32_t> changed;
    for (const VerdictOfRank& one : verdicts) {
        if (one.verdict.kind == Verdict::Kind::not_a_number || one.verdict.kind == Verdict::Kind::infinite) {
            not_finite += (not_finite.empty() ? "" : "; ") + not_finite_text(one);
        } else if (one.verdict.kind == Verdict::Kind::changed) {
            changed.push_back(one.rank);
        }
    }
    if (!not_finite.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "{}: the input of this {} has values that are not finite (RUEDA_CHECK_NAN): {}; look for their "
                       "cause before this operation",
                       tensor, operation, not_finite);
    }
    if (!changed.empty()) {
        return failure(ErrorCode::mismatch,
                       "{}: the input of this {} was changed while the operation was under way (RUEDA_VERIFY): {}; "
                       "leave it alone from the call until the operation has completed",
                       tensor, operation, base::format_ranks(changed));
    }
    if (const std::string sums = differing_checksums(verdicts); !sums.empty()) {
        return failure(ErrorCode::mismatch,
                       "{}: the results of this {} differ between the ranks (RUEDA_VERIFY), by their checksums: {}; "
                       "something has written into the output while the operation was under way, or memory or a "
                       "processor is faulty",
                       tensor, operation, sums);
    }
    return {};
}

}  // namespace rueda::core
