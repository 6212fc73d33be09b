// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// rueda_config_doc               prints docs/configuration.md
// rueda_config_doc FILE          writes it to FILE
// rueda_config_doc --check FILE  exits with 1 and prints one line if FILE has different content
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/settings/configuration_page.hpp"

namespace {

constexpr int kWrongUse = 2;

int check(const std::string& path) {
    if (rueda::base::read_small_file(path) == rueda::base::configuration_page()) {
        return 0;
    }
    std::fprintf(stderr, "%s is not what the table of settings says; build the target configuration_page\n",
                 path.c_str());
    return 1;
}

int write(const std::string& path) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << rueda::base::configuration_page() << std::flush;
    if (!file) {
        std::fprintf(stderr, "%s cannot be written\n", path.c_str());
        return 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
    if (arguments.size() == 1) {
        std::fputs(rueda::base::configuration_page().c_str(), stdout);
        return std::fflush(stdout) == 0 ? 0 : 1;
    }
    if (arguments.size() == 3 && std::string_view(arguments[1]) == "--check") {
        return check(arguments[2]);
    }
    if (arguments.size() == 2 && arguments[1][0] != '-') {
        return write(arguments[1]);
    }
    std::fputs("usage: rueda_config_doc [[--check] FILE]\n", stderr);
    return kWrongUse;
}
