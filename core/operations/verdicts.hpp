// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"
#include "rueda/types.hpp"

/// The findings of the ranks about an operation that is checked (docs/design/0009-verify.md), and the result. Pure.
namespace rueda::core {

/// The finding of one rank.
struct Verdict {
    enum class Kind : std::uint8_t {
        checksum = 0,      ///< checksum of the result; 0 if results are not compared
        changed = 1,       ///< the input is not what it was when it was announced; `value` is 0
        not_a_number = 2,  ///< there is a NaN or an infinity in the input; `value`: the position of the first one
        infinite = 3,      ///< the same for an infinity
    };
    Kind kind = Kind::checksum;
    std::uint64_t value = 0;  ///< below 2^kValueBits

    static constexpr int kValueBits = 60;
    [[nodiscard]] bool operator==(const Verdict&) const = default;
};

/// The number that travels between ranks; not negative.
[[nodiscard]] std::int64_t encode(const Verdict& verdict);
/// Reads the number of another process. Empty for a number that no correct rank sends.
[[nodiscard]] std::optional<Verdict> decode_verdict(std::int64_t number);

/// Whether find_not_finite() looks at this dtype.
[[nodiscard]] constexpr bool has_not_finite(DType dtype) noexcept {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

/// The checksum, cut to kValueBits.
[[nodiscard]] std::uint64_t checksum_of(const std::byte* memory, std::uint64_t bytes);
/// The first NaN or infinity; empty if there is none, and for dtypes that have none.
[[nodiscard]] std::optional<Verdict> find_not_finite(DType dtype, const std::byte* memory, std::uint64_t count);

/// The name of the operation that compares what the ranks found for a tensor: "w (checksums)". A long name is cut.
[[nodiscard]] std::string name_of_check(std::string_view name);

struct VerdictOfRank {
    std::int32_t rank = 0;  ///< of the job
    Verdict verdict;
};
/// Success if there is nothing to report; else the same error on all ranks, which names the ranks and their findings.
[[nodiscard]] Status judge(std::string_view tensor, const Metadata& metadata, std::span<const VerdictOfRank> verdicts);

}  // namespace rueda::core
