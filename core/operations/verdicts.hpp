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

/// What the ranks found when they checked the data of an operation (docs/design/0009-verify.md), and the error that
/// follows from that. Pure functions.
namespace rueda::core {

/// The finding of one rank.
struct Verdict {
    enum class Kind : std::uint8_t {
        checksum = 0,      ///< `value` is the checksum of the result; it is 0 if the ranks do not compare results
        changed = 1,       ///< the input has changed since the announcement; `value` is 0
        not_a_number = 2,  ///< the first non-finite element of the input is a NaN; `value` is its position
        infinite = 3,      ///< the first non-finite element of the input is an infinity; `value` is its position
    };
    Kind kind = Kind::checksum;
    std::uint64_t value = 0;  ///< below 2^kValueBits

    static constexpr int kValueBits = 60;
    [[nodiscard]] bool operator==(const Verdict&) const = default;
};

/// Encodes a finding as a number that is not negative. The ranks exchange these numbers.
[[nodiscard]] std::int64_t encode(const Verdict& verdict);
/// Decodes the number that another rank sent. Returns nothing if no correct rank sends this number.
[[nodiscard]] std::optional<Verdict> decode_verdict(std::int64_t number);

/// Whether find_not_finite() checks tensors of this dtype.
[[nodiscard]] constexpr bool has_not_finite(DType dtype) noexcept { return ops::is_floating_point(dtype); }

/// Returns a checksum of kValueBits bits.
[[nodiscard]] std::uint64_t checksum_of(const std::byte* memory, std::uint64_t bytes);
/// Returns the first NaN or infinity. Returns nothing if the tensor has no such element, or if the dtype has no such
/// values.
[[nodiscard]] std::optional<Verdict> find_not_finite(DType dtype, const std::byte* memory, std::uint64_t count);

/// Returns the name of the operation that compares what the ranks found in a tensor, for example "w (checksums)" for
/// the tensor "w". A long name is cut.
[[nodiscard]] std::string name_of_check(std::string_view name);

struct VerdictOfRank {
    std::int32_t rank = 0;  ///< the number in the job
    Verdict verdict;
};
/// Returns success if no rank found an error. Otherwise returns an error that names the ranks and says what they found.
/// The result is the same on all ranks.
[[nodiscard]] Status judge(std::string_view tensor, const Metadata& metadata, std::span<const VerdictOfRank> verdicts);

}  // namespace rueda::core
