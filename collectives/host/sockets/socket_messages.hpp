// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/control_plane.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {

/// The first message on a connection. The rank that connected sends it to rank 0.
struct Hello {
    std::int32_t rank = 0;
    std::int32_t size = 0;
};
/// The length of an encoded hello.
inline constexpr std::size_t kHelloBytes = 20;
[[nodiscard]] Bytes encode_hello(const Hello& hello);
/// Parses a Hello that another process sent. Checks the magic number, the version and the size of the job. The rank
/// must be less than this size.
[[nodiscard]] Result<Hello> parse_hello(std::span<const std::byte> bytes, int expected_size);

enum class FrameKind : std::uint32_t { welcome = 1, allgather = 2, broadcast = 3, barrier = 4, failure = 5 };
[[nodiscard]] const char* name_of(FrameKind kind);

/// The header of every message after the first one (the Hello). `sequence` counts the operations, so the ranks notice
/// it if they are in different operations.
struct FrameHeader {
    FrameKind kind = FrameKind::barrier;
    std::int32_t root = 0;
    std::uint64_t sequence = 0;
    std::uint64_t length = 0;
};
inline constexpr std::size_t kFrameHeaderBytes = 28;
[[nodiscard]] Bytes encode_header(const FrameHeader& header);
/// Parses a header. Refuses unknown kinds and lengths above kMaxControlMessage.
[[nodiscard]] Result<FrameHeader> parse_header(std::span<const std::byte> bytes);

/// Encodes the result of an allgather: first the sizes of all parts, then their bytes.
[[nodiscard]] Bytes encode_parts(std::span<const Bytes> parts);
[[nodiscard]] Result<std::vector<Bytes>> parse_parts(std::span<const std::byte> bytes, int expected_count);

}  // namespace rueda::collectives
