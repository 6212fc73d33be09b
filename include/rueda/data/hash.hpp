// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Hashing of texts and integers into buckets, for features that have no vocabulary.
///
/// The hash of a text is XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) of its bytes with a seed. The hash is
/// the same on every machine and in every version of Rueda, and many languages have a library for XXH64. An integer is
/// hashed as its decimal text. A column of a CSV file therefore gets the same buckets whether it is read as texts or as
/// integers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/data/batch.hpp"

namespace rueda::data {

/// Returns the hash of a text. Threads: any.
[[nodiscard]] RUEDA_API std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) noexcept;

/// Returns the bucket of a hash: hash × buckets / 2^64, rounded down. This number is at least 0 and less than
/// `buckets`, which must be at least 1. Threads: any.
[[nodiscard]] constexpr std::int64_t bucket_of(std::uint64_t hash, std::int64_t buckets) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::int64_t>((static_cast<Wide>(hash) * static_cast<std::uint64_t>(buckets)) >> 64);
}

struct HashOptions {
    std::int64_t buckets = 0;  ///< number of buckets; ≥ 1
    std::uint64_t seed = 0;    ///< other seeds give other buckets
};

/// Computes the bucket of each text. Text i has the bytes offsets[i] … offsets[i + 1] − 1. Throws InvalidArgument if
/// the number of buckets is less than 1, if the offsets decrease or point outside the bytes, or if `into` does not have
/// one element for each text.
RUEDA_API void hash_texts(std::string_view bytes, std::span<const std::int64_t> offsets, const HashOptions& options,
                          std::span<std::int64_t> into);
/// Computes the bucket of each integer. Throws InvalidArgument as hash_texts() does. `into` may be the same memory as
/// `integers`.
RUEDA_API void hash_integers(std::span<const std::int64_t> integers, const HashOptions& options,
                             std::span<std::int64_t> into);

/// Replaces the texts or the integers of a column by their buckets. The column becomes a column of int64, and keeps its
/// width. A ragged column of integers keeps its offsets. Throws InvalidArgument for a column of another dtype.
RUEDA_API void hash_column(Column& column, const HashOptions& options);

/// Returns a function for PipelineOptions::maps that calls hash_column() for these columns of each batch. Throws
/// InvalidArgument if the number of buckets is less than 1.
[[nodiscard]] RUEDA_API std::function<void(Batch&)> hash_columns(std::vector<std::string> columns, HashOptions options);

}  // namespace rueda::data
