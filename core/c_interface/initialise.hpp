// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/selection/select_control_plane.hpp"
#include "core/c_interface/process.hpp"
#include "core/setup/first_sets.hpp"

/// How this process comes into a job, and what it leaves behind for its end.
namespace rueda::core::c_interface {

/// What is given beside who is in the job.
struct SetsToMake {
    FirstSets first;
    std::int32_t* ids = nullptr;  // null: nobody asks for them

    /// Of the job that has begun: the same on all ranks, as the lists are.
    [[nodiscard]] Status make(Runtime& runtime) const;
    /// Of the job that this process is in already.
    [[nodiscard]] Status find(Runtime& runtime) const;

private:
    template <class Number>
    [[nodiscard]] Status for_each(Number&& number) const;
};

/// With the process' mutex held. In a job already: whether it is this one.
[[nodiscard]] Status initialise(Process& state, const collectives::Membership& membership, SetsToMake sets = {});

}  // namespace rueda::core::c_interface
