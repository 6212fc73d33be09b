// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rueda::core {

/// The part of libdw.so.1 (elfutils) that finds symbols and lines of this process. It is loaded when it is first
/// needed, so that Rueda works without it.
///
/// Threads: one at a time.
class Libdw {
public:
    /// Null if the library cannot be loaded, or lacks a function. Once loaded, it stays loaded.
    [[nodiscard]] static std::unique_ptr<Libdw> load();
    ~Libdw();
    Libdw(const Libdw&) = delete;
    Libdw& operator=(const Libdw&) = delete;

    struct Line {
        std::string file;
        int number = 0;
    };
    /// Reads the list of this process's modules. Call it before the two functions below, and again when libraries may
    /// have been loaded since.
    [[nodiscard]] bool read_modules();
    /// The source line of the instruction at an address; nothing if its module has no debug information.
    [[nodiscard]] std::optional<Line> line_of(std::uintptr_t address) const;
    /// The symbol, as the linker knows it; "" if there is none.
    [[nodiscard]] std::string symbol_of(std::uintptr_t address) const;

private:
    struct Functions;
    explicit Libdw(const Functions& functions);

    std::unique_ptr<Functions> functions_;
    void* session_ = nullptr;  // Dwfl*
};

}  // namespace rueda::core
