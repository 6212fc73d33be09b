// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A part of the conformance suite: a function that all ranks call, each with its Client. It throws if Rueda breaks a
/// promise. It leaves no operation pending, so several scenarios can run in one job.
struct Scenario {
    const char* name;
    void (*run)(Client& client);
    int least_ranks = 1;
    /// Scenarios whose inputs travel with their announcements. Only the first slots have memory for such inputs. So
    /// these scenarios run before the others, which use hundreds of names.
    bool early = false;
};

[[nodiscard]] std::span<const Scenario> adasum_scenarios();
[[nodiscard]] std::span<const Scenario> allreduce_scenarios();
[[nodiscard]] std::span<const Scenario> exchange_scenarios();
[[nodiscard]] std::span<const Scenario> scatter_scenarios();
[[nodiscard]] std::span<const Scenario> turns_scenarios();
[[nodiscard]] std::span<const Scenario> naming_scenarios();
[[nodiscard]] std::span<const Scenario> error_scenarios();
[[nodiscard]] std::span<const Scenario> group_scenarios();
[[nodiscard]] std::span<const Scenario> root_scenarios();

/// All of these together.
[[nodiscard]] std::vector<Scenario> all_scenarios();
/// Scenarios that run in the world while nothing else runs, because a rank that has joined has joined in all process
/// sets.
[[nodiscard]] std::span<const Scenario> join_scenarios();

/// Runs, in the same order on all ranks, all scenarios that do not need more ranks than `client`'s job has.
void run_scenarios(Client& client, std::span<const Scenario> scenarios);

// Helpers that the scenarios share.

/// If the status is a failure, throws RankCheckFailed with the text of the status.
void expect_ok(const Status& status, const std::string& what);
/// Throws unless the status is this failure. Returns the failure's message.
std::string expect_failure(const Status& status, ErrorCode code, const std::string& what);
/// Removes the tensor's name from the beginning of an error text that a call returned at once. The public interface
/// puts the name there; core::Runtime does not know the name.
std::string without_name(std::string text, const std::string& name);
/// Returns the final status of an operation that all ranks start.
inline Status end_of(const Result<PendingPointer>& started) {
    return started.is_ok() ? started.value()->wait() : started.status();
}

template <class T>
T expect_value(Result<T> result, const std::string& what) {
    expect_ok(result.status(), what);
    return std::move(result).value();
}

/// The kind of memory in which a rank has its tensors.
enum class Residency { all_private, all_resident, mixed };
inline constexpr Residency kResidencies[] = {Residency::all_private, Residency::all_resident, Residency::mixed};
[[nodiscard]] const char* name_of(Residency residency);
/// Returns whether the tensor with number `which` of an operation lies in resident memory. In the mixed case, a rank's
/// inputs and outputs also differ from each other.
[[nodiscard]] bool is_resident(Residency residency, int rank, int which);

}  // namespace rueda::tests
