// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the MPI plugin with an MPI that delivers messages of any length: in the rendezvous, in the control plane's
// exchanges, and as messages with or without a posted receive. The tested plugin is rank 1 of 3. In a second rendezvous
// it is rank 0, which is the lowest member.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/mpi/mpi_api.hpp"
#include "collectives/mpi/mpi_control_plane.hpp"
#include "collectives/mpi/mpi_rendezvous.hpp"
#include "collectives/transport.hpp"
#include "collectives/wire.hpp"
#include "tests/collectives/mpi/numbered_request.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::collectives;
using fuzz::expect;
using fuzz::Input;
using tests::number_of;
using tests::request_of;

constexpr int kRank = 1;
constexpr int kSize = 3;
constexpr std::byte kFill{0x5A};

/// Reads from the input a length that another rank announces. If the plugin would accept this length, shortens it,
/// because long messages would make the fuzzer slow.
std::uint64_t said_length(Input& input, std::uint64_t accepted, std::uint64_t shortened) {
    const auto length = input.take<std::uint64_t>();
    return length > accepted ? length : length % shortened;
}

/// An MPI that keeps the promises of the standard: it never writes beyond a buffer, and it reports truncated messages.
class SomebodysMpi final : public MpiApi {
public:
    explicit SomebodysMpi(Input& input) : input_(input) {}

    std::array<std::uint64_t, kSize> told{};  ///< the values of the last exchange of lengths
    bool tells_length = false;                ///< whether the next broadcast contains a length
    std::optional<std::uint64_t> message;     ///< the size of a message that arrives at a posted receive
    std::optional<MpiEnvelope> waiting;       ///< a message that arrives before its receive is posted
    /// whether the rest of the input consists of messages for which no receive is posted
    bool has_strays = false;
    /// The number of messages that the other ranks claim to have sent to this rank.
    std::uint32_t expected = 0;
    std::deque<Bytes> of_rendezvous{};  ///< messages of the rendezvous

    bool initialized() override { return true; }
    bool finalized() override { return false; }
    std::string library_version() override { return fmt::format("{} v1.2.3", name_of(own_mpi_abi())); }
    bool is_cuda_aware() override { return false; }
    Result<int> init_thread(int /*required*/) override { return MPI_THREAD_MULTIPLE; }
    Result<int> query_thread() override { return MPI_THREAD_MULTIPLE; }
    Status finalize() override { return {}; }
    Result<MPI_Comm> duplicate(MPI_Comm communicator) override { return communicator; }
    Result<MPI_Comm> communicator_of(std::span<const int> /*ranks*/, int /*tag*/) override { return MPI_COMM_SELF; }
    Result<bool> is_intercommunicator(MPI_Comm /*comm*/) override { return false; }
    Result<bool> are_congruent(MPI_Comm /*a*/, MPI_Comm /*b*/) override { return true; }
    Result<std::vector<int>> world_ranks(MPI_Comm /*comm*/) override { return std::vector<int>{0, 1, 2}; }
    Status free_communicator(MPI_Comm /*comm*/) override { return {}; }
    Result<int> rank(MPI_Comm /*comm*/) override { return kRank; }
    Result<int> size(MPI_Comm /*comm*/) override { return kSize; }
    Result<int> call_at_finalize(std::function<void()> /*called*/) override { return 1; }
    Status release_finalize_key(int /*key*/) override { return {}; }

    Result<MPI_Request> iallgather(std::span<const std::byte> mine, std::byte* all, MPI_Comm /*comm*/) override {
        expect(mine.size() == sizeof(told[0]));
        for (int other = 0; other < kSize; ++other) {
            std::uint64_t& length = told[static_cast<std::size_t>(other)];
            if (other == kRank) {
                std::memcpy(&length, mine.data(), sizeof length);
                length += input_.take<std::uint8_t>() == 255 ? 1 : 0;
            } else {
                length = said_length(input_, kMaxControlMessage, 300);
            }
        }
        std::memcpy(all, told.data(), sizeof told);
        return MPI_REQUEST_NULL;
    }
    Result<MPI_Request> iallgatherv(std::span<const std::byte> mine, std::byte* all, const int* counts,
                                    const int* offsets, MPI_Comm /*comm*/) override {
        expect(counts[kRank] >= 0 && static_cast<std::size_t>(counts[kRank]) == mine.size());
        for (int other = 0; other < kSize; ++other) {
            expect(counts[other] >= 0 && offsets[other] >= 0);
            std::fill_n(all + offsets[other], counts[other], kFill);
        }
        std::copy(mine.begin(), mine.end(), all + offsets[kRank]);
        return MPI_REQUEST_NULL;
    }
    Result<MPI_Request> ibroadcast(std::span<std::byte> bytes, int root, MPI_Comm /*comm*/) override {
        if (root != kRank && std::exchange(tells_length, false)) {
            told[0] = said_length(input_, kMaxControlMessage, 300);
            expect(bytes.size() == sizeof told[0]);
            std::memcpy(bytes.data(), told.data(), sizeof told[0]);
        } else if (root != kRank) {
            std::fill(bytes.begin(), bytes.end(), kFill);
        }
        return MPI_REQUEST_NULL;
    }
    Result<MPI_Request> ibarrier(MPI_Comm /*comm*/) override { return MPI_REQUEST_NULL; }
    Result<MPI_Request> isum_scatter(const std::uint32_t* /*all*/, std::uint32_t* mine, MPI_Comm /*comm*/) override {
        *mine = expected;
        return MPI_REQUEST_NULL;
    }
    Result<bool> test(MPI_Request& /*request*/) override { return true; }

