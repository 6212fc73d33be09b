// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>

#include "rueda/data/batch.hpp"

namespace rueda::data {

/// Adds a column of float32 to the batch. Its value is 1 in each row. Throws InvalidArgument if the batch has a column
/// of this name.
void add_weights(Batch& batch, const std::string& name);

/// Adds rows to the batch until it has `rows` rows. The new rows have zeros, no values in ragged columns, and empty
/// texts in columns of texts. A map function may have added a column that has no value for each row. Such a column
/// stays as it is.
void pad_rows(Batch& batch, std::int64_t rows);

}  // namespace rueda::data
