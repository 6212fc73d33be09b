// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/launcher_notification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::base {
namespace {

constexpr std::uint32_t kMagic = 0x31574452;  // "RDW1"

/// The message passes between processes of one host, so its numbers are in this machine's byte order.
struct Header {
    std::uint32_t magic = kMagic;
    std::uint32_t kind = 0;
    std::int32_t rank = 0;
    std::uint32_t bytes = 0;
};
static_assert(sizeof(Header) == kLauncherHeaderBytes && std::is_trivially_copyable_v<Header>);

bool is_known(std::uint32_t kind) {
    return kind >= static_cast<std::uint32_t>(LauncherNotification::Kind::ended_well) &&
           kind <= static_cast<std::uint32_t>(LauncherNotification::Kind::dismissed);
}

std::size_t most_text(std::uint32_t kind) {
    return kind == static_cast<std::uint32_t>(LauncherNotification::Kind::place) ? kMostPlaceText : kMostLauncherText;
}

bool is_variable_letter(char letter) {
    return (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') || letter == '_';
}

}  // namespace

std::string encode(const LauncherNotification& notification) {
    Header header;
    header.kind = static_cast<std::uint32_t>(notification.kind);
    const std::string text = printable(notification.text, most_text(header.kind));
    header.rank = notification.rank;
    header.bytes = static_cast<std::uint32_t>(text.size());
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + text;
}

Result<LauncherNotification> parse_launcher_notification(std::string_view bytes) {
    Header header;
    if (bytes.size() < sizeof header || bytes.size() > kMostLauncherNotification) {
        return failure(ErrorCode::internal, "a notification of the launcher has {} bytes; expected {} to {}",
                       bytes.size(), kLauncherHeaderBytes, kMostLauncherNotification);
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::string_view text = bytes.substr(sizeof header);
    if (header.magic != kMagic || !is_known(header.kind) || header.rank < 0 || header.bytes != text.size() ||
        text.size() > most_text(header.kind) || std::any_of(text.begin(), text.end(), is_control)) {
        return failure(
            ErrorCode::internal,
            "a notification of the launcher is damaged: magic {:#x}, kind {}, rank {}, {} bytes of text that are "
            "said to be {}",
            header.magic, header.kind, header.rank, text.size(), header.bytes);
    }
    return LauncherNotification{static_cast<LauncherNotification::Kind>(header.kind), header.rank, std::string(text)};
}

Result<std::string> encode_place(const std::vector<PlaceVariable>& variables) {
    std::string text;
    for (const PlaceVariable& variable : variables) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", variable.name, variable.value);
    }
    if (text.size() > kMostPlaceText) {
        return failure(ErrorCode::resource_exhausted,
                       "the variables of a place have {} bytes, expected at most {}: give the host fewer addresses",
                       text.size(), kMostPlaceText);
    }
    return text;
}

Result<LauncherPlace> parse_place(const LauncherNotification& notification) {
    LauncherPlace place;
    std::optional<std::int32_t> rank;
    std::optional<std::int32_t> ranks;
    std::string_view rest = notification.text;
    while (!rest.empty()) {
        const std::string_view word = rest.substr(0, std::min(rest.find(' '), rest.size()));
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
        const std::string_view name = word.substr(0, std::min(word.find('='), word.size()));
        if (name.empty() || name.size() == word.size() || !std::all_of(name.begin(), name.end(), is_variable_letter)) {
            return failure(ErrorCode::internal, "a place of the launcher has {}; expected NAME=VALUE", quote(word));
        }
        const std::string_view value = word.substr(name.size() + 1);
        rank = name == "RUEDA_RANK" ? parse_integer<std::int32_t>(value) : rank;
        ranks = name == "RUEDA_SIZE" ? parse_integer<std::int32_t>(value) : ranks;
        place.variables.push_back({std::string(name), std::string(value)});
    }
    if (!rank || !ranks || *rank != notification.rank || *rank >= *ranks) {
        return failure(ErrorCode::internal,
                       "a place of the launcher is damaged: it is for rank {}, and its variables are {}",
                       notification.rank, quote(notification.text));
    }
    place.rank = *rank;
    place.ranks = *ranks;
    return place;
}

std::string format_launcher_address(const LauncherAddress& address) {
    return fmt::format("{}:{}:{}:{}", address.fd, address.inode, address.rank, address.ranks);
}

Result<LauncherAddress> parse_launcher_address(std::string_view text) {
    std::array<std::string_view, 4> parts;
    std::string_view rest = text;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t length = i + 1 < parts.size() ? std::min(rest.find(':'), rest.size()) : rest.size();
        parts[i] = rest.substr(0, length);
        rest.remove_prefix(std::min(length + 1, rest.size()));
    }
    const auto fd = parse_integer<int>(parts[0]);
    const auto inode = parse_integer<std::uint64_t>(parts[1]);
    const auto rank = parse_integer<std::int32_t>(parts[2]);
    const auto ranks = parse_integer<std::int32_t>(parts[3]);
    if (!fd || *fd < 0 || !inode || !rank || !ranks || *rank < 0 || *rank >= *ranks) {
        return failure(ErrorCode::invalid_argument,
                       "{} is {}; expected descriptor:inode:rank:ranks, as ruedarun sets it", kLauncherVariable,
                       quote(text));
    }
    return LauncherAddress{*fd, *inode, *rank, *ranks};
}

}  // namespace rueda::base
