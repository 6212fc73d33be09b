// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the messages that a leader gets from another leader over their connection, and the messages that the ranks
// exchange before they connect. A stream must give the same messages however it is cut, and no message may be longer
// than allowed. The target adds the correct authentication codes to the stream, because an input could not guess them.
#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

#include "base/network/socket_address.hpp"
#include "collectives/tcp/leader_link.hpp"
#include "collectives/tcp/leader_rendezvous.hpp"
#include "tests/fuzz/handshake_inputs.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using collectives::LeaderLink;
using collectives::LinkHeader;
using fuzz::expect;

constexpr std::size_t kMostContent = 1000;

/// Returns a text that contains all messages that were accepted.
std::string messages_in(std::string_view stream, std::size_t piece) {
    std::array<int, 2> fds{};
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
    const base::UniqueFd theirs(fds[0]);
    LeaderLink link({base::UniqueFd(fds[1]), fuzz::fuzz_keys().receiver}, kMostContent);
    std::string all;
    while (!stream.empty() && link.ended().is_ok()) {
        const std::string_view part = stream.substr(0, piece);
        stream.remove_prefix(part.size());
        expect(::send(theirs.value(), part.data(), part.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(part.size()));
        for (const LeaderLink::Message& message : link.receive()) {
            expect(message.content.size() <= kMostContent && message.header.bytes == message.content.size());
            expect(message.header.port.set < collectives::Transport::kMostSets);
            all += std::to_string(message.header.port.set) + ":" + message.content + ";";
        }
    }
    return all + (link.ended().is_ok() ? "open" : "ended");
}

/// Adds the correct authentication code behind each message of the input. Stops at the first header that cannot be
/// parsed.
std::string with_codes(std::string_view input) {
    base::MessageCodes codes(fuzz::fuzz_keys().sender.sending);
    std::string stream;
    while (input.size() >= collectives::kLinkHeaderBytes) {
        const std::string_view head = input.substr(0, collectives::kLinkHeaderBytes);
        const auto header = collectives::parse_link_header(head, kMostContent);
        if (!header.is_ok() || input.size() < head.size() + header.value().bytes) {
            break;
        }
        const std::string_view content = input.substr(head.size(), header.value().bytes);
        stream += head;
        stream += content;
        stream += codes.next(head, content);
        input.remove_prefix(head.size() + content.size());
    }
    return stream += input;
}

void check_card(std::string_view input) {
    const auto card = collectives::parse_leader_card(std::as_bytes(std::span(input)));
    if (card.is_ok()) {
        for (const std::string& endpoint : card.value().endpoints) {
            static_cast<void>(base::parse_endpoint(endpoint));
        }
    }
}

}  // namespace

/// The first byte chooses the parser, and the second byte chooses how the stream is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > 16'384) {
        return 0;
    }
    const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
    const std::size_t piece = data[1] % 90 + 1U;
    if (data[0] % 2 == 0) {
        check_card(input);
        return 0;
    }
    const std::string stream = with_codes(input);
    expect(messages_in(stream, 20'000) == messages_in(stream, piece));
    return 0;
}
