// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank of benchmarks/links/links. Times blocking allreduces in turn: Rueda, Rueda with float16 values between
// hosts, MPI, and programs written by hand (SpinningSockets): for small tensors, a round trip between the first ranks
// of the hosts ("star"), and for two hosts, an exchange between their first ranks ("exchange"). Rank 0 prints a line of
// JSON for each size:
//
//   {"bytes": …, "rueda": [µs …], "fp16": [µs …], "mpi": [µs …], "star": [µs …], "exchange": [µs …]}
//
// Usage: links_rank SECONDS SIZE…
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "rueda/rueda.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// Whether the ranks outnumber the cores, so that a rank that polls must give up the core from time to time.
bool is_crowded() {
    static const bool crowded = rueda::size() > ::sysconf(_SC_NPROCESSORS_ONLN);
    return crowded;
}

/// Lets all ranks return at the same time. A barrier alone does not suffice: on a link with a delay, some ranks leave
/// it later than others by up to the delay, and an operation then seems to take this time too. The hosts are namespaces
/// of one machine, so all ranks have the same clock.
class CommonStart {
public:
    CommonStart() {
        const auto begin = Clock::now();
        for (int i = 0; i < kBarriers; ++i) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        patience_ = std::chrono::microseconds(20) + (Clock::now() - begin) / kBarriers * 2;
    }

    void wait() const {
        MPI_Barrier(MPI_COMM_WORLD);
        auto start = (Clock::now() + patience_).time_since_epoch().count();
        MPI_Bcast(&start, sizeof start, MPI_BYTE, 0, MPI_COMM_WORLD);
        while (Clock::now().time_since_epoch().count() < start) {
            if (is_crowded()) {
                ::sched_yield();
            }
        }
    }

private:
    static constexpr int kBarriers = 10;
    Clock::duration patience_{};  // longer than the broadcast of the start
};

/// Times single operations and checks their results. The time is that of the slowest rank, in µs.
class Timed {
public:
    explicit Timed(std::size_t elements) : data_(elements) {}

    double operator()(const std::function<void(std::vector<float>&)>& reduce, bool gives_result = true) {
        for (std::size_t i = 0; i < data_.size(); ++i) {
            data_[i] = value(i, rueda::rank());
        }
        start_.wait();
        const auto begin = Clock::now();
        reduce(data_);
        double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (gives_result) {
            check();
        }
        return seconds * 1e6;
    }

private:
    /// Returns a small integer. Sums of such integers are exact in every order and, with up to 66 ranks, also in
    /// float16.
    static float value(std::size_t i, int rank) {
        return static_cast<float>((i + static_cast<std::size_t>(rank)) % 32);
    }
    void check() const {
        const int size = rueda::size();
        for (std::size_t i = 0; i < data_.size(); ++i) {
            float expected = 0;
            for (int rank = 0; rank < size; ++rank) {
                expected += value(i, rank);
            }
            if (data_[i] != expected) {
                throw rueda::Internal(fmt::format("element {} is {}, expected {}", i, data_[i], expected));
            }
        }
    }

    std::vector<float> data_;
    CommonStart start_;
};

/// Allreduces written by hand between the first ranks of the hosts, over TCP connections to rank 0. All these ranks
/// poll their sockets without a pause, and nothing is compared or authenticated. The other ranks of the hosts do
/// nothing, and get no result.
class SpinningSockets {
public:
    static constexpr std::size_t kMostBytesOfStar = 16 * 1024;
    static constexpr std::size_t kMostBytesOfExchange = 1024 * 1024;

    SpinningSockets() { connect_all(); }
    ~SpinningSockets() {
        for (const int connection : connections_) {
            ::close(connection);
        }
    }
    SpinningSockets(const SpinningSockets&) = delete;
    SpinningSockets& operator=(const SpinningSockets&) = delete;

    [[nodiscard]] static bool may_exchange() { return rueda::size() == 2 * rueda::local_size(); }
    /// Only for two hosts: their first ranks send each other their tensors at the same time, and both add them.
    void exchange(std::vector<float>& data) {
        const std::size_t bytes = data.size() * sizeof(float);
        other_.resize(data.size());
        for (const int connection : connections_) {
            auto* const out = reinterpret_cast<char*>(data.data());
            auto* const in = reinterpret_cast<char*>(other_.data());
            for (std::size_t sent = 0, received = 0; sent < bytes || received < bytes;) {
                sent += sent < bytes ? step(connection, out + sent, bytes - sent, &::send) : 0;
                received += received < bytes ? step(connection, in + received, bytes - received, &::recv) : 0;
            }
            for (std::size_t i = 0; i < data.size(); ++i) {
                data[i] += other_[i];
            }
        }
    }

    /// The fastest way to reduce a small tensor through one host: the first rank of each other host sends its tensor to
    /// rank 0, which adds all tensors and sends the sum back.
    void star(std::vector<float>& data) {
        const std::size_t bytes = data.size() * sizeof(float);
        if (rueda::rank() != 0) {
            for (const int connection : connections_) {
                transfer(connection, data.data(), bytes, &::send);
                transfer(connection, data.data(), bytes, &::recv);
            }
            return;
        }
        other_.resize(data.size());
        for (const int connection : connections_) {
            transfer(connection, other_.data(), bytes, &::recv);
            for (std::size_t i = 0; i < data.size(); ++i) {
                data[i] += other_[i];
            }
        }
        for (const int connection : connections_) {
            transfer(connection, data.data(), bytes, &::send);
        }
    }
    /// Whether all ranks get the sum of all ranks.
    [[nodiscard]] static bool gives_result() { return rueda::local_size() == 1; }

private:
    static void require(bool holds, const char* what) {
        if (!holds) {
            throw rueda::Internal(fmt::format("the hand-written round trip: {} failed", what));
        }
    }

