// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/ssh_command.hpp"

#include "launcher/options/shell_words.hpp"

namespace rueda::launcher {

std::vector<std::string> ssh_command(const std::string& host, const SshOptions& options,
                                     std::span<const std::string> program) {
    std::vector<std::string> words = {"ssh", "-x", "-T", "-o", "BatchMode=yes"};
    if (options.port) {
        words.insert(words.end(), {"-p", std::to_string(*options.port)});
    }
    if (!options.identity.empty()) {
        words.insert(words.end(), {"-i", options.identity});
    }
    // With exec, no shell stays between sshd and the program. Without a terminal (-T), sshd sends the program no signal
    // when ssh ends. The program itself notices the end of ssh, because its own connections end.
    words.insert(words.end(), {host, "exec " + shell_join(program)});
    return words;
}

}  // namespace rueda::launcher
