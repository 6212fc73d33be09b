// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/frame_link.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/processes/poll_set.hpp"

namespace rueda::launcher {

namespace {

constexpr std::chrono::seconds kConnectTime{20};

/// A host that is gone without a word is noticed after about 11 s: 5 s of silence, then three questions.
constexpr int kSilenceSeconds = 5;
constexpr int kQuestionSeconds = 2;
constexpr int kQuestions = 3;
constexpr int kUnansweredMilliseconds = 15000;

/// Hosts of one job have one byte order, as MPI wants it too; another order is seen by the magic number.
struct FrameHeader {
    std::uint32_t magic = SupervisorMessage::kMagic;
    std::uint32_t word = 0;
    std::int32_t value = 0;
    std::uint32_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 16 && std::is_trivially_copyable_v<FrameHeader>);

void watch_connection(int fd) {
    const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, kSilenceSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kQuestionSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, kQuestions);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMilliseconds);
    set(IPPROTO_TCP, TCP_NODELAY, 1);
}

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// Numeric addresses only: ruedarun writes no others.
std::optional<SocketAddress> socket_address(const std::string& host, std::uint16_t port) {
    SocketAddress result;
    sockaddr_in four{};
    sockaddr_in6 six{};
    if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        four.sin_port = htons(port);
        result.size = sizeof four;
        std::memcpy(&result.storage, &four, sizeof four);
        return result;
    }
    if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        result.size = sizeof six;
        std::memcpy(&result.storage, &six, sizeof six);
        return result;
    }
    return std::nullopt;
}

/// "10.0.0.1:4711" or "[fd00::1]:4711".
std::optional<SocketAddress> parse_endpoint(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
        return std::nullopt;
    }
    const std::optional<std::uint16_t> port = base::parse_integer<std::uint16_t>(text.substr(colon + 1));
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    return port ? socket_address(host, *port) : std::nullopt;
}

const sockaddr* raw(const SocketAddress& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

std::uint16_t port_of(int fd) {
    SocketAddress own;
    own.size = sizeof own.storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0) {
        return 0;
    }
    if (own.storage.ss_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &own.storage, sizeof six);
        return ntohs(six.sin6_port);
    }
    sockaddr_in four{};
    std::memcpy(&four, &own.storage, sizeof four);
    return ntohs(four.sin_port);
}

/// "10.0.0.1" or "fd00::1"
std::string numeric_text(const SocketAddress& address) {
    std::array<char, NI_MAXHOST> text{};
    return ::getnameinfo(raw(address), address.size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0
               ? std::string(text.data())
               : std::string();
}

/// The addresses that supervisors may try, those of the loopback only where there are no others.
std::vector<NetworkAddress> addresses_to_listen_at(const std::vector<std::string>& interfaces) {
    constexpr std::size_t kMost = 16;
    std::vector<NetworkAddress> chosen;
    const std::vector<NetworkAddress> all = network_addresses();
    for (const NetworkAddress& address : all) {
        const bool wanted =
            interfaces.empty() ? !address.is_loopback
                               : std::find(interfaces.begin(), interfaces.end(), address.interface) != interfaces.end();
        if (wanted && !address.is_link_local && chosen.size() < kMost) {
            chosen.push_back(address);
        }
    }
    if (chosen.empty() && interfaces.empty()) {
        std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                     [](const NetworkAddress& address) { return address.is_loopback; });
    }
    return chosen;
}

base::UniqueFd listen_at(const NetworkAddress& address) {
    const std::optional<SocketAddress> where = socket_address(address.address, 0);
    if (!where) {
        return {};
    }
    base::UniqueFd fd(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const bool listens =
        fd.is_open() && ::bind(fd.value(), raw(*where), where->size) == 0 && ::listen(fd.value(), SOMAXCONN) == 0;
    return listens ? std::move(fd) : base::UniqueFd();
}

}  // namespace

FrameLink::FrameLink(base::UniqueFd socket) : socket_(std::move(socket)) { watch_connection(socket_.value()); }

