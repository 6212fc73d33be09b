// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/output_pump.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rueda::launcher {

Status OutputPump::open() {
    for (OutputPipe& stream : streams_) {
        Result<OutputPipe> opened = open_output_pipe();
        RUEDA_RETURN_IF_FAILED(opened.status());
        stream = std::move(opened).value();
    }
    return {};
}

void OutputPump::close_write_ends() {
    for (OutputPipe& stream : streams_) {
        stream.write_end.reset();
    }
}

void OutputPump::close() {
    for (OutputPipe& stream : streams_) {
        stream.read_end.reset();
    }
}

void OutputPump::add_to(base::PollSet& set, FrameLink& link) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        if (streams_[i].read_end.is_open() && credit_ > 0 && !link.is_congested()) {
            set.add(streams_[i].read_end.value(), POLLIN, [this, i, &link] { read_once(i, link); });
        }
    }
}

void OutputPump::drain(FrameLink& link) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        // A descendant that still writes might never stop, so drain() reads each pipe at most kPipeReads times. These
        // reads together take at most the usual capacity of a pipe.
        constexpr int kPipeReads = 16;
        for (int reads = 0; reads < kPipeReads && read_once(i, link); ++reads) {
        }
    }
}

bool OutputPump::read_once(std::size_t stream, FrameLink& link) {
    base::UniqueFd& read_end = streams_[stream].read_end;
    if (!read_end.is_open()) {
        return false;
    }
    std::array<char, FrameLink::kMostPayload> buffer;
    const ssize_t got = ::read(read_end.value(), buffer.data(), buffer.size());
    if (got > 0) {
        credit_ -= got;
        link.send(FrameKind::output, stream == 0 ? kStandardOutput : kStandardError,
                  {buffer.data(), static_cast<std::size_t>(got)});
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        read_end.reset();
    }
    return false;
}

}  // namespace rueda::launcher
