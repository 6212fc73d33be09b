// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>

#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/supervisor/frame_link.hpp"

namespace rueda::launcher {

/// Sends a program's standard output and error to ruedarun on another host. Threads: only one thread may use an object.
class OutputPump {
public:
    /// Opens the pipes. This process keeps the write ends open until close_write_ends() is called.
    [[nodiscard]] Status open();
    [[nodiscard]] std::array<int, 2> write_ends() const {
        return {streams_[0].write_end.value(), streams_[1].write_end.value()};
    }
    void close_write_ends();
    void add_to(base::PollSet& set, FrameLink& link);
    /// Allows `bytes` more bytes of output to be sent. Call this when ruedarun has acknowledged this number of bytes.
    void add_credit(std::int32_t bytes) { credit_ += bytes; }
    /// Sends all output in the pipes, even if ruedarun has not allowed more output. The pipes are small, so this is not
    /// much output.
    void drain(FrameLink& link);
    /// Closes both streams. If the program writes afterwards, it gets SIGPIPE.
    void close();
    /// Closes one of the streams.
    void close_stream(bool is_error) { streams_[is_error ? 1 : 0].read_end.reset(); }

private:
    /// Reads once. Returns false if nothing can be read now, or if the stream has ended.
    bool read_once(std::size_t stream, FrameLink& link);

    std::array<OutputPipe, 2> streams_;  ///< standard output, then standard error
    std::int64_t credit_ = kOutputCredit;
};

}  // namespace rueda::launcher
