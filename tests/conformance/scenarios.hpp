// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A piece of the conformance suite: what all ranks do with their Client. Throws where something is not as promised.
/// Leaves nothing pending, so that scenarios can follow each other in one job.
struct Scenario {
    const char* name;
    void (*run)(Client& client);
    int least_ranks = 1;
    /// Of inputs that travel with their announcements: there is room for that in the first slots only, so these come
    /// before the others, which have hundreds of names.
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

/// Of all of these.
[[nodiscard]] std::vector<Scenario> all_scenarios();
/// Of the world, with nothing beside them: who has joined is away in all process sets.
[[nodiscard]] std::span<const Scenario> join_scenarios();

/// All that `client`'s job is large enough for, in the same order on all ranks.
void run_scenarios(Client& client, std::span<const Scenario> scenarios);

// What scenarios have in common.

/// Throws RankCheckFailed with the status' text where it is a failure.
void expect_ok(const Status& status, const std::string& what);
/// Throws where it is not this failure; returns its message.
std::string expect_failure(const Status& status, ErrorCode code, const std::string& what);
/// The text of what is refused at once, without the tensor's name: the public interface says it first, the rooms below
/// do not know it.
std::string without_name(std::string text, const std::string& name);
/// How an operation ends that all ranks start.
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
/// `which` numbers the tensors of an operation: in the mixed case inputs and outputs of a rank differ too.
[[nodiscard]] bool is_resident(Residency residency, int rank, int which);

}  // namespace rueda::tests
