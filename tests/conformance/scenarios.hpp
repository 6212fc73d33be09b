// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A part of the conformance suite: what all ranks do with their Client. Throws if something is not as promised. Leaves
/// nothing pending, so that several scenarios can run in one job.
struct Scenario {
    const char* name;
    void (*run)(Client& client);
    int least_ranks = 1;
    /// Scenarios whose inputs travel with their announcements. Only the first slots have room for such inputs, so these
    /// scenarios run before the others, which use hundreds of names.
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
/// They run in the world, and nothing may run at the same time: a rank that has joined has joined in all process sets.
[[nodiscard]] std::span<const Scenario> join_scenarios();

/// Runs all scenarios for which `client`'s job is large enough, in the same order on all ranks.
void run_scenarios(Client& client, std::span<const Scenario> scenarios);

// Helpers that the scenarios share.

/// Throws RankCheckFailed with the status' text if it is a failure.
void expect_ok(const Status& status, const std::string& what);
/// Throws unless the status is this failure; returns its message.
std::string expect_failure(const Status& status, ErrorCode code, const std::string& what);
/// Removes the tensor's name from the text of an error that comes at once. The public interface puts the name first;
/// the rooms below do not know it.
std::string without_name(std::string text, const std::string& name);
/// The final status of an operation that all ranks start.
inline Status end_of(const Result<PendingPointer>& started) {
    return started.is_ok() ? started.value()->wait() : started.status();
}

template <class T>
T expect_value(Result<T> result, const std::string& what) {
    expect_ok(result.status(), what);
    return std::move(result).value();
}

/// Where a rank has its tensors.
enum class Residency { all_private, all_resident, mixed };
inline constexpr Residency kResidencies[] = {Residency::all_private, Residency::all_resident, Residency::mixed};
[[nodiscard]] const char* name_of(Residency residency);
/// `which` numbers the tensors of an operation: in the mixed case a rank's inputs and outputs differ as well.
[[nodiscard]] bool is_resident(Residency residency, int rank, int which);

}  // namespace rueda::tests
