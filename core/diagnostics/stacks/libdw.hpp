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
    /// Reads the list of this process's modules (the program and its libraries). Call this before line_of() and
    /// symbol_of(), and again if libraries may have been loaded since the last call.
    [[nodiscard]] bool read_modules();
    /// Returns the source line of the instruction at an address. Returns nothing if the module of the address has no
    /// debug information.
    [[nodiscard]] std::optional<Line> line_of(std::uintptr_t address) const;
    /// Returns the name of the symbol at an address, as the linker knows it. Returns "" if there is none.
    [[nodiscard]] std::string symbol_of(std::uintptr_t address) const;

private:
    struct Functions;
    explicit Libdw(const Functions& functions);

    std::unique_ptr<Functions> functions_;
    void* session_ = nullptr;  // Dwfl*
};

}  // namespace rueda::core
