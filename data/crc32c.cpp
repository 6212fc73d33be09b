// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace rueda::data {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian, and are read as memory is");

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  ///< Castagnoli's, with the bits reversed

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// For each value of a byte, table t has the CRC of this byte followed by t zero bytes. With the eight tables, one step
/// of the loop handles eight bytes ("slicing by 8", Kounavis and Berry 2005).
constexpr CrcTables make_crc_tables() {
    CrcTables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
        }
        tables[0][byte] = crc;
    }
    for (std::size_t table = 1; table < tables.size(); ++table) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][before & 0xff];
        }
    }
    return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

std::uint64_t load_eight(const char* place) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, place, sizeof word);
    return word;
}

#if defined(__x86_64__)
// The instruction crc32 belongs to SSE 4.2. Newer versions of clang also want the name "crc32" in the attribute.
__attribute__((target("sse4.2,crc32"))) std::uint32_t crc32c_by_instruction(const char* place,
                                                                            std::size_t size) noexcept {
    std::uint64_t crc = 0xffffffff;
    for (; size >= 8; size -= 8, place += 8) {
        crc = __builtin_ia32_crc32di(crc, load_eight(place));
    }
    auto rest = static_cast<std::uint32_t>(crc);
    for (; size > 0; --size, ++place) {
        rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(*place));
    }
    return ~rest;
}
#endif

}  // namespace

std::uint32_t portable_crc32c(const void* bytes, std::size_t size) noexcept {
    const char* place = static_cast<const char*>(bytes);
    std::uint32_t crc = 0xffffffff;
    for (; size >= 8; size -= 8, place += 8) {
        const std::uint64_t word = load_eight(place) ^ crc;
        crc = 0;
        for (std::size_t byte = 0; byte < 8; ++byte) {
            crc ^= kCrcTables[7 - byte][(word >> (8 * byte)) & 0xff];
        }
    }
    for (; size > 0; --size, ++place) {
        crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<unsigned char>(*place)) & 0xff];
    }
    return ~crc;
}

std::uint32_t crc32c(const void* bytes, std::size_t size) noexcept {
#if defined(__x86_64__)
    static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    if (has_instruction) {
        return crc32c_by_instruction(static_cast<const char*>(bytes), size);
    }
#endif
    return portable_crc32c(bytes, size);
}

}  // namespace rueda::data
