// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/sources/stop_signal.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/status.hpp"

namespace rueda::data {

StopSignal::StopSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_.is_open()) {
        system_failure(ErrorCode::resource_exhausted, "starting a pipeline: eventfd").throw_if_failed();
    }
}

void StopSignal::give() const noexcept {
    // A write of 1 to an eventfd fails only if the counter is full, and then the signal has been given already.
    [[maybe_unused]] const int result = ::eventfd_write(event_.value(), 1);
}

bool StopSignal::is_given() const noexcept {
    pollfd question{.fd = event_.value(), .events = POLLIN, .revents = 0};
    return ::poll(&question, 1, 0) > 0;
}

}  // namespace rueda::data
