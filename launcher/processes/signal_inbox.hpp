// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// Turns signals into messages that an event loop reads. Signals that the caller's shell ignores (nohup, background
/// jobs) stay ignored. While the object exists, this thread blocks the signals. Threads: only one thread may use an
/// object.
class SignalInbox {
public:
    SignalInbox() = default;
    SignalInbox(const SignalInbox&) = delete;
    SignalInbox& operator=(const SignalInbox&) = delete;
    ~SignalInbox();

    [[nodiscard]] Status open(std::initializer_list<int> signals);
    [[nodiscard]] int fd() const { return fd_.value(); }
    /// Returns the next signal, or nothing if none has arrived.
    [[nodiscard]] std::optional<signalfd_siginfo> take();
    /// The signal mask that this thread had before open(). Child processes start with it.
    [[nodiscard]] const sigset_t& original_mask() const { return original_mask_; }

private:
    base::UniqueFd fd_;
    sigset_t original_mask_{};
};

}  // namespace rueda::launcher
