// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/selection/select_control_plane.hpp"
#include "core/c_interface/process.hpp"
#include "core/setup/first_sets.hpp"

/// How this process joins a job, and what it prepares for its own end.
namespace rueda::core::c_interface {

/// The arguments of init besides the ranks of the job.
struct SetsToMake {
    FirstSets first;
    std::int32_t* ids = nullptr;  // null: the caller does not need the numbers

    /// Creates the sets, for a job that has just begun. The result is the same on all ranks, because all ranks gave the
    /// same list.
    [[nodiscard]] Status make(Runtime& runtime) const;
    /// Finds the existing sets, for a job that this process is already in.
    [[nodiscard]] Status find(Runtime& runtime) const;

private:
    template <class Number>
    [[nodiscard]] Status for_each(Number&& number) const;
};

/// The caller holds the process mutex. If the process is in a job already, this function checks whether that job is the
/// requested one.
[[nodiscard]] Status initialise(Process& state, const collectives::Membership& membership, SetsToMake sets = {});

}  // namespace rueda::core::c_interface
