// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::base {

/// An operation, a step or a scope of a rank. The times in the record are nanoseconds of the job's clock, which is the
/// same for all hosts.
struct TimelineOperation {
    std::int32_t rank = 0;
    RecordedOperation record;
};

}  // namespace rueda::base