    Result<MPI_Request> isend(std::span<const std::byte> bytes, int /*rank*/, int tag, MPI_Comm /*comm*/) override {
        if (tag == kRendezvousTag && bytes.size() > 2 * sizeof(std::int32_t)) {
            answer(bytes);
        }
        return keep({tag, {}, true});
    }
    Result<MPI_Request> irecv(std::span<std::byte> room, int /*rank*/, int tag, MPI_Comm /*comm*/) override {
        return keep({tag, room, false});
    }
    Result<MpiMessage> test_message(MPI_Request& request) override {
        const auto found = under_way_.find(number_of(request));
        expect(found != under_way_.end());
        const UnderWay& one = found->second;
        MpiMessage result;
        if (one.is_send || one.is_cancelled) {
            result.complete = true;
            result.cancelled = one.is_cancelled;
        } else if (one.tag == kRendezvousTag) {
            expect(one.room.size() == of_rendezvous.front().size());
            result.complete = true;
            std::copy(of_rendezvous.front().begin(), of_rendezvous.front().end(), one.room.begin());
            of_rendezvous.pop_front();
        } else if (message || has_strays) {
            receive(result, one.room, message.value_or(one.room.size()));
            message.reset();
        }
        if (result.complete) {
            under_way_.erase(found);
        }
        return result;
    }
    Result<std::optional<MpiEnvelope>> probe(int rank, int tag, MPI_Comm /*comm*/) override {
        if (tag == kRendezvousTag) {
            return of_rendezvous.empty() ? std::optional<MpiEnvelope>()
                                         : std::optional(MpiEnvelope{rank, tag, of_rendezvous.front().size()});
        }
        if (has_strays && !input_.empty()) {
            const int from = input_.take<std::int8_t>();
            return std::optional(MpiEnvelope{from, 7, said_length(input_, Transport::kMostBytes, 1000)});
        }
        return std::exchange(waiting, std::nullopt);
    }
    Status cancel(MPI_Request& request) override {
        expect(under_way_.count(number_of(request)) == 1);
        under_way_.at(number_of(request)).is_cancelled = true;
        return {};
    }

private:
    struct UnderWay {
        int tag;
        std::span<std::byte> room;
        bool is_send;
        bool is_cancelled = false;
    };

    static void receive(MpiMessage& result, std::span<std::byte> room, std::uint64_t bytes) {
        result.complete = true;
        result.truncated = bytes > room.size();
        result.bytes = bytes;
        std::fill_n(room.begin(), std::min<std::uint64_t>(bytes, room.size()), kFill);
    }
    /// Sends the answer of the rendezvous's lowest member, which always agrees with this rank.
    void answer(std::span<const std::byte> bytes) {
        WireWriter verdict;
        verdict.append(bytes.first(sizeof(std::int32_t)));
        verdict.number(std::int32_t{0});
        of_rendezvous.push_back(std::move(verdict).take());
    }

    Result<MPI_Request> keep(const UnderWay& started) {
        under_way_.emplace(++last_, started);
        return request_of(last_);
    }

    Input& input_;
    std::map<int, UnderWay> under_way_;
    int last_ = 0;
};

void check(const Status& status) {
    const std::string& text = status.message();
    expect(status.is_ok() == text.empty());
    expect(std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }));
}

/// Calls a control plane's functions in the order that the input chooses.
class Driver {
public:
    Driver(Input& input, SomebodysMpi& mpi, ControlPlane& plane) : input_(input), mpi_(mpi), plane_(plane) {}

