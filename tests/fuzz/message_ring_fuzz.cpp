// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes a ring between two ranks, to which the other rank may write any values at any time. Every record that the
// reader returns, and every free range that the writer returns, must be inside the ring, or beside its state.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/shared_memory/atomics.hpp"
#include "collectives/host/arena/message_ring.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using fuzz::expect;
using fuzz::Input;
using State = collectives::MessageRingState<base::StdAtomics>;

constexpr std::size_t kRingBytes = 1024;

bool lies_in(const std::byte* memory, std::size_t size, const std::byte* begin, std::size_t bytes) {
    return begin >= memory && bytes <= size && begin + bytes <= memory + size;
}
/// Whether the bytes are in the ring, or beside its state.
bool lies_in(const std::byte* memory, const State& state, const std::byte* begin, std::size_t bytes) {
    return lies_in(memory, kRingBytes, begin, bytes) ||
           lies_in(state.near_bytes, sizeof(state.near_bytes), begin, bytes);
}

void read(Input input) {
    const auto memory = std::make_unique<std::byte[]>(kRingBytes);
    State state;
    collectives::MessageRingReader<base::StdAtomics> reader(state, memory.get(), kRingBytes);
    while (!input.empty()) {
        const auto choice = input.take<std::uint8_t>();
        switch (choice % 6) {
            case 0:
                state.written.store(input.take<std::uint64_t>());
                break;
            case 1:
                state.written.store(state.written.load() + input.take<std::uint8_t>() * 8U);
                break;
            case 2:
                state.near.store(input.take<std::uint64_t>());
                break;
            case 3:
                state.near.store(collectives::MessageRingRecord::near_of(state.written.load(), choice));
                break;
            case 4: {
                const auto value = input.take<std::uint64_t>();
                const std::size_t place = input.take<std::uint8_t>() % (kRingBytes / 16) * std::size_t{16};
                std::memcpy(memory.get() + place, &value, sizeof(value));
                break;
            }
            default: {
                const auto begun = reader.begun();
                if (begun.is_ok() && begun.value()) {
                    expect(lies_in(memory.get(), state, begun.value()->data(), begun.value()->size()));
                    expect(reader.written_bytes() <= kRingBytes);
                }
                const auto front = reader.front();
                if (!front.is_ok()) {
                    expect(front.status().code() == ErrorCode::internal);
                    return;
                }
                if (front.value()) {
                    expect(lies_in(memory.get(), state, front.value()->data(), front.value()->size()));
                    static_cast<void>(choice % 2 == 0 ? reader.pop() : reader.pop_awaited(choice % 4 == 1));
                }
            }
        }
    }
}

void write(Input input) {
    const auto memory = std::make_unique<std::byte[]>(kRingBytes);
    State state;
    collectives::MessageRingWriter<base::StdAtomics> writer(state, memory.get(), kRingBytes);
    while (!input.empty()) {
        const auto choice = input.take<std::uint8_t>();
        switch (choice % 3) {
            case 0:
                state.read.store(input.take<std::uint64_t>());
                break;
            case 1:
                state.read.store(state.written.load());
                break;
            default: {
                const std::size_t bytes = input.take<std::uint8_t>() * writer.largest() / 255;
                const auto room = choice % 2 == 0 ? writer.reserve(bytes) : writer.reserve_near(bytes % 128);
                if (!room.is_ok()) {
                    expect(room.status().code() == ErrorCode::internal);
                    return;
                }
                if (room.value() != nullptr) {
                    const std::size_t reserved = choice % 2 == 0 ? bytes : bytes % 128;
                    expect(lies_in(memory.get(), state, room.value(), reserved));
                    std::memset(room.value(), choice, reserved);
                    if (choice % 4 == 0) {
                        writer.publish_begin(reserved / 2);
                    }
                    writer.publish();
                }
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    read(Input(std::span(data, size)));
    write(Input(std::span(data, size)));
    return 0;
}
