// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/socket_messages.hpp"

#include <utility>

namespace rueda::collectives {
namespace {

constexpr std::uint64_t kHelloMagic = 0x316c746361647572;  // "rudactl1" in memory order
constexpr std::uint32_t kFrameMagic = 0x6d726672;          // "rfrm"
constexpr std::uint32_t kProtocolVersion = 1;

}  // namespace

Bytes encode_hello(const Hello& hello) {
    WireWriter writer;
    writer.number(kHelloMagic);
    writer.number(kProtocolVersion);
    writer.number(hello.rank);
    writer.number(hello.size);
    return std::move(writer).take();
}

Result<Hello> parse_hello(std::span<const std::byte> bytes, int expected_size) {
    WireReader reader(bytes);
    const auto magic = reader.number<std::uint64_t>();
    const auto version = reader.number<std::uint32_t>();
    Hello hello;
    hello.rank = reader.number<std::int32_t>();
    hello.size = reader.number<std::int32_t>();
    if (!reader.complete() || magic != kHelloMagic) {
        return failure(ErrorCode::invalid_argument, "a process that is no rank of Rueda has connected");
    }
    if (version != kProtocolVersion) {
        return failure(ErrorCode::invalid_argument,
                       "a rank speaks version {} of the protocol, expected {}: run the same build of Rueda everywhere",
                       version, kProtocolVersion);
    }
    if (hello.size != expected_size) {
        return failure(ErrorCode::invalid_argument,
                       "rank {} was started for a job of size {}, expected {}: give all ranks the same RUEDA_SIZE, and "
                       "every job its own RUEDA_RENDEZVOUS",
                       hello.rank, hello.size, expected_size);
    }
    if (hello.rank <= 0 || hello.rank >= expected_size) {
        return failure(ErrorCode::invalid_argument, "rank {} has connected to rank 0, expected 1 to {}", hello.rank,
                       expected_size - 1);
    }
    return hello;
}

const char* name_of(FrameKind kind) {
    switch (kind) {
        case FrameKind::welcome:
            return "start";
        case FrameKind::allgather:
            return "allgather";
        case FrameKind::broadcast:
            return "broadcast";
        case FrameKind::barrier:
            return "barrier";
        case FrameKind::failure:
            return "failure";
    }
    return "unknown operation";
}

Bytes encode_header(const FrameHeader& header) {
    WireWriter writer;
    writer.number(kFrameMagic);
    writer.number(static_cast<std::uint32_t>(header.kind));
    writer.number(header.root);
    writer.number(header.sequence);
    writer.number(header.length);
    return std::move(writer).take();
}

Result<FrameHeader> parse_header(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    const auto magic = reader.number<std::uint32_t>();
    const auto kind = reader.number<std::uint32_t>();
    FrameHeader header;
    header.root = reader.number<std::int32_t>();
    header.sequence = reader.number<std::uint64_t>();
    header.length = reader.number<std::uint64_t>();
    if (!reader.complete() || magic != kFrameMagic || kind < static_cast<std::uint32_t>(FrameKind::welcome) ||
        kind > static_cast<std::uint32_t>(FrameKind::failure)) {
        return failure(ErrorCode::internal, "has sent a message of kind {} with mark {:#x}, expected 1 to 5 and {:#x}",
                       kind, magic, kFrameMagic);
    }
    if (header.length > kMaxControlMessage) {
        return failure(ErrorCode::internal, "announces a message of {} bytes, expected at most {}", header.length,
                       kMaxControlMessage);
    }
    header.kind = static_cast<FrameKind>(kind);
    return header;
}

Bytes encode_parts(std::span<const Bytes> parts) {
    WireWriter writer;
    for (const Bytes& part : parts) {
        writer.number(static_cast<std::uint64_t>(part.size()));
    }
    for (const Bytes& part : parts) {
        writer.append(part);
    }
    return std::move(writer).take();
}

Result<std::vector<Bytes>> parse_parts(std::span<const std::byte> bytes, int expected_count) {
    WireReader reader(bytes);
    std::vector<std::size_t> sizes;
    for (int part = 0; part < expected_count; ++part) {
        sizes.push_back(reader.number<std::uint64_t>());
    }
    std::vector<Bytes> parts;
    for (const std::size_t size : sizes) {
        const auto part = reader.take(size);
        parts.emplace_back(part.begin(), part.end());
    }
    if (!reader.complete()) {
        return failure(ErrorCode::internal, "allgather: the result of {} bytes is damaged, expected {} parts",
                       bytes.size(), expected_count);
    }
    return parts;
}

}  // namespace rueda::collectives
