// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::base {

/// A record of one rank (an operation, a message, a step, a scope or a part of an execution), as it is drawn in the
/// timeline. The times in `record` are nanoseconds of the job's clock, which all hosts share.
struct TimelineOperation {
    std::int32_t rank = 0;
    RecordedOperation record;
};

}  // namespace rueda::base
