// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>

#include "launcher/output/job_output.hpp"
#include "launcher/supervisor/frame_link.hpp"

namespace rueda::launcher {

/// The output that the supervisor of a rank on another host sends. The supervisor may send only as much as this object
/// allows, so that much output does not delay the supervisor's other frames (kOutputCredit). Threads: only one thread
/// may use an object.
class RemoteOutput {
public:
    /// Prints the output of a frame of the kind `output`.
    void take(JobOutput& output, int rank, const Frame& frame);
    /// Allows the supervisor to send more, unless the reader of ruedarun's output pauses. Stops a stream that has no
    /// reader any more.
    void advance(const JobOutput& output, FrameLink& link);

private:
    std::array<bool, 2> is_stopped_{};
    std::size_t unacknowledged_ = 0;  ///< bytes of output that ruedarun has not yet acknowledged by `more_output`
};

}  // namespace rueda::launcher
