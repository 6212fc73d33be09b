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

/// What the ranks find of an operation that is checked (docs/design/0009-verify.md), and what follows. Pure.
namespace rueda::core {

/// One rank's.
struct Verdict {
    enum class Kind : std::uint8_t {
        checksum = 0,      ///< of the result; 0 where results are not compared
        changed = 1,       ///< the input is not what it was when it was announced; `value` is 0
        not_a_number = 2,  ///< of the input; `value`: the first such element
        infinite = 3,      ///< likewise
    };
    Kind kind = Kind::checksum;
    std::uint64_t value = 0;  ///< below 2^kValueBits

    static constexpr int kValueBits = 60;
    [[nodiscard]] bool operator==(const Verdict&) const = default;
};

/// As it travels: not negative.
[[nodiscard]] std::int64_t encode(const Verdict& verdict);
/// From another process. Empty for what no working rank says.
[[nodiscard]] std::optional<Verdict> decode_verdict(std::int64_t number);

/// Whether find_not_finite() looks at it.
[[nodiscard]] constexpr bool has_not_finite(DType dtype) noexcept {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

/// In kValueBits.
[[nodiscard]] std::uint64_t checksum_of(const std::byte* memory, std::uint64_t bytes);
/// The first NaN or infinity; empty without one, and of dtypes that have none.
[[nodiscard]] std::optional<Verdict> find_not_finite(DType dtype, const std::byte* memory, std::uint64_t count);

/// What the operations that are checked on one tensor are called: "w (checksums)"; of a long name a part.
[[nodiscard]] std::string name_of_check(std::string_view name);

struct VerdictOfRank {
    std::int32_t rank = 0;  ///< of the job
    Verdict verdict;
};
/// Success where there is nothing to say; else the same for all ranks, naming who found what.
[[nodiscard]] Status judge(std::string_view tensor, const Metadata& metadata, std::span<const VerdictOfRank> verdicts);

}  // namespace rueda::core
