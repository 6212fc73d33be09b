// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "rueda/data/hash.hpp"

namespace rueda::data {

struct TermHash {
    using is_transparent = void;  // lets the map look up a std::string_view without making a std::string
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept { return hash_text(text); }
};

/// How often each text occurred.
using TermCounts = std::unordered_map<std::string, std::int64_t, TermHash, std::equal_to<>>;

struct TermCount {
    std::string_view text;
    std::int64_t count = 0;
};

/// The largest possible count. The sum of two such counts does not overflow.
inline constexpr std::int64_t kLargestCount = std::int64_t{1} << 61;

/// Adds `count` to the count of a text. A sum above kLargestCount becomes kLargestCount.
void add_count(TermCounts& counts, std::string_view text, std::int64_t count);

/// Returns the counts in the order in which texts become terms: the highest count comes first, and texts with equal
/// counts are sorted by their bytes. The texts are views into `counts`.
[[nodiscard]] std::vector<TermCount> in_order(const TermCounts& counts);

/// The counts of one rank. The ranks exchange such messages in order to agree on new terms. The texts are views into
/// the message's bytes.
struct CountMessage {
    std::uint64_t fingerprint = 0;  ///< identifies the vocabulary on which the counts are based
    std::vector<TermCount> counts;
};

/// Returns a message as bytes: the number of bytes that follow (an integer of 8 bytes), the fingerprint (8 bytes), and
/// for each text its count (8 bytes), its length (2 bytes) and its characters. Integers have the byte order of the
/// machine, as in all messages between ranks.
[[nodiscard]] std::string to_message(std::uint64_t fingerprint, const TermCounts& counts);
/// Reads the messages of all ranks. `bytes` has these messages one after another. The error for a damaged message names
/// its rank.
[[nodiscard]] Result<std::vector<CountMessage>> read_messages(std::string_view bytes);

}  // namespace rueda::data
