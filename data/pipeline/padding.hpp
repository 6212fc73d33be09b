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

/// Adds rows to the batch until it has `rows` rows: zeros, ragged rows without values, and empty texts. A column that
/// does not have a value for each row (a map function may have added it) stays as it is.
void pad_rows(Batch& batch, std::int64_t rows);

}  // namespace rueda::data
