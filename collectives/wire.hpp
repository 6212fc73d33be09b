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

/// The maximum length in bytes of a control plane's message, including the result of an allgather.
inline constexpr std::size_t kMaxControlMessage = std::size_t{64} << 20;

/// Writes numbers and texts one after the other, in this machine's byte order. All ranks of a job have the same
/// architecture, so every rank can read what another rank wrote. Threads: any thread, but only one at a time.
class WireWriter {
public:
    template <class T>
    requires(std::is_integral_v<T>) void number(T value) { append(std::as_bytes(std::span(&value, 1))); }
    /// Writes the length, in 32 bits, and then the content.
    void text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        append(std::as_bytes(std::span(value)));
    }
    void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    [[nodiscard]] std::size_t size() const { return bytes_.size(); }
    [[nodiscard]] Bytes take() && { return std::move(bytes_); }

private:
    Bytes bytes_;
};

/// Reads what a WireWriter wrote. If a field is missing or too long, this field and all later fields are read as zero
/// or empty, and complete() returns false. So callers can read all fields first, and then check once. Threads: any
/// thread, but only one at a time.
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
    /// Reads a text. Refuses a length above `limit` before it allocates memory.
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
    /// Whether all reads so far succeeded: every field was in the message, and none was too long.
    [[nodiscard]] bool intact() const { return !damaged_; }
    /// Whether all reads succeeded, and no bytes of the message are left.
    [[nodiscard]] bool complete() const { return !damaged_ && rest_.empty(); }

private:
    std::span<const std::byte> rest_;
    bool damaged_ = false;
};

/// Encodes a failure as a message to another rank.
[[nodiscard]] Bytes encode_failure(const Status& status);
/// Parses a failure that another process sent. If the bytes are damaged, the returned failure says so.
[[nodiscard]] Status parse_failure(std::span<const std::byte> bytes);

}  // namespace rueda::collectives
