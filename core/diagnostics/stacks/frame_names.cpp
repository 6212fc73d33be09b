// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/frame_names.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/text.hpp"

namespace rueda::core {
namespace {

/// Longer names are shortened. The full name of a C++ template may fill more than a page of text.
constexpr std::size_t kLongestFunction = 120;
constexpr std::size_t kLongestFile = 120;

std::string demangled(const std::string& symbol) {
    int status = 0;
    char* const name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string text = status == 0 && name != nullptr ? name : symbol;
    std::free(name);  // NOLINT(cppcoreguidelines-no-malloc): __cxa_demangle allocates it so
    return base::printable(base::shortened(text, kLongestFunction));
}

std::string last_part(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

/// Shortens a long path: keeps its end.
std::string short_path(std::string_view path) {
    return base::printable(path.size() <= kLongestFile
                               ? std::string(path)
                               : "…" + std::string(path.substr(path.size() - kLongestFile + 3)));
}

}  // namespace

std::string describe(const NativeFrame& frame) {
    const std::string module = frame.module.empty() ? "an unknown module" : frame.module;
    if (frame.function.empty()) {
        return frame.line > 0 ? fmt::format("{}:{} in {}", frame.file, frame.line, module)
                              : fmt::format("0x{:x} in {}", frame.offset, module);
    }
    return frame.line > 0 ? fmt::format("{}, {}:{}", frame.function, frame.file, frame.line)
                          : fmt::format("{}+0x{:x} in {}", frame.function, frame.offset, module);
}

FrameNames::FrameNames(bool with_lines) : libdw_(with_lines ? Libdw::load() : nullptr) {}

std::vector<NativeFrame> FrameNames::names_of(std::span<const std::uintptr_t> addresses) {
    const bool has_modules = libdw_ != nullptr && libdw_->read_modules();
    std::vector<NativeFrame> frames;
    for (const std::uintptr_t address : addresses) {
        frames.push_back(name_of(address, has_modules));
    }
    return frames;
}

/// dladdr() knows only the dynamic symbols. libdw also knows the symbols of functions that no other module uses.
NativeFrame FrameNames::name_of(std::uintptr_t address, bool has_modules) const {
    NativeFrame frame;
    Dl_info found{};
    if (dladdr(reinterpret_cast<const void*>(address), &found) != 0) {
        frame.module = found.dli_fname != nullptr ? base::printable(last_part(found.dli_fname)) : "";
        const auto begin =
            reinterpret_cast<std::uintptr_t>(found.dli_sname != nullptr ? found.dli_saddr : found.dli_fbase);
        frame.function = found.dli_sname != nullptr ? demangled(found.dli_sname) : "";
        frame.offset = address - begin;
    } else {
        frame.offset = address;
    }
    if (!has_modules) {
        return frame;
    }
    if (const std::string symbol = libdw_->symbol_of(address); !symbol.empty()) {
        frame.function =
            demangled(symbol.substr(0, symbol.find('@')));  // cuts off the version, as in nanosleep@GLIBC_2.2.5
    }
    if (const auto line = libdw_->line_of(address)) {
        frame.file = short_path(line->file);
        frame.line = line->number;
    }
    return frame;
}

}  // namespace rueda::core
