// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>

#include "rueda/data.h"
#include "rueda/data/vocabulary.hpp"

/// The vocabulary to which a pointer of the C interface points. Pipelines share the vocabulary, so it may be closed
/// before them.
struct rueda_data_vocabulary {
    std::shared_ptr<rueda::data::Vocabulary> vocabulary;
};