    void connect_all() {
        std::array<char, 256> name{};
        std::array<char, 6> port{};
        const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
        if (rueda::rank() == 0) {
            sockaddr_in any{};
            any.sin_family = AF_INET;
            socklen_t length = sizeof any;
            require(::bind(listener, reinterpret_cast<sockaddr*>(&any), length) == 0 && ::listen(listener, 64) == 0 &&
                        ::getsockname(listener, reinterpret_cast<sockaddr*>(&any), &length) == 0 &&
                        ::gethostname(name.data(), name.size() - 1) == 0,
                    "listening");
            std::snprintf(port.data(), port.size(), "%u", unsigned{ntohs(any.sin_port)});
        }
        MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_Bcast(port.data(), static_cast<int>(port.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
        if (rueda::rank() == 0) {
            for (int host = 1; host < rueda::size() / rueda::local_size(); ++host) {
                keep(::accept(listener, nullptr, nullptr));
            }
        } else if (takes_part_) {
            addrinfo hints{};
            hints.ai_family = AF_INET;
            addrinfo* found = nullptr;
            require(::getaddrinfo(name.data(), port.data(), &hints, &found) == 0, "finding the first host");
            const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
            require(::connect(connection, found->ai_addr, found->ai_addrlen) == 0, "connecting");
            ::freeaddrinfo(found);
            keep(connection);
        }
        ::close(listener);
    }
    void keep(int connection) {
        require(connection >= 0, "connecting");
        const int on = 1;
        ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        connections_.push_back(connection);
    }

    /// Calls `move` (send or recv) until all bytes are transferred.
    template <class Move>
    static void transfer(int connection, float* data, std::size_t bytes, Move move) {
        auto* next = reinterpret_cast<char*>(data);
        for (char* const end = next + bytes; next != end;) {
            next += step(connection, next, static_cast<std::size_t>(end - next), move);
        }
    }
    /// Calls `move` once, and returns how many bytes were transferred. If none were, gives up the core if the ranks
    /// outnumber the cores.
    template <class Move>
    static std::size_t step(int connection, char* data, std::size_t bytes, Move move) {
        const ssize_t moved = move(connection, data, bytes, MSG_DONTWAIT);
        require(moved > 0 || (moved < 0 && errno == EAGAIN), "a transfer");
        if (moved < 0 && is_crowded()) {
            ::sched_yield();
        }
        return moved > 0 ? static_cast<std::size_t>(moved) : 0;
    }

    const bool takes_part_ = rueda::local_rank() == 0;
    std::vector<int> connections_;
    std::vector<float> other_;
};

using Reduce = std::function<void(std::vector<float>&)>;
struct Candidate {
    const char* name;
    Reduce reduce;
    std::vector<double> times = {};
    bool gives_result = true;
};

void print(std::size_t bytes, const std::vector<Candidate>& candidates) {
    fmt::print("{{\"bytes\": {}", bytes);
    for (const Candidate& candidate : candidates) {
        fmt::print(", \"{}\": [{:.2f}]", candidate.name, fmt::join(candidate.times, ", "));
    }
    fmt::print("}}\n");
    std::fflush(stdout);
}

Reduce by_rueda(const rueda::TensorSlot& slot, rueda::Compression compression) {
    return [&slot, compression](std::vector<float>& data) {
        rueda::allreduce(slot, data, {.op = rueda::ReduceOp::sum, .compression = compression});
    };
}

void measure(std::size_t bytes, double seconds, SpinningSockets& sockets) {
    Timed timed(bytes / sizeof(float));
    const rueda::TensorSlot plain(fmt::format("tensor of {}", bytes));
    const rueda::TensorSlot halves(fmt::format("tensor of {} as float16", bytes));
    const auto by_mpi = [](std::vector<float>& data) {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    std::vector<Candidate> candidates = {{"rueda", by_rueda(plain, rueda::Compression::none)},
                                         {"fp16", by_rueda(halves, rueda::Compression::fp16)},
                                         {"mpi", by_mpi}};
    if (bytes <= SpinningSockets::kMostBytesOfStar) {
        const auto star = [&sockets](std::vector<float>& data) { sockets.star(data); };
        candidates.push_back({"star", star, {}, SpinningSockets::gives_result()});
    }
    if (bytes <= SpinningSockets::kMostBytesOfExchange && SpinningSockets::may_exchange()) {
        const auto exchange = [&sockets](std::vector<float>& data) { sockets.exchange(data); };
        candidates.push_back({"exchange", exchange, {}, SpinningSockets::gives_result()});
    }
    for (const Candidate& candidate : candidates) {
        static_cast<void>(timed(candidate.reduce, candidate.gives_result));
    }
    const auto begin = Clock::now();
    int go_on = 1;
    for (int rounds = 1; go_on != 0; ++rounds) {
        for (Candidate& candidate : candidates) {
            candidate.times.push_back(timed(candidate.reduce, candidate.gives_result));
        }
        go_on = Clock::now() - begin < std::chrono::duration<double>(seconds) || rounds < 3 ? 1 : 0;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rueda::rank() == 0) {
        print(bytes, candidates);
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        rueda::init();
        SpinningSockets sockets;
        for (int i = 2; i < argc; ++i) {
            const auto bytes = rueda::base::parse_bytes(argv[i]);
            if (!bytes || *bytes < sizeof(float) || *bytes % sizeof(float) != 0) {
                throw rueda::InvalidArgument(fmt::format("size '{}' is not whole float32 (4, 64K, 16M)", argv[i]));
            }
            measure(*bytes, std::stod(argv[1]), sockets);
        }
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
