// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/unique_fd.hpp"

namespace rueda::data {

/// Tells threads that wait in poll(2) to stop. Threads: any.
class StopSignal {
public:
    /// Throws ResourceExhausted if the system refuses an eventfd.
    StopSignal();

    /// Gives the signal, which cannot be taken back. From then on, every poll() on descriptor() returns POLLIN at once.
    void give() const noexcept;
    [[nodiscard]] bool is_given() const noexcept;
    [[nodiscard]] int descriptor() const noexcept { return event_.value(); }

private:
    base::UniqueFd event_;
};

}  // namespace rueda::data