void FrameLink::expect_answers() const {
    if (is_open()) {
        const int milliseconds = static_cast<int>(kAnswerTime.count());
        ::setsockopt(socket_.value(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
    }
}

void FrameLink::send(SupervisorWord word, std::int32_t value, std::string_view payload) {
    do {
        const std::string_view part = payload.substr(0, kMostPayload);
        payload.remove_prefix(part.size());
        FrameHeader header;
        header.word = static_cast<std::uint32_t>(word);
        header.value = value;
        header.bytes = static_cast<std::uint32_t>(part.size());
        queue_.append(reinterpret_cast<const char*>(&header), sizeof header);
        queue_ += part;
    } while (!payload.empty());
    flush();
}

void FrameLink::flush() {
    std::size_t sent = 0;
    while (is_open() && sent < queue_.size()) {
        const ssize_t got =
            ::send(socket_.value(), queue_.data() + sent, queue_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            if (errno != EAGAIN) {
                close();
            }
            break;
        }
        sent += static_cast<std::size_t>(got);
    }
    queue_.erase(0, sent);
}

bool FrameLink::take_frame(std::size_t most_payload, std::vector<Frame>& frames) {
    FrameHeader header;
    if (received_.size() < sizeof header) {
        return false;
    }
    std::memcpy(&header, received_.data(), sizeof header);
    if (header.magic != SupervisorMessage::kMagic || header.bytes > most_payload) {
        close();
        return false;
    }
    if (received_.size() < sizeof header + header.bytes) {
        return false;
    }
    frames.push_back(
        {static_cast<SupervisorWord>(header.word), header.value, received_.substr(sizeof header, header.bytes)});
    received_.erase(0, sizeof header + header.bytes);
    return true;
}

std::vector<Frame> FrameLink::receive(std::size_t most_payload) {
    std::vector<Frame> frames;
    std::array<char, kMostPayload> buffer;
    const ssize_t got = is_open() ? ::recv(socket_.value(), buffer.data(), buffer.size(), MSG_DONTWAIT) : 0;
    if (got > 0) {
        received_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    while (take_frame(most_payload, frames)) {
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        close();
    }
    return frames;
}

std::string format_control_address(const ControlAddress& address) {
    return fmt::format("{}@{}", address.secret, fmt::join(address.endpoints, ","));
}

Result<ControlAddress> parse_control_address(std::string_view text) {
    ControlAddress address;
    const std::size_t at = text.find('@');
    address.secret = text.substr(0, at);
    std::string_view rest = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
    while (!rest.empty()) {
        const std::string_view endpoint = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), endpoint.size() + 1));
        if (!parse_endpoint(std::string(endpoint))) {
            return failure(ErrorCode::invalid_argument, "{} is no address with a port", base::quote(endpoint));
        }
        address.endpoints.emplace_back(endpoint);
    }
    if (address.secret.empty() || address.endpoints.empty()) {
        return failure(ErrorCode::invalid_argument, "there is no address of ruedarun");
    }
    return address;
}

Result<std::vector<base::UniqueFd>> listen_on_network(const std::vector<std::string>& interfaces,
                                                      std::vector<std::string>& endpoints) {
    std::vector<base::UniqueFd> listeners;
    for (const NetworkAddress& address : addresses_to_listen_at(interfaces)) {
        base::UniqueFd listener = listen_at(address);
        if (listener.is_open()) {
            const std::uint16_t port = port_of(listener.value());
            endpoints.push_back(address.is_ipv6 ? fmt::format("[{}]:{}", address.address, port)
                                                : fmt::format("{}:{}", address.address, port));
            listeners.push_back(std::move(listener));
        }
    }
    if (listeners.empty()) {
        return failure(ErrorCode::resource_exhausted,
                       "there is no network address to listen at{}; check --network-interfaces",
                       interfaces.empty() ? "" : fmt::format(" on {}", fmt::join(interfaces, ", ")));
    }
    return listeners;
}

Result<base::UniqueFd> connect_over_network(const std::vector<std::string>& endpoints) {
    std::vector<base::UniqueFd> attempts;
    for (const std::string& endpoint : endpoints) {
        const std::optional<SocketAddress> where = parse_endpoint(endpoint);
        base::UniqueFd fd(where ? ::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
                                : -1);
        if (fd.is_open() && (::connect(fd.value(), raw(*where), where->size) == 0 || errno == EINPROGRESS)) {
            attempts.push_back(std::move(fd));
        }
    }
    base::UniqueFd connected;
    const auto deadline = std::chrono::steady_clock::now() + kConnectTime;
    while (!connected.is_open() && !attempts.empty() && std::chrono::steady_clock::now() < deadline) {
        PollSet set;
        set.wake_at(deadline);
        for (base::UniqueFd& attempt : attempts) {
            set.add(attempt.value(), POLLOUT, [&] {
                int error = 0;
                socklen_t size = sizeof error;
                ::getsockopt(attempt.value(), SOL_SOCKET, SO_ERROR, &error, &size);
                if (error == 0 && !connected.is_open()) {
                    connected = std::move(attempt);
                } else {
                    attempt.reset();
                }
            });
        }
        set.wait_and_dispatch();
        std::erase_if(attempts, [](const base::UniqueFd& attempt) { return !attempt.is_open(); });
    }
    if (!connected.is_open()) {
        return failure(ErrorCode::unsupported, "none of {} can be reached from {}", fmt::join(endpoints, ", "),
                       host_name());
    }
    return connected;
}

ConnectionEnds ends_of_connection(int socket) {
    SocketAddress own;
    SocketAddress peer;
    own.size = peer.size = sizeof own.storage;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0 ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0) {
        return {};
    }
    return {numeric_text(own), numeric_text(peer)};
}

bool is_same_secret(std::string_view left, std::string_view right) {
    unsigned difference = left.size() == right.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
        difference |= static_cast<unsigned>(left[i] ^ right[i]);
    }
    return difference == 0;
}

}  // namespace rueda::launcher
