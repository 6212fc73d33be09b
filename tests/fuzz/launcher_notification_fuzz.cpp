// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the bytes from a socket that another process opened, and the environment variable that describes the socket.
// Encoding an accepted notification again must give the same bytes, and its text must be one line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/launcher_notification.hpp"
#include "core/diagnostics/launcher_line.hpp"

namespace {

using namespace rueda;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void take_word(std::string_view bytes) {
    const Result<base::LauncherNotification> notification = base::parse_launcher_notification(bytes);
    if (!notification.is_ok()) {
        expect(notification.status().code() == ErrorCode::internal && !notification.status().message().empty());
        return;
    }
    expect(base::encode(notification.value()) == bytes);
    const std::string line = core::describe_cause(notification.value());
    expect(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < ' '; }));
    const std::vector<core::HeardNotification> heard = {{notification.value(), 0}};
    expect(core::cause_among(heard, core::Standing::running, 0) == &heard.front().notification);
    expect(core::cause_among(heard, core::Standing::closed, 0) == nullptr);
}

/// Fuzzes a `LauncherPlace`: a worker's rank and variables in a generation of an elastic job. An accepted place has the
/// notification's rank. Encoding its variables again must give the same place.
void take_place(std::string_view bytes) {
    const Result<base::LauncherNotification> notification = base::parse_launcher_notification(bytes);
    if (!notification.is_ok()) {
        return;
    }
    const Result<base::LauncherPlace> place = base::parse_place(notification.value());
    if (!place.is_ok()) {
        expect(place.status().code() == ErrorCode::internal);
        return;
    }
    expect(place.value().rank == notification.value().rank && place.value().rank < place.value().ranks);
    const Result<std::string> text = base::encode_place(place.value().variables);
    expect(text.is_ok());
    base::LauncherNotification again = notification.value();
    again.text = text.value();
    const Result<base::LauncherPlace> same = base::parse_place(again);
    expect(same.is_ok() && same.value().variables.size() == place.value().variables.size() &&
           same.value().ranks == place.value().ranks);
}

void take_address(std::string_view text) {
    const Result<base::LauncherAddress> address = base::parse_launcher_address(text);
    if (!address.is_ok()) {
        expect(address.status().code() == ErrorCode::invalid_argument);
        return;
    }
    const base::LauncherAddress& value = address.value();
    expect(value.fd >= 0 && value.rank >= 0 && value.rank < value.ranks);
    const Result<base::LauncherAddress> again = base::parse_launcher_address(base::format_launcher_address(value));
    expect(again.is_ok() && again.value().fd == value.fd && again.value().inode == value.inode &&
           again.value().rank == value.rank && again.value().ranks == value.ranks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    take_word(bytes);
    take_place(bytes);
    take_address(bytes);
    return 0;
}
