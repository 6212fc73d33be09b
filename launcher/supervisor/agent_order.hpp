// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// What the agent of a host must start. The order contains the secrets of the job, so no other user must be able to
/// read it. An agent on this host gets the order as a file in memory. An agent on another host gets it through ssh.
struct AgentOrder {
    std::string folder;                        ///< the folder in which the ranks run
    int first_rank = 0;                        ///< the lowest rank that this agent starts; the ranks of an agent have
                                               ///< consecutive numbers
    int ranks = 0;                             ///< the number of ranks that this agent starts
    int local_ranks = 0;                       ///< the number of ranks among which the host's cores are divided
    std::vector<std::string> arguments;        ///< the arguments of each supervisor: its options, "--", the program
    std::vector<EnvironmentChange> variables;  ///< changes to the agent's own environment
};

/// Encodes an order. Each part ends with a zero byte, which no argument and no variable can contain.
[[nodiscard]] std::string encode_order(const AgentOrder& order);
/// Parses an order. Returns nothing if the text is not a complete order of this version.
[[nodiscard]] std::optional<AgentOrder> parse_order(std::string_view text);

}  // namespace rueda::launcher
