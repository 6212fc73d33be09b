// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/programs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

bool exists(const std::string& file) {
    struct stat about {};
    return ::stat(file.c_str(), &about) == 0;
}

bool is_folder(const std::string& file) {
    struct stat about {};
    return ::stat(file.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

bool is_executable(const std::string& file) { return !is_folder(file) && ::access(file.c_str(), X_OK) == 0; }

std::string what_to_write(const std::string& name) {
    return name.ends_with(".py") ? "write python3 before it"
                                 : "make it executable (chmod +x), or write its interpreter before it";
}

}  // namespace

Result<std::string> find_program(const std::string& name, const std::string& path) {
    if (name.find('/') != std::string::npos) {
        if (!exists(name)) {
            return failure(ErrorCode::invalid_argument, "there is no program {}; check the path", base::quote(name));
        }
        if (is_folder(name)) {
            return failure(ErrorCode::invalid_argument, "{} is a folder; expected a program", base::quote(name));
        }
        if (!is_executable(name)) {
            return failure(ErrorCode::invalid_argument, "{} is not executable; {}", base::quote(name),
                           what_to_write(name));
        }
        return name;
    }
    std::string_view rest = path;
    while (!rest.empty()) {
        const std::string_view folder = take_until(rest, ':');
        const std::string file = std::string(folder.empty() ? "." : folder) + "/" + name;
        if (is_executable(file)) {
            return file;
        }
    }
    if (!exists(name)) {
        return failure(ErrorCode::invalid_argument, "there is no program {} in PATH; check its name",
                       base::quote(name));
    }
    return failure(ErrorCode::invalid_argument, "there is no program {} in PATH; for the one of this folder {}",
                   base::quote(name), is_executable(name) ? "write " + base::quote("./" + name) : what_to_write(name));
}

}  // namespace rueda::launcher
