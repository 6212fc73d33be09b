// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/settings/config.hpp"

namespace spdlog {
class logger;
}

namespace rueda::base {

/// Writes lines for the user to the standard error: `[2026-11-21 10:00:00.123456: W rueda] [rank 1]: text`. The lines
/// have colours on a terminal. Callers pass a logger by value to the code that logs. One process may have several
/// loggers with different ranks. A logger throws nothing: a line that cannot be written is dropped. Threads: any thread
/// may call these functions. Each line is one write(), so the lines of several ranks usually do not mix.
class Logger {
public:
    static constexpr int kStandardError = 2;

    /// Takes the level and the time format from `config`. If `rank` is empty, lines are printed without a rank. The
    /// caller owns `descriptor`, and must keep it open as long as the logger lives.
    explicit Logger(const Config& config, std::optional<std::int32_t> rank = std::nullopt,
                    int descriptor = kStandardError);

    /// Returns a copy of this logger that prints the given rank.
    [[nodiscard]] Logger with_rank(std::int32_t rank) const;

    [[nodiscard]] bool prints(LogLevel level) const noexcept { return level >= level_ && level != LogLevel::off; }
    /// Writes a text, which may have several lines, without formatting it.
    void write(LogLevel level, std::string_view text) const noexcept;

    template <class... Args>
    void trace(fmt::format_string<Args...> text, Args&&... args) const {
        log(LogLevel::trace, text, std::forward<Args>(args)...);
    }
    template <class... Args>
    void debug(fmt::format_string<Args...> text, Args&&... args) const {
        log(LogLevel::debug, text, std::forward<Args>(args)...);
    }
    template <class... Args>
    void info(fmt::format_string<Args...> text, Args&&... args) const {
        log(LogLevel::info, text, std::forward<Args>(args)...);
    }
    template <class... Args>
    void warning(fmt::format_string<Args...> text, Args&&... args) const {
        log(LogLevel::warning, text, std::forward<Args>(args)...);
    }
    template <class... Args>
    void error(fmt::format_string<Args...> text, Args&&... args) const {
        log(LogLevel::error, text, std::forward<Args>(args)...);
    }
    /// Logs that the process or the job is about to end. The function does not end them: it only writes the message.
    template <class... Args>
    void fatal(fmt::format_string<Args...> text, Args&&... args) const {
        log(LogLevel::fatal, text, std::forward<Args>(args)...);
    }

private:
    template <class... Args>
    void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) const {
        if (prints(level)) {
            write(level, fmt::format(text, std::forward<Args>(args)...));
        }
    }

    Logger(LogLevel level, bool hide_time, std::optional<std::int32_t> rank, int descriptor);

    LogLevel level_;
    bool hide_time_;
    int descriptor_;
    std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace rueda::base
