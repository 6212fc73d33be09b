// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/show/terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace rueda::launcher {

namespace {

// Private modes of xterm, which all common terminals know: 1049 is the second screen, 25 is the cursor.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

constexpr std::string_view kToTheTop = "\x1b[H";
constexpr std::string_view kClearRestOfLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

bool write_all(int fd, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count >= 0) {
            text.remove_prefix(static_cast<std::size_t>(count));
        } else if (errno == EAGAIN) {
            // Another program has made the terminal non-blocking, so write() can fail. This poll() waits until the
            // terminal accepts more output.
            pollfd writable{fd, POLLOUT, 0};
            ::poll(&writable, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

}  // namespace

Status Terminal::enter() {
    termios settings{};
    if (::tcgetattr(input_, &settings) == 0) {
        termios raw = settings;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        if (::tcsetattr(input_, TCSAFLUSH, &raw) != 0) {
            return system_failure(ErrorCode::unsupported, "changing the settings of the terminal");
        }
        before_ = settings;
    }
    is_entered_ = true;
    if (!write_all(output_, kEnter)) {
        return system_failure(ErrorCode::unsupported, "writing to the terminal");
    }
    return {};
}

void Terminal::leave() noexcept {
    if (is_entered_) {
        write_all(output_, kLeave);
        is_entered_ = false;
    }
    if (before_) {
        ::tcsetattr(input_, TCSAFLUSH, &*before_);
        before_.reset();
    }
}

std::optional<std::string> Terminal::read_keys() const {
    std::array<char, 256> keys{};
    const ssize_t count = ::read(input_, keys.data(), keys.size());
    if (count > 0) {
        return std::string(keys.data(), static_cast<std::size_t>(count));
    }
    return count < 0 && (errno == EINTR || errno == EAGAIN) ? std::optional<std::string>("") : std::nullopt;
}

ScreenSize Terminal::size() const {
    winsize size{};
    if (::ioctl(output_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
        return {80, 24};  // the usual default if the size is unknown: the size of early terminals
    }
    return {size.ws_col, size.ws_row};
}

bool Terminal::show(const std::vector<std::string>& lines) const {
    std::string text(kToTheTop);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        // A line end after the last line would scroll the screen.
        text.append(i > 0 ? "\r\n" : "").append(lines[i]).append(kClearRestOfLine);
    }
    return write_all(output_, text.append(kClearBelow));
}

}  // namespace rueda::launcher
