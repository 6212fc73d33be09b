// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/diagnostics/stacks/libdw.hpp"

namespace rueda::core {

/// A native frame, with names. Unknown values are empty.
struct NativeFrame {
    std::string function = {};  ///< the function's name as C++ writes it, for example "load_batch(int)"
    std::string file = {};
    int line = 0;
    std::string module = {};   ///< the file name of the program or library, without its folder
    std::uint64_t offset = 0;  ///< the distance in bytes from the function's beginning, or from the module's beginning
                               ///< if `function` is empty
};

/// One line, for example "load_batch(int), loader.cpp:17" or "nanosleep+0x4 in libc.so.6".
[[nodiscard]] std::string describe(const NativeFrame& frame);

/// Finds the names of addresses in this process. The functions open files and allocate memory, so a signal handler must
/// not call them.
///
/// Threads: one at a time.
class FrameNames {
public:
    /// Loads libdw if `with_lines` is true and the library exists.
    explicit FrameNames(bool with_lines = true);

    [[nodiscard]] std::vector<NativeFrame> names_of(std::span<const std::uintptr_t> addresses);
    /// Whether lines can be found for modules that have debug information.
    [[nodiscard]] bool has_lines() const { return libdw_ != nullptr; }

private:
    [[nodiscard]] NativeFrame name_of(std::uintptr_t address, bool has_modules) const;

    std::unique_ptr<Libdw> libdw_;
};

}  // namespace rueda::core
