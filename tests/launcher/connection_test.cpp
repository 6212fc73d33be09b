// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the connection between ruedarun and a supervisor. Also tests what an attacker receives if it listens at one of
// the addresses.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/network/proving_socket.hpp"
#include "base/network/socket_address.hpp"
#include "launcher/connection/connect_to_ruedarun.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/supervisor/frame_link.hpp"

namespace rueda::launcher {
namespace {

using namespace std::chrono_literals;

const std::string kSecret = "d2a84f4b8b650937ec8f73cd8be2c74a";
constexpr base::ConnectTimes kShortTimes{2000ms, 300ms};

/// A listening socket on the loopback.
struct Listener {
    Listener() : socket(base::listen_at(*base::network_address("127.0.0.1", 0))), endpoint("127.0.0.1:") {
        REQUIRE(socket.is_open());
        endpoint += std::to_string(base::port_of(socket.value()));
    }
    base::UniqueFd socket;
    std::string endpoint;
};

/// A thread that serves the connections of a listener until the object is destroyed. Afterwards, `received` contains
/// all bytes that arrived through these connections.
class Server {
public:
    using Serve = std::function<void(Server& server, int socket)>;

    explicit Server(Serve serve) : serve_(std::move(serve)), thread_([this] { run(); }) {}
    ~Server() { stop(); }
    void stop() {
        ends_.store(true, std::memory_order_release);  // is_over() loads this flag with acquire
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    [[nodiscard]] const std::string& endpoint() const { return listener_.endpoint; }
    [[nodiscard]] bool is_over() const { return ends_.load(std::memory_order_acquire); }
    /// Reads until the other side ends the connection, or nothing comes for 50 ms, or `most` bytes have come.
    std::string read(int socket, std::size_t most = 4096) {
        std::string text;
        std::array<char, 4096> bytes{};
        pollfd entry{socket, POLLIN, 0};
        while (text.size() < most && ::poll(&entry, 1, 50) > 0) {
            const ssize_t got = ::recv(socket, bytes.data(), std::min(bytes.size(), most - text.size()), MSG_DONTWAIT);
            if (got <= 0) {
                break;
            }
            text.append(bytes.data(), static_cast<std::size_t>(got));
        }
        received += text;
        return text;
    }
    static void write(int socket, const std::string& text) {
        static_cast<void>(::send(socket, text.data(), text.size(), MSG_NOSIGNAL) == 0);
    }

    std::string received;  ///< `thread_` writes this text, so tests read it after stop()
    int connections = 0;

private:
    void run() {
        while (!is_over()) {
            pollfd entry{listener_.socket.value(), POLLIN, 0};
            if (::poll(&entry, 1, 5) > 0) {
                const base::UniqueFd socket(::accept4(listener_.socket.value(), nullptr, nullptr, SOCK_CLOEXEC));
                ++connections;
                serve_(*this, socket.value());
            }
        }
    }

    Listener listener_;
    Serve serve_;
    std::atomic<bool> ends_{false};
    std::thread thread_;
};

/// Serves a connection as ruedarun does: lets the supervisor prove the secret, and takes frames until the supervisor
/// closes the connection.
Server::Serve as_ruedarun(const std::string& secret = kSecret) {
    return [secret](Server& server, int socket) {
        base::ProvingSocket proving(base::UniqueFd(::dup(socket)), base::HandshakeSide::accepting, secret,
                                    kHandshakePurpose, base::random_nonce().value());
        pollfd entry{socket, POLLIN, 0};
        while (!proving.is_proven()) {
            if (::poll(&entry, 1, 5000) <= 0 || !proving.advance().is_ok()) {
                return;
            }
        }
        FrameLink link(proving.take());
        while (link.is_open() && ::poll(&entry, 1, 5000) > 0) {
            for (const Frame& frame : link.receive()) {
                server.received += frame.payload;
            }
        }
    };
}
/// Accepts a connection and says nothing.
void serve_silently(Server& server, int socket) {
    while (!server.is_over()) {
        server.read(socket);
    }
}
void serve_by_closing(Server& /*server*/, int /*socket*/) {}

/// Checks that an attacker got one connection, and received only the first message of a handshake.
void check_only_opening(Server& attacker) {
    attacker.stop();
    CHECK(attacker.connections == 1);
    CHECK(attacker.received.size() == base::Handshake::kOpeningBytes);
    CHECK(attacker.received.find(kSecret.substr(0, 6)) == std::string::npos);
}

TEST_CASE("supervisors of this host connect to a socket that is new for every job", "[unit]") {
    const auto one = listen_on_this_host();
    const auto other = listen_on_this_host();
    REQUIRE(one.is_ok());
    REQUIRE(other.is_ok());
    const ControlAddress& address = one.value().address;
    CHECK(address.endpoints != other.value().address.endpoints);
    CHECK(address.secret.size() == 32);
    CHECK(address.secret != other.value().address.secret);
    CHECK(address.endpoints.front().find(address.secret) == std::string::npos);
    const auto again = parse_control_address(format_control_address(address));
    REQUIRE(again.is_ok());
    CHECK_FALSE(base::may_be_of_this_job(-1));

    std::thread ruedarun([&] {
        pollfd entry{one.value().sockets.front().value(), POLLIN, 0};
        CHECK(::poll(&entry, 1, 5000) == 1);
        base::UniqueFd socket(::accept4(entry.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        CHECK(base::may_be_of_this_job(socket.value()));
        base::ProvingSocket proving(std::move(socket), base::HandshakeSide::accepting, address.secret,
                                    kHandshakePurpose, base::random_nonce().value());
        while (!proving.is_proven() && proving.advance().is_ok()) {
            pollfd readable{proving.fd(), POLLIN, 0};
            ::poll(&readable, 1, 5000);
        }
        CHECK(proving.is_proven());
    });
    CHECK(connect_to_ruedarun(again.value()).is_ok());
    ruedarun.join();
    const auto nobody = connect_to_ruedarun({"s", {"@ruedarun-nobody-listens"}});
    REQUIRE_FALSE(nobody.is_ok());
    CHECK_THAT(nobody.status().message(), Catch::Contains("@ruedarun-nobody-listens: Connection refused"));
}

TEST_CASE("a supervisor finds its ruedarun beside listeners that are none, and tells them nothing", "[unit]") {
    Server ruedarun(as_ruedarun());
    Server silent(serve_silently);
    Server closing(serve_by_closing);
    Server other_job(as_ruedarun("another secret"));
    const auto begin = std::chrono::steady_clock::now();
    auto connection = connect_to_ruedarun(
        {kSecret, {silent.endpoint(), closing.endpoint(), other_job.endpoint(), ruedarun.endpoint()}});
    // The time limits for addresses that do not answer are longer than 5 s. The search for ruedarun must not wait for
    // such addresses.
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    REQUIRE(connection.is_ok());
    {
        FrameLink link(std::move(connection).value());
        link.send(FrameKind::hello, 3, "hello from rank 3");
    }
    ruedarun.stop();
    CHECK(ruedarun.received == "hello from rank 3");
    other_job.stop();
    CHECK(other_job.received.empty());
    silent.stop();  // `silent` has received nothing if the supervisor found ruedarun first
    CHECK(silent.received.size() <= base::Handshake::kOpeningBytes);
    CHECK(silent.received.find(kSecret.substr(0, 6)) == std::string::npos);
}

TEST_CASE("without ruedarun, the error lists the addresses and what each of them did", "[unit]") {
    Server silent(serve_silently);
    Server closing(serve_by_closing);
    Server other_job(as_ruedarun("another secret"));
    Server web([](Server& server, int socket) {
        server.read(socket);
        Server::write(socket, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n" + std::string(200, ' '));
        server.read(socket);
    });
    std::string unused;
    {
        const Listener gone;
        unused = gone.endpoint;
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto found = connect_to_ruedarun(
        {kSecret,
         {silent.endpoint(), closing.endpoint(), other_job.endpoint(), web.endpoint(), unused, "not.an.address:1"}},
        kShortTimes);
    CHECK(std::chrono::steady_clock::now() - begin < 2s);
    REQUIRE_FALSE(found.is_ok());
    const std::string& message = found.status().message();
    CHECK_THAT(message,
               Catch::Contains(silent.endpoint() + ": it took the connection, but proved nothing within 0.3 s"));
    CHECK_THAT(message, Catch::Contains(other_job.endpoint() + ": it does not know the secret of this job"));
    CHECK_THAT(message, Catch::Contains(web.endpoint() + ": it is no process of Rueda"));
    CHECK_THAT(message, Catch::Contains(unused + ": Connection refused"));
    CHECK_THAT(message, Catch::Contains("not.an.address:1: this is no address"));
    // If a process closes a connection while bytes are unread, the kernel resets the connection.
    CHECK_THAT(message,
               Catch::Contains(closing.endpoint() + ": it closed the connection without a proof") ||
                   Catch::Contains(closing.endpoint() + ": the connection has ended: Connection reset by peer"));
    check_only_opening(silent);
    check_only_opening(web);
}

TEST_CASE("an attacker that replays a recorded handshake, or sends back what it gets, is refused", "[unit]") {
    base::Handshake recorded_client(base::HandshakeSide::connecting, kSecret, "ruedarun and supervisor",
                                    base::random_nonce().value());
    base::Handshake recorded_server(base::HandshakeSide::accepting, kSecret, "ruedarun and supervisor",
                                    base::random_nonce().value());
    REQUIRE(recorded_server.receive(recorded_client.take_output()).is_ok());
    const std::string answer = recorded_server.take_output();
    Server replaying([&](Server& server, int socket) {
        server.read(socket);
        Server::write(socket, answer);
        server.read(socket);
    });
    Server reflecting([&](Server& server, int socket) {
        const std::string opening = server.read(socket);
        Server::write(socket, opening + std::string(base::Handshake::kProofBytes, 'x'));
        server.read(socket);
    });
    const auto found = connect_to_ruedarun({kSecret, {replaying.endpoint(), reflecting.endpoint()}}, kShortTimes);
    REQUIRE_FALSE(found.is_ok());
    CHECK_THAT(found.status().message(),
               Catch::Contains(replaying.endpoint() + ": it does not know the secret of this job"));
    CHECK_THAT(found.status().message(),
               Catch::Contains(reflecting.endpoint() + ": it has sent a handshake of the wrong side"));
    check_only_opening(replaying);
    check_only_opening(reflecting);
}

TEST_CASE("ruedarun's side reads no byte beyond the handshake of a peer that proves nothing", "[unit]") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const base::UniqueFd peer(ends[1]);
    base::ProvingSocket proving(base::UniqueFd(ends[0]), base::HandshakeSide::accepting, kSecret, kHandshakePurpose,
                                base::random_nonce().value());
    base::Handshake attacker(base::HandshakeSide::connecting, "guessed", "ruedarun and supervisor",
                             base::random_nonce().value());
    const std::string bytes = attacker.take_output() + std::string(10'000, 'x');
    REQUIRE(::send(peer.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    const Status status = proving.advance();
    CHECK_THAT(status.message(), Catch::Contains("it does not know the secret of this job"));
    CHECK_FALSE(proving.is_open());
    CHECK_FALSE(proving.is_proven());
    std::array<char, 4096> answer{};
    const ssize_t got = ::recv(peer.value(), answer.data(), answer.size(), MSG_DONTWAIT);
    CHECK(got == static_cast<ssize_t>(base::Handshake::kAnswerBytes));
}

/// Two links that use authentication codes. The test carries the bytes from one to the other, and may change them.
struct CodedLinks {
    CodedLinks() {
        std::array<int, 4> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data() + 2) == 0);
        base::MessageKeys keys;
        keys.sending.fill(1);
        keys.receiving.fill(2);
        sender = FrameLink(base::ProvenConnection{base::UniqueFd(ends[0]), keys});
        std::swap(keys.sending, keys.receiving);
        receiver = FrameLink(base::ProvenConnection{base::UniqueFd(ends[2]), keys});
        from_sender.reset(ends[1]);
        to_receiver.reset(ends[3]);
    }
    std::string sent(FrameKind kind, const std::string& payload) {
        sender.send(kind, 7, payload);
        std::array<char, 4096> bytes{};
        const ssize_t got = ::recv(from_sender.value(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        REQUIRE(got > 0);
        return {bytes.data(), static_cast<std::size_t>(got)};
    }
    std::vector<Frame> pass(const std::string& bytes) {
        REQUIRE(::send(to_receiver.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        return receiver.receive();
    }
    FrameLink sender;
    FrameLink receiver;
    base::UniqueFd from_sender;
    base::UniqueFd to_receiver;
};

TEST_CASE("frames with codes arrive, in whatever pieces", "[unit]") {
    CodedLinks links;
    std::string bytes = links.sent(FrameKind::output, "one");
    bytes += links.sent(FrameKind::ended, "");
    std::vector<Frame> frames;
    for (const char byte : bytes) {
        for (Frame& frame : links.pass(std::string(1, byte))) {
            frames.push_back(std::move(frame));
        }
    }
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].payload == "one");
    CHECK(frames[1].kind == FrameKind::ended);
    CHECK(frames[1].value == 7);
    CHECK(links.receiver.is_open());
}

TEST_CASE("a frame that was changed, repeated, left out, reflected or invented closes the link", "[unit]") {
    {
        CodedLinks clean;
        const std::size_t length = clean.sent(FrameKind::deliver, "text").size();
        for (std::size_t i = 0; i < length; ++i) {
            CodedLinks links;
            std::string bytes = links.sent(FrameKind::deliver, "text");
            bytes[i] = static_cast<char>(bytes[i] ^ 1);
            // The changed byte may make the frame's length larger. The bytes that are appended here then complete the
            // frame.
            bytes += std::string(400, '\0');
            CHECK(links.pass(bytes).empty());
            CHECK_FALSE(links.receiver.is_open());
        }
    }
    CodedLinks repeated;
    const std::string once = repeated.sent(FrameKind::deliver, "text");
    CHECK(repeated.pass(once).size() == 1);
    CHECK(repeated.pass(once).empty());
    CHECK_FALSE(repeated.receiver.is_open());

    CodedLinks left_out;
    static_cast<void>(left_out.sent(FrameKind::deliver, "first"));
    CHECK(left_out.pass(left_out.sent(FrameKind::deliver, "second")).empty());
    CHECK_FALSE(left_out.receiver.is_open());

    CodedLinks reflected;
    reflected.receiver.send(FrameKind::deliver, 9);
    std::array<char, 4096> bytes{};
    const ssize_t got = ::recv(reflected.to_receiver.value(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    REQUIRE(got > 0);
    CHECK(reflected.pass({bytes.data(), static_cast<std::size_t>(got)}).empty());
    CHECK_FALSE(reflected.receiver.is_open());
}

}  // namespace
}  // namespace rueda::launcher
