// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes two parsers. The first one reads the handshake, by which a peer proves that it knows the secret. The second
// one reads the frames after the handshake, which have authentication codes. Only messages of a peer that knows the
// secret may be accepted. The result must not depend on the pieces in which the bytes arrive.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/network/proving_socket.hpp"
#include "base/unique_fd.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "tests/fuzz/handshake_inputs.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using base::Handshake;
using base::HandshakeSide;
using fuzz::expect;

/// Gives the bytes to the handshake in pieces, but no more bytes than the handshake wants. Returns the bytes that the
/// handshake sent.
std::string feed(Handshake& handshake, std::string_view bytes, std::size_t piece) {
    std::string sent = handshake.take_output();
    bool goes_on = true;
    while (goes_on && !bytes.empty() && handshake.wanted() != 0) {
        const std::string_view part = bytes.substr(0, std::min(piece, handshake.wanted()));
        bytes.remove_prefix(part.size());
        const Status status = handshake.receive(part);
        goes_on = status.is_ok();
        expect(goes_on || (!status.message().empty() && status.message().find('\n') == std::string::npos));
        expect(goes_on || (handshake.wanted() == 0 && !handshake.is_proven()));
        sent += handshake.take_output();
    }
    return sent;
}

base::Nonce nonce_in(std::string_view message) {
    base::Nonce nonce{};
    const std::string_view part = message.substr(std::min(message.size(), Handshake::kHeaderBytes), nonce.size());
    std::copy(part.begin(), part.end(), nonce.begin());
    return nonce;
}

void check_accepting(std::string_view input, std::size_t piece) {
    Handshake accepting = fuzz::handshake_of(HandshakeSide::accepting);
    const std::string answer = feed(accepting, input, piece);
    // The nonce (the peer's random number) is part of the input. With this nonce, a correct peer can send only one
    // sequence of bytes.
    Handshake correct(HandshakeSide::connecting, fuzz::kFuzzSecret, fuzz::kFuzzPurpose, nonce_in(input));
    std::string expected = correct.take_output();
    if (input.starts_with(expected)) {
        expect(answer.size() == Handshake::kAnswerBytes && correct.receive(answer).is_ok());
        expected += correct.take_output();
        expect(accepting.is_proven() == input.starts_with(expected));
    } else {
        expect(answer.empty() && !accepting.is_proven());
    }
}

void check_connecting(std::string_view input, std::size_t piece) {
    Handshake connecting = fuzz::handshake_of(HandshakeSide::connecting);
    const std::string sent = feed(connecting, input, piece);
    Handshake correct(HandshakeSide::accepting, fuzz::kFuzzSecret, fuzz::kFuzzPurpose, nonce_in(input));
    expect(correct.receive(sent.substr(0, Handshake::kOpeningBytes)).is_ok());
    const bool is_correct = input.starts_with(correct.take_output());
    expect(connecting.is_proven() == is_correct);
    expect(sent.size() == Handshake::kOpeningBytes + (is_correct ? Handshake::kProofBytes : 0));
}

/// Returns a text that contains all frames that were accepted.
std::string frames_in(std::string_view input, std::size_t piece) {
    std::array<int, 2> fds{};
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
    const base::UniqueFd theirs(fds[0]);
    launcher::FrameLink link(base::ProvenConnection{base::UniqueFd(fds[1]), fuzz::fuzz_keys().receiver});
    std::string all;
    while (!input.empty() && link.is_open()) {
        const std::string_view part = input.substr(0, piece);
        input.remove_prefix(part.size());
        expect(::send(theirs.value(), part.data(), part.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(part.size()));
        for (const launcher::Frame& frame : link.receive(1000)) {
            expect(frame.payload.size() <= 1000);
            all += std::to_string(frame.value) + ":" + frame.payload + ";";
        }
    }
    return all + (link.is_open() ? "open" : "closed");
}

}  // namespace

/// The first byte chooses what is fuzzed: the accepting side, the connecting side, or the frames. The second byte
/// chooses how the stream is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > 16'384) {
        return 0;
    }
    const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
    const std::size_t piece = data[1] % 90 + 1U;
    switch (data[0] % 3) {
        case 0:
            check_accepting(input, piece);
            break;
        case 1:
            check_connecting(input, piece);
            break;
        default:
            expect(frames_in(input, 20'000) == frames_in(input, piece));
    }
    return 0;
}
