// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/process.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

namespace rueda::tests::gpu {

bool is_alive(int process) {
    std::ifstream file(fmt::format("/proc/{}/stat", process));
    std::stringstream text;
    text << file.rdbuf();
    // The file has the state after the program's name, which is in parentheses (proc(5)).
    const std::string all = text.str();
    const std::size_t end = all.rfind(") ");
    return end != std::string::npos && all.compare(end + 2, 1, "Z") != 0 && all.compare(end + 2, 1, "X") != 0;
}

}  // namespace rueda::tests::gpu
