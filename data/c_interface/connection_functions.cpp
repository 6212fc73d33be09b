// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The function of rueda/data.h with which producers and trainers prove that they know the same secret.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <system_error>

#include "base/network/proving_socket.hpp"
#include "base/security/handshake.hpp"
#include "base/unique_fd.hpp"
#include "core/c_interface/guarded.hpp"
#include "rueda/data.h"

namespace {

using rueda::ErrorCode;
using rueda::failure;
using rueda::Status;
using rueda::base::HandshakeSide;
using rueda::base::ProvingSocket;

using ProofClock = std::chrono::steady_clock;

/// Waits until bytes arrive on the socket, the connection ends, or the deadline passes.
Status wait_for_proof(int socket, ProofClock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - ProofClock::now()).count();
    pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
    const int count = ::poll(&readable, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if (count < 0 && errno != EINTR) {
        return failure(ErrorCode::internal, "poll failed: {}", std::generic_category().message(errno));
    }
    if (count == 0 && ProofClock::now() >= deadline) {
        return failure(ErrorCode::timeout,
                       "the other side sent no proof in time; check whether it is a producer of "
                       "Rueda, and whether its host is overloaded");
    }
    return {};
}

}  // namespace

extern "C" {

int rueda_data_prove(int32_t socket, int32_t accepted, const char* secret, const char* purpose, double timeout_seconds,
                     unsigned char* sending_key, unsigned char* receiving_key) {
    return rueda::core::c_interface::guarded([&]() -> Status {
        if (secret == nullptr || purpose == nullptr || sending_key == nullptr || receiving_key == nullptr ||
            !(timeout_seconds >= 0 && timeout_seconds <= 1000)) {
            return failure(ErrorCode::invalid_argument,
                           "data_prove: a pointer is NULL, or the time limit ({} s) is not between 0 and 1000 s",
                           timeout_seconds);
        }
        auto nonce = rueda::base::random_nonce();
        RUEDA_RETURN_IF_FAILED(nonce.status());
        rueda::base::UniqueFd own = rueda::base::duplicate(socket);
        if (!own.is_open()) {
            return failure(errno == EBADF ? ErrorCode::invalid_argument : ErrorCode::resource_exhausted,
                           "data_prove: descriptor {} could not be duplicated: {}", socket,
                           std::generic_category().message(errno));
        }
        const auto deadline = ProofClock::now() + std::chrono::duration_cast<ProofClock::duration>(
                                                      std::chrono::duration<double>(timeout_seconds));
        ProvingSocket proving(std::move(own), accepted != 0 ? HandshakeSide::accepting : HandshakeSide::connecting,
                              secret, purpose, nonce.value());
        RUEDA_RETURN_IF_FAILED(proving.advance());
        while (!proving.is_proven()) {
            RUEDA_RETURN_IF_FAILED(wait_for_proof(proving.fd(), deadline));
            RUEDA_RETURN_IF_FAILED(proving.advance());
        }
        const rueda::base::ProvenConnection proven = proving.take();
        std::memcpy(sending_key, proven.keys.sending.data(), proven.keys.sending.size());
        std::memcpy(receiving_key, proven.keys.receiving.data(), proven.keys.receiving.size());
        return {};
    });
}

}  // extern "C"
