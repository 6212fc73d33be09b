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

/// The findings of the ranks when they checked the data of an operation (docs/design/0009-verify.md), and the error
/// that follows from these findings. Pure functions.
namespace rueda::core {

/// The finding of one rank.
struct Verdict {
    enum class Kind : std::uint8_t {
        checksum = 0,      ///< `value` is the checksum of the result; 0 if results are not compared
        changed = 1,       ///< the input has changed since the announcement; `value` is 0
        not_a_number = 2,  ///< the first non-finite element of the input is a NaN; `value` is its position
        infinite = 3,      ///< the first non-finite element of the input is an infinity; `value` is its position
    };
    Kind kind = Kind::checksum;
    std::uint64_t value = 0;  ///< below 2^kValueBits

    static constexpr int kValueBits = 60;
    [[nodiscard]] bool operator==(const Verdict&) const = default;
};

/// Encodes a finding as the number that the ranks exchange. The number is not negative.
[[nodiscard]] std::int64_t encode(const Verdict& verdict);
/// Decodes another rank's number. Returns nothing for a number that no correct rank sends.
[[nodiscard]] std::optional<Verdict> decode_verdict(std::int64_t number);

/// Whether find_not_finite() checks tensors of this dtype.
[[nodiscard]] constexpr bool has_not_finite(DType dtype) noexcept { return ops::is_floating_point(dtype); }

/// Returns a checksum of kValueBits bits.
[[nodiscard]] std::uint64_t checksum_of(const std::byte* memory, std::uint64_t bytes);
/// Returns the first NaN or infinity. Returns nothing if the tensor has no such element, or if the dtype has no such
/// values.
[[nodiscard]] std::optional<Verdict> find_not_finite(DType dtype, const std::byte* memory, std::uint64_t count);

/// The name of the operation that compares the findings about a tensor, for example "w (checksums)". A long name is
/// cut.
[[nodiscard]] std::string name_of_check(std::string_view name);

struct VerdictOfRank {
    std::int32_t rank = 0;  ///< the number in the job
    Verdict verdict;
};
/// Returns success if the findings are in order. Otherwise returns an error that names the ranks and their findings.
/// The result is the same on all ranks.
[[nodiscard]] Status judge(std::string_view tensor, const Metadata& metadata, std::span<const VerdictOfRank> verdicts);

}  // namespace rueda::core
