// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/remote_output.hpp"

#include <utility>

#include "launcher/supervisor/supervisor_protocol.hpp"

namespace rueda::launcher {

void RemoteOutput::take(JobOutput& output, int rank, const Frame& frame) {
    output.feed(rank, frame.value == kStandardError, frame.payload);
    unacknowledged_ += frame.payload.size();
}

void RemoteOutput::advance(const JobOutput& output, FrameLink& link) {
    constexpr std::size_t kWorthAMessage = kOutputCredit / 4;  // ruedarun allows many bytes with one message, so that
                                                               // it need not send many messages
    if (!link.is_open()) {
        return;
    }
    if (!output.is_full() && unacknowledged_ >= kWorthAMessage) {
        link.send(FrameKind::more_output, static_cast<std::int32_t>(std::exchange(unacknowledged_, 0)));
    }
    for (const std::int32_t stream : {kStandardOutput, kStandardError}) {
        const bool is_error = stream == kStandardError;
        if (output.has_lost_reader(is_error) && !std::exchange(is_stopped_[is_error ? 1 : 0], true)) {
            link.send(FrameKind::stop_output, stream);
        }
    }
}

}  // namespace rueda::launcher
