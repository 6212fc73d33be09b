// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace rueda::data::wire {

/// Reads the wire format of protocol buffers (protobuf.dev/programming-guides/encoding). Every length is compared with
/// the number of bytes that remain. A function returns false if the bytes are not valid. The cursor's place is
/// undefined after that. Threads: any.

/// The wire types: the lower three bits of a tag.
inline constexpr std::uint64_t kVarint = 0;
inline constexpr std::uint64_t kFixed64 = 1;
inline constexpr std::uint64_t kLength = 2;
inline constexpr std::uint64_t kFixed32 = 5;

[[nodiscard]] constexpr std::uint64_t tag_of(std::uint64_t field, std::uint64_t wire_type) noexcept {
    return (field << 3) | wire_type;
}

/// Bytes that were not read yet. At least 8 bytes behind `end` must be readable; their values do not matter. A cursor
/// without bytes may have null pointers, so its user must call empty() before reading from it.
struct Cursor {
    const char* place = nullptr;
    const char* end = nullptr;

    [[nodiscard]] bool empty() const noexcept { return place == end; }
    [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(end - place); }
};

[[nodiscard]] inline bool read_long_varint(Cursor& cursor, std::uint64_t& value) noexcept {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (cursor.empty()) {
            return false;
        }
        const auto byte = static_cast<unsigned char>(*cursor.place++);
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;  // more than ten bytes
}

/// Removes the topmost bit of each of the eight bytes, and joins the remaining bits (seven from each byte).
[[nodiscard]] inline std::uint64_t join_seven_bits(std::uint64_t word) noexcept {
    word = ((word & 0x7f007f007f007f00) >> 1) | (word & 0x007f007f007f007f);
    word = ((word & 0x3fff00003fff0000) >> 2) | (word & 0x00003fff00003fff);
    return ((word & 0x0fffffff00000000) >> 4) | (word & 0x000000000fffffff);
}

/// Reads a varint of any length. A varint of up to eight bytes is read without a branch that depends on its length.
[[nodiscard]] inline bool read_any_varint(Cursor& cursor, std::uint64_t& value) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, cursor.place, sizeof word);  // this copy may read behind cursor.end; Cursor allows it
    const std::uint64_t last = ~word & 0x8080808080808080;
    if (last == 0) {
        return read_long_varint(cursor, value);
    }
    // The lowest set bit of `last` is the topmost bit of the varint's last byte. The bits of `word` above this byte are
    // removed.
    const int bits = std::countr_zero(last) + 1;
    value = join_seven_bits(bits == 64 ? word : word & ((std::uint64_t{1} << bits) - 1));
    const auto bytes = static_cast<std::size_t>(bits) / 8;
    if (bytes > cursor.size()) {
        return false;
    }
    cursor.place += bytes;
    return true;
}

/// Reads a varint. The function is fastest for a varint of one byte, because tags and most lengths have one byte.
[[nodiscard]] inline bool read_varint(Cursor& cursor, std::uint64_t& value) noexcept {
    const auto byte = static_cast<unsigned char>(*cursor.place);
    if (byte < 0x80) {
        value = byte;
        return cursor.place++ < cursor.end;
    }
    return read_any_varint(cursor, value);
}

/// Reads a length and the bytes that follow it.
[[nodiscard]] inline bool read_length(Cursor& cursor, Cursor& content) noexcept {
    std::uint64_t length = 0;
    if (!read_varint(cursor, length) || length > cursor.size()) {
        return false;
    }
    content = {cursor.place, cursor.place + length};
    cursor.place += length;
    return true;
}

[[nodiscard]] inline bool skip_bytes(Cursor& cursor, std::size_t bytes) noexcept {
    if (bytes > cursor.size()) {
        return false;
    }
    cursor.place += bytes;
    return true;
}

/// Skips the field whose tag was just read. Groups, which protobuf gave up before tf.train.Example existed, are not
/// valid.
[[nodiscard]] inline bool skip_field(Cursor& cursor, std::uint64_t tag) noexcept {
    std::uint64_t value = 0;
    Cursor content;
    if (tag >> 3 == 0) {
        return false;  // there is no field 0
    }
    switch (tag & 7) {
        case kVarint:
            return read_varint(cursor, value);
        case kFixed64:
            return skip_bytes(cursor, 8);
        case kLength:
            return read_length(cursor, content);
        case kFixed32:
            return skip_bytes(cursor, 4);
        default:
            return false;
    }
}

/// Appends a varint to a text.
template <class Text>
void append_varint(Text& text, std::uint64_t value) {
    while (value >= 0x80) {
        text.push_back(static_cast<char>(value | 0x80));
        value >>= 7;
    }
    text.push_back(static_cast<char>(value));
}

/// Appends a field of the wire type kLength: its tag, the number of its bytes, and the bytes.
template <class Text>
void append_field(Text& text, std::uint64_t field, std::string_view content) {
    append_varint(text, tag_of(field, kLength));
    append_varint(text, content.size());
    text.append(content);
}

}  // namespace rueda::data::wire
