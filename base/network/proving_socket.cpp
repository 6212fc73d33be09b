// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/network/proving_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace rueda::base {

bool may_be_of_this_job(int socket) {
    int domain = AF_UNSPEC;
    socklen_t size = sizeof domain;
    if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) {
        return domain == AF_INET || domain == AF_INET6;
    }
    ucred peer{};
    size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

ProvingSocket::ProvingSocket(UniqueFd socket, HandshakeSide side, std::string_view secret, std::string_view purpose,
                             const Nonce& nonce)
    : socket_(std::move(socket)), handshake_(side, secret, purpose, nonce) {}

Status ProvingSocket::advance() {
    if (!is_open()) {
        return failure(ErrorCode::unsupported, "it is closed");
    }
    Status status = exchange();
    if (!status.is_ok()) {
        close();
    }
    return status;
}

Status ProvingSocket::exchange() {
    RUEDA_RETURN_IF_FAILED(send_output());
    while (handshake_.wanted() != 0) {
        std::array<char, Handshake::kAnswerBytes> bytes{};
        const ssize_t got = ::recv(socket_.value(), bytes.data(), handshake_.wanted(), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return {};
        }
        if (got < 0) {
            return failure(ErrorCode::unsupported, "the connection has ended: {}",
                           std::generic_category().message(errno));
        }
        if (got == 0) {
            return failure(ErrorCode::unsupported, "it closed the connection without a proof");
        }
        RUEDA_RETURN_IF_FAILED(handshake_.receive({bytes.data(), static_cast<std::size_t>(got)}));
        RUEDA_RETURN_IF_FAILED(send_output());
    }
    return {};
}

Status ProvingSocket::send_output() {
    const std::string output = handshake_.take_output();
    if (output.empty()) {
        return {};
    }
    // The messages of a handshake have at most 80 bytes, so they fit into the empty send buffer of a new connection.
    const ssize_t sent = ::send(socket_.value(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == static_cast<ssize_t>(output.size())
               ? Status()
               : failure(ErrorCode::unsupported, "the connection has ended: {}",
                         sent < 0 ? std::generic_category().message(errno) : "it takes no data");
}

ProvenConnection ProvingSocket::take() { return {std::move(socket_), handshake_.keys()}; }

}  // namespace rueda::base
