// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/logging.hpp"

#include <poll.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/os.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "base/system/thread_signals.hpp"

namespace rueda::base {

namespace {

/// How long to wait for a terminal or pipe that accepts no data. After this time the line is dropped, because the log
/// must not delay the training.
constexpr int kFullPipeMilliseconds = 1000;

spdlog::level::level_enum spdlog_level(LogLevel level) noexcept {
    constexpr std::array<spdlog::level::level_enum, 7> kLevels = {
        spdlog::level::trace, spdlog::level::debug,    spdlog::level::info, spdlog::level::warn,
        spdlog::level::err,   spdlog::level::critical, spdlog::level::off};
    return kLevels[static_cast<std::size_t>(level)];
}

/// Prints one letter for the level, as spdlog does. For fatal it prints 'F', where spdlog prints 'C'.
class LevelLetter final : public spdlog::custom_flag_formatter {
public:
    void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& line) override {
        constexpr std::string_view kLetters = "TDIWEF";
        const auto level = static_cast<std::size_t>(message.level);
        line.push_back(level < kLetters.size() ? kLetters[level] : '?');
    }
    [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<LevelLetter>();
    }
};

std::unique_ptr<spdlog::formatter> line_formatter(bool hide_time, std::optional<std::int32_t> rank) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    const char* const time = hide_time ? "" : "%Y-%m-%d %H:%M:%S.%f: ";
    const std::string who = rank ? fmt::format(" [rank {}]", *rank) : std::string();
    formatter->add_flag<LevelLetter>('*').set_pattern(fmt::format("[{}%^%* rueda%$]{}: %v", time, who));
    return formatter;
}

bool wait_writable(int descriptor) {
    pollfd request = {descriptor, POLLOUT, 0};
    return poll(&request, 1, kFullPipeMilliseconds) == 1;
}

void write_all(int descriptor, std::string_view text) {
    // If nobody reads the log any more, the write must fail, and must not end the process by SIGPIPE.
    const SigpipeBlocked without_sigpipe;
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written > 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
        } else if (written == 0 || (errno == EAGAIN ? !wait_writable(descriptor) : errno != EINTR)) {
            return;
        }
    }
}

/// Writes lines, with colours, to a descriptor. spdlog's own colour sink is not used, for three reasons. It makes five
/// writes for each coloured line. It uses one lock for the whole process. It supports only the two standard streams.
class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
public:
    DescriptorSink(int descriptor, std::unique_ptr<spdlog::formatter> formatter)
        : base_sink(std::move(formatter)),
          descriptor_(descriptor),
          colored_(isatty(descriptor) == 1 && spdlog::details::os::is_color_terminal()) {}

private:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        const std::string_view text(line.data(), line.size());
        write_all(descriptor_, colored_ ? colored(text, message) : std::string(text));
    }
    void flush_() override {}

    static std::string colored(std::string_view text, const spdlog::details::log_msg& message) {
        // The colours of the levels: grey, grey, green, yellow, red, and white on red.
        constexpr std::array<const char*, 6> kColors = {"\033[90m", "\033[90m", "\033[32m",
                                                        "\033[33m", "\033[31m", "\033[97;41m"};
        const auto level = static_cast<std::size_t>(message.level);
        const std::size_t first = message.color_range_start;
        const std::size_t last = message.color_range_end;
        return fmt::format("{}{}{}\033[0m{}", text.substr(0, first), level < kColors.size() ? kColors[level] : "",
                           text.substr(first, last - first), text.substr(last));
    }

    int descriptor_;
    bool colored_;
};

}  // namespace

Logger::Logger(const Config& config, std::optional<std::int32_t> rank, int descriptor)
    : Logger(config.log_level, config.log_hide_time, rank, descriptor) {}

Logger::Logger(LogLevel level, bool hide_time, std::optional<std::int32_t> rank, int descriptor)
    : level_(level),
      hide_time_(hide_time),
      descriptor_(descriptor),
      logger_(std::make_shared<spdlog::logger>(
          "rueda", std::make_shared<DescriptorSink>(descriptor, line_formatter(hide_time, rank)))) {
    // spdlog need not filter by level, because the caller has already checked prints().
    logger_->set_level(spdlog::level::trace);
}

Logger Logger::with_rank(std::int32_t rank) const { return {level_, hide_time_, rank, descriptor_}; }

void Logger::write(LogLevel level, std::string_view text) const noexcept {
    if (prints(level)) {
        logger_->log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
    }
}

}  // namespace rueda::base
