// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/data/hash.hpp"

#include <utility>

#include "base/status.hpp"
#include "data/terms/term_blocks.hpp"
#include "data/terms/xxh64.hpp"

namespace rueda::data {

namespace {

Status check_hash_options(const HashOptions& options) {
    return options.buckets >= 1
               ? Status()
               : failure(ErrorCode::invalid_argument, "hashing: buckets is {}; it must be 1 or more", options.buckets);
}

/// Returns a function for process_blocks() that puts the bucket of each term of a block into `ids`.
auto into_buckets(const HashOptions& options) {
    return [&options](std::span<const std::string_view> terms, std::span<std::int64_t> ids) {
        for (std::size_t i = 0; i < terms.size(); ++i) {
            ids[i] = bucket_of(hash_inline(terms[i], options.seed), options.buckets);
        }
    };
}

}  // namespace

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) noexcept { return hash_inline(text, seed); }

void hash_texts(std::string_view bytes, std::span<const std::int64_t> offsets, const HashOptions& options,
                std::span<std::int64_t> into) {
    check_hash_options(options).throw_if_failed();
    process_blocks(TextTerms(bytes, offsets), into, into_buckets(options)).throw_if_failed();
}

void hash_integers(std::span<const std::int64_t> integers, const HashOptions& options, std::span<std::int64_t> into) {
    check_hash_options(options).throw_if_failed();
    process_blocks(IntegerTerms(integers), into, into_buckets(options)).throw_if_failed();
}

void hash_column(Column& column, const HashOptions& options) {
    check_hash_options(options).throw_if_failed();
    process_column(column, into_buckets(options)).throw_if_failed();
}

std::function<void(Batch&)> hash_columns(std::vector<std::string> columns, HashOptions options) {
    check_hash_options(options).throw_if_failed();
    return [columns = std::move(columns), options](Batch& batch) {
        for (const std::string& name : columns) {
            hash_column(batch.column(name), options);
        }
    };
}

}  // namespace rueda::data
