// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/selection/select_control_plane.hpp"
#include "core/c_interface/process.hpp"
#include "core/setup/first_sets.hpp"

/// How this process joins a job, and what it prepares for its own exit.
namespace rueda::core::c_interface {

/// The process sets that are created during init.
struct SetsToMake {
    FirstSets first;
    // the caller's array for the numbers of the sets; null if the caller does not need them
    std::int32_t* ids = nullptr;

    /// Creates the sets in a job that has just begun. All ranks gave the same list, so all get the same result.
    [[nodiscard]] Status make(Runtime& runtime) const;
    /// For a repeated call of init(): finds the sets in the job that this process has already joined.
    [[nodiscard]] Status find(Runtime& runtime) const;

private:
    template <class Number>
    [[nodiscard]] Status for_each(Number&& number) const;
};

/// Joins a job. The caller holds the process mutex. If the process has joined a job already, this function only checks
/// that this job is the requested one.
[[nodiscard]] Status initialise(Process& state, const collectives::Membership& membership, SetsToMake sets = {});

}  // namespace rueda::core::c_interface
