// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// A message of a control plane is never longer, results of an allgather included.
inline constexpr std::size_t kMaxControlMessage = std::size_t{64} << 20;

/// Puts numbers and texts one after the other, in this machine's byte order: all messages of a control plane stay
/// among builds of the same architecture. Threads: one at a time.
class WireWriter {
public:
    template <class T>
    requires(std::is_integral_v<T>) void number(T value) { append(std::as_bytes(std::span(&value, 1))); }
    /// Length first, in 32 bits.
    void text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        append(std::as_bytes(std::span(value)));
    }
    void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    [[nodiscard]] Bytes take() && { return std::move(bytes_); }

private:
    Bytes bytes_;
};

/// Takes them out again. Once something was missing or too long, everything that follows is zero or empty, and
/// `complete()` says no: callers read all fields and check once. Threads: one at a time.
class WireReader {
public:
    explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) [[nodiscard]] T number() {
        T value{};
        if (const auto bytes = take(sizeof(T)); bytes.size() == sizeof(T)) {
            std::memcpy(&value, bytes.data(), sizeof(T));
        }
        return value;
    }
    /// Refuses lengths above `limit` before anything is allocated.
    [[nodiscard]] std::string text(std::size_t limit) {
        const std::size_t length = number<std::uint32_t>();
        if (length > limit) {
            damaged_ = true;
        }
        const auto bytes = take(length);
        std::string value(bytes.size(), '\0');
        if (!bytes.empty()) {
            std::memcpy(value.data(), bytes.data(), bytes.size());
        }
        return value;
    }
    [[nodiscard]] std::span<const std::byte> take(std::size_t count) {
        if (damaged_ || count > rest_.size()) {
            damaged_ = true;
            return {};
        }
        const auto bytes = rest_.first(count);
        rest_ = rest_.subspan(count);
        return bytes;
    }
    /// Everything asked for was there.
    [[nodiscard]] bool intact() const { return !damaged_; }
    /// The same, and nothing is left over.
    [[nodiscard]] bool complete() const { return !damaged_ && rest_.empty(); }

private:
    std::span<const std::byte> rest_;
    bool damaged_ = false;
};

}  // namespace rueda::collectives
