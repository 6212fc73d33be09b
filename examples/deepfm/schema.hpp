// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The fields of a sample. The generator and the trainer use the same fields. Each field has one id and one value in a
/// sample. A field is either numeric or categorical. A numeric field always has the same id, and its value is the
/// number. A categorical field has the id of its category, and the value 1. Different fields have different ids, so
/// that one table can have the embeddings of all fields.
#pragma once

#include <cstdint>

namespace deepfm {

inline constexpr std::int64_t kNumbers = 13;     ///< number i (from 0) has the id i
inline constexpr std::int64_t kCategories = 26;  ///< category c of field j has the id 13 + j × vocabulary + c
inline constexpr std::int64_t kFields = kNumbers + kCategories;
inline constexpr std::int64_t kVocabulary = 100;  ///< the usual number of categories in each field

/// Returns the number of ids.
constexpr std::int64_t feature_count(std::int64_t vocabulary) { return kNumbers + kCategories * vocabulary; }

}  // namespace deepfm
