// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A part of the conformance suite. All ranks call `run`, each with its Client. `run` throws if Rueda breaks a promise.
/// It leaves no operation pending, so that several scenarios can run in one job.
struct Scenario {
    const char* name;
    void (*run)(Client& client);
    int least_ranks = 1;
    /// Whether the scenario runs before the others. This is for scenarios whose inputs travel in announcements: only
    /// the first slots have memory for such inputs, and other scenarios use hundreds of slots.
    bool early = false;
};

[[nodiscard]] std::span<const Scenario> adasum_scenarios();
[[nodiscard]] std::span<const Scenario> allreduce_scenarios();
[[nodiscard]] std::span<const Scenario> exchange_scenarios();
[[nodiscard]] std::span<const Scenario> scatter_scenarios();
[[nodiscard]] std::span<const Scenario> naming_scenarios();
[[nodiscard]] std::span<const Scenario> error_scenarios();
[[nodiscard]] std::span<const Scenario> group_scenarios();
[[nodiscard]] std::span<const Scenario> root_scenarios();

/// Returns the scenarios of all files except join_scenarios().
[[nodiscard]] std::vector<Scenario> all_scenarios();
/// Scenarios with joins. A rank joins in all process sets at once, so nothing else may run at the same time.
[[nodiscard]] std::span<const Scenario> join_scenarios();

/// Runs the scenarios in order. Skips scenarios that need more ranks than the client has.
void run_scenarios(Client& client, std::span<const Scenario> scenarios);

// The scenarios share the following helpers.

/// Throws RankCheckFailed with the status's text if the status is a failure.
void expect_ok(const Status& status, const std::string& what);
/// Throws unless the status is a failure with this code. Returns the failure's message.
std::string expect_failure(const Status& status, ErrorCode code, const std::string& what);
/// Removes the tensor's name from the beginning of an error text. The public interface puts the name there, whereas
/// core::Runtime does not.
std::string without_name(std::string text, const std::string& name);
/// Returns the final status of an operation, or the error of its start.
inline Status end_of(const Result<PendingPointer>& started) {
    return started.is_ok() ? started.value()->wait() : started.status();
}

template <class T>
T expect_value(Result<T> result, const std::string& what) {
    expect_ok(result.status(), what);
    return std::move(result).value();
}

/// The kind of memory of a rank's tensors.
enum class Residency { all_private, all_resident, mixed };
inline constexpr Residency kResidencies[] = {Residency::all_private, Residency::all_resident, Residency::mixed};
[[nodiscard]] const char* name_of(Residency residency);
/// Returns whether tensor number `which` of an operation is in resident memory. With `mixed`, this also differs between
/// a rank's inputs and outputs.
[[nodiscard]] bool is_resident(Residency residency, int rank, int which);

}  // namespace rueda::tests