    void run() {
        while (!input_.empty() && !has_closed_) {
            switch (input_.take<std::uint8_t>() % 6) {
                case 0:
                    gather();
                    break;
                case 1:
                    broadcast();
                    break;
                case 2:
                    check(plane_.barrier());
                    break;
                case 3:
                    probe();
                    break;
                case 4:
                    receive();
                    break;
                default:
                    close();
            }
        }
        plane_.close(has_closed_);
    }

private:
    void gather() {
        const Bytes mine(input_.take<std::uint8_t>(), std::byte{1});
        const Result<std::vector<Bytes>> all = plane_.allgather(mine);
        check(all.status());
        if (!all.is_ok()) {
            return;
        }
        expect(all.value().size() == kSize && all.value()[kRank] == mine);
        for (std::size_t rank = 0; rank < kSize; ++rank) {
            expect(rank == kRank || all.value()[rank] == Bytes(mpi_.told[rank], kFill));
        }
    }
    void broadcast() {
        const int root = input_.take<std::uint8_t>() % kSize;
        const Bytes mine(root == kRank ? input_.take<std::uint8_t>() : 0, std::byte{1});
        mpi_.tells_length = true;
        const Result<Bytes> said = plane_.broadcast(mine, root);
        check(said.status());
        expect(!said.is_ok() || said.value() == (root == kRank ? mine : Bytes(mpi_.told[0], kFill)));
    }
    void probe() {
        const int from = input_.take<std::int8_t>();
        const int tag = input_.take<std::uint8_t>();
        mpi_.waiting = MpiEnvelope{from, tag, said_length(input_, Transport::kMostBytes, 1000)};
        const auto arrival = plane_.transport()->probe();
        check(arrival.status());
        if (arrival.is_ok() && arrival.value()) {
            expect(arrival.value()->rank >= 0 && arrival.value()->rank < kSize && arrival.value()->rank != kRank);
            wait_for(arrival.value()->rank, arrival.value()->bytes, arrival.value()->bytes);
        }
    }
    void receive() {
        const auto room = input_.take<std::uint8_t>();
        const auto bytes = input_.take<std::uint8_t>();
        wait_for(input_.take<std::uint8_t>() % 2 * 2, room, bytes);
    }
    void wait_for(int from, std::size_t bytes_of_room, std::uint64_t bytes) {
        rooms_.emplace_back(bytes_of_room);
        const auto ticket = plane_.transport()->receive(from, Transport::Channel::messages, rooms_.back());
        check(ticket.status());
        if (!ticket.is_ok()) {
            return;
        }
        mpi_.message = bytes;
        const auto done = plane_.transport()->test(ticket.value());
        check(done.status());
        expect(done.is_ok() == (bytes <= bytes_of_room));
        expect(!done.is_ok() || done.value() == std::optional<std::size_t>(bytes));
    }
    void close() {
        mpi_.expected = input_.take<std::uint8_t>();
        mpi_.has_strays = true;
        plane_.close(false);
        has_closed_ = true;
    }

    Input& input_;
    SomebodysMpi& mpi_;
    ControlPlane& plane_;
    std::deque<Bytes> rooms_;
    bool has_closed_ = false;
};

Bytes any_message(Input& input) {
    Bytes message(input.take<std::uint8_t>() % 48);
    std::generate(message.begin(), message.end(), [&] { return input.take<std::byte>(); });
    return message;
}

/// This rank is the lowest member of a rendezvous. The other two members may send anything.
void be_the_lowest_member(Input& input) {
    SomebodysMpi mpi(input);
    const RendezvousTime begin{};
    const auto rendezvous =
        begin_rendezvous(mpi, {MPI_COMM_WORLD, {0, 1, 2}, 0, true, std::chrono::seconds(1)}, 1, begin);
    while (!input.empty()) {
        mpi.of_rendezvous.push_back(any_message(input));
        if (const auto early = rendezvous->step(begin)) {
            check(*early);
        }
    }
    const auto verdict = rendezvous->step(begin + std::chrono::seconds(1));
    expect(verdict.has_value());
    check(*verdict);
    expect(rendezvous->have_messages_left());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    const auto kind = input.take<std::uint8_t>() % 3;
    if (kind == 2) {
        be_the_lowest_member(input);
        return 0;
    }
    const auto mpi = std::make_shared<SomebodysMpi>(input);
    if (kind == 1) {
        mpi->of_rendezvous.push_back(any_message(input));
    }
    WireWriter question;
    question.number(std::int32_t{1});
    question.number(std::int32_t{1000});
    mpi->of_rendezvous.push_back(std::move(question).take());
    const std::size_t chunk = input.take<std::uint8_t>() % 2 == 0 ? 16 : std::size_t{1} << 20;
    auto opened = open_mpi_control_plane(mpi, {.operation_timeout = std::chrono::milliseconds(1)}, chunk);
    check(opened.status());
    if (opened.is_ok()) {
        Driver(input, *mpi, *opened.value().control_plane).run();
    }
    return 0;
}
