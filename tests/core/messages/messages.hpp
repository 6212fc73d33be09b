// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"

/// Functions with which tests send and receive through a Runtime.
namespace rueda::tests {

inline constexpr int kAnybody = RUEDA_ANY_PEER;

struct MessageTo {
    int peer = 0;
    std::int32_t tag = 0;
    DType dtype = DType::uint8;
};

[[nodiscard]] inline core::MessageRequest request_of(RuntimeClient& client, bool sends, const MessageTo& to,
                                                     const void* memory, std::uint64_t bytes) {
    core::MessageRequest request;
    request.sends = sends;
    request.peer = to.peer;
    request.tag = to.tag;
    request.set = client.shared_identity();
    request.dtype = to.dtype;
    request.bytes = bytes;
    request.memory = const_cast<std::byte*>(static_cast<const std::byte*>(memory));
    return request;
}

template <class T, std::size_t N>
[[nodiscard]] Status send(RuntimeClient& client, std::span<T, N> values, const MessageTo& to) {
    core::Completion completion;
    return client.runtime().run(request_of(client, true, to, values.data(), values.size_bytes()), completion);
}
template <class T, std::size_t N>
[[nodiscard]] Status receive(RuntimeClient& client, std::span<T, N> values, const MessageTo& from,
                             int* sender = nullptr) {
    core::Completion completion;
    const Status status =
        client.runtime().run(request_of(client, false, from, values.data(), values.size_bytes()), completion);
    if (sender != nullptr) {
        *sender = completion.sender;
    }
    return status;
}

/// A send or receive that is not yet awaited. The caller owns the memory.
class StartedMessage {
public:
    StartedMessage(RuntimeClient& client, bool sends, const MessageTo& to, const void* memory, std::uint64_t bytes)
        : client_(&client), completion_(std::make_unique<core::Completion>()) {
        started_ = client.runtime().start(request_of(client, sends, to, memory, bytes), *completion_);
    }
    [[nodiscard]] Status wait(double seconds = -1) {
        return started_.is_ok() ? client_->runtime().wait(*completion_, seconds) : started_;
    }
    [[nodiscard]] bool poll() { return client_->runtime().poll(*completion_); }
    [[nodiscard]] int sender() const { return completion_->sender; }

private:
    RuntimeClient* client_;
    std::unique_ptr<core::Completion> completion_;
    Status started_;
};

template <class T, std::size_t N>
[[nodiscard]] StartedMessage start_send(RuntimeClient& client, std::span<T, N> values, const MessageTo& to) {
    return {client, true, to, values.data(), values.size_bytes()};
}
template <class T, std::size_t N>
[[nodiscard]] StartedMessage start_receive(RuntimeClient& client, std::span<T, N> values, const MessageTo& from) {
    return {client, false, from, values.data(), values.size_bytes()};
}

/// Returns bytes by which a test recognises a message and a position in it: they differ between seeds and between
/// positions.
template <std::integral Seed>
[[nodiscard]] std::vector<std::uint8_t> pattern(std::size_t bytes, Seed seed) {
    std::vector<std::uint8_t> values(bytes);
    std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761U + 12345U;
    for (std::uint8_t& value : values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<std::uint8_t>(state >> 24U);
    }
    return values;
}

}  // namespace rueda::tests
