// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that a leader's receive buffers stay allocated after the leader is destroyed, because MPI may still write to
// them. Also tests what a leader does when the connection to another host ends.
#include "core/hosts/leader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/negotiation/tree_messages.hpp"

namespace rueda::tests {
namespace {

using collectives::Transport;
using core::Leader;
using Memory = core::NegotiationMemory<base::StdAtomics>;

/// A transport whose sends complete at once, and whose receives stay pending until the test delivers data.
class StandIn final : public Transport {
public:
    struct Posted {
        int rank = 0;
        Port port = Channel::control;
        std::span<std::byte> room;
        std::optional<std::size_t> came = {};
    };

    Result<Ticket> send(int /*rank*/, Port /*port*/, std::span<const std::byte> bytes) override {
        sent_[++last_] = bytes.size();
        return last_;
    }
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override {
        posted_[++last_] = {rank, port, room};
        return last_;
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override {
        if (const auto sent = sent_.find(ticket); sent != sent_.end()) {
            return std::optional(sent->second);
        }
        const Posted& posted = posted_.at(ticket);
        is_cut_ = is_cut_ || (cut_on_ && posted.port == Port(*cut_on_));
        if (is_cut_ && posted.rank == 1) {
            return Status(ErrorCode::aborted, "the connection to rank 1 has ended");
        }
        const std::optional<std::size_t> came = posted.came;
        if (came) {
            posted_.erase(ticket);
        }
        return came;
    }
    Result<bool> cancel(Ticket ticket) override {
        posted_.erase(ticket);
        return true;
    }
    void abandon() override {}

    void deliver(int rank, Channel channel, const std::vector<std::byte>& bytes) {
        for (auto& [ticket, posted] : posted_) {
            if (posted.rank == rank && posted.port == Port(channel) && !posted.came) {
                REQUIRE(bytes.size() <= posted.room.size());
                std::memcpy(posted.room.data(), bytes.data(), bytes.size());
                posted.came = bytes.size();
                return;
            }
        }
        FAIL("nothing is received on that channel");
    }
    /// From the next test() of a receive on `channel` on, all receives from rank 1 fail.
    void cut_when_tested(Channel channel) { cut_on_ = channel; }
    [[nodiscard]] std::vector<std::span<std::byte>> rooms() const {
        std::vector<std::span<std::byte>> all;
        for (const auto& [ticket, posted] : posted_) {
            all.push_back(posted.room);
        }
        return all;
    }

private:
    Ticket last_ = 0;
    std::map<Ticket, std::size_t> sent_;
    std::map<Ticket, Posted> posted_;
    std::optional<Channel> cut_on_;
    bool is_cut_ = false;
};

/// Rank 0 is alone on the root's host. Ranks 1 and 2 are on another host.
struct RootsHost {
    RootsHost() {
        extent.members = 1;
        extent.unnamed_slots = 2;
        extent.initial_slots = 8;
        extent.slots = 8;
        extent.attachments = 4;
        extent.attachment_bytes = 64;
        collectives::ArenaPlan plan;
        plan.members = 1;
        plan.negotiation_bytes = Memory::bytes(extent);
        plan.cell_bytes = 1024;
        plan.resident_bytes = 1U << 16U;
        arena = collectives::Arena::map(collectives::Arena::create_memory(plan).value(), plan, 0).value();
        arena->initialise();
        Memory::initialise(arena->negotiation(), extent);
        memory.emplace(arena->negotiation(), extent);
        registrar.emplace(*memory, 0, core::Registrar<base::StdAtomics>::Environment());
        std::vector<collectives::RankFacts> facts(3);
        facts[0].hostname = "a";
        facts[1].hostname = facts[2].hostname = "b";
        group = collectives::group_by_host(0, facts);
        group.job_ranks = {0, 1, 2};
        leader.emplace(base::Config(), group, arena, *memory, *registrar, enqueue_mutex, transport);
    }
    void turn() {
        const Result<Leader::Moved> moved = leader->turn();
        INFO(moved.status().message());
        REQUIRE(moved.is_ok());
    }
    void shut_down_everywhere() {
        core::MailboxRecord<base::StdAtomics>* const record = registrar->next_record();
        REQUIRE(record != nullptr);
        record->kind = static_cast<std::uint32_t>(core::RequestKind::shut_down);
        REQUIRE(registrar->post().is_ok());
        core::UpMessage message;
        message.number = 1;
        message.shutting_down = {1, 2};
        message.closed_hosts = 1;
        transport.deliver(1, Transport::Channel::control, core::encode(message));
        for (int i = 0; i < 10; ++i) {
            turn();
        }
        REQUIRE(leader->has_left());
    }

    core::NegotiationExtent extent;
    std::shared_ptr<collectives::Arena> arena;
    std::optional<Memory> memory;
    std::optional<core::Registrar<base::StdAtomics>> registrar;
    collectives::LocalGroup group;
    std::mutex enqueue_mutex;
    StandIn transport;
    std::optional<Leader> leader;
};

/// Writes to the buffers of all posted receives, as MPI may do. If a buffer was freed, AddressSanitizer reports the
/// write. Without AddressSanitizer, memory that is allocated here overlaps the freed buffer, and a check fails.
void check_that_rooms_are_still_held(const StandIn& transport) {
    const std::vector<std::span<std::byte>> rooms = transport.rooms();
    REQUIRE(rooms.size() == 3);  // one receive each for control messages, for the end notification, and for diagnostics
    for (const std::span<std::byte> room : rooms) {
        std::fill(room.begin(), room.end(), std::byte{0x5A});
    }
    for (const std::span<std::byte> room : rooms) {
        std::vector<std::vector<std::byte>> others;
        for (int i = 0; i < 8; ++i) {
            others.emplace_back(room.size());
        }
        for (const std::vector<std::byte>& other : others) {
            CHECK_FALSE((other.data() < room.data() + room.size() && room.data() < other.data() + other.size()));
        }
        CHECK(std::all_of(room.begin(), room.end(), [](std::byte byte) { return byte == std::byte{0x5A}; }));
    }
}

TEST_CASE("the memory of posted receives outlives a leader that has not begun to leave", "[threads]") {
    RootsHost host;
    host.turn();
    host.leader.reset();
    check_that_rooms_are_still_held(host.transport);
}

TEST_CASE("the memory of posted receives outlives a leader after an orderly end of its set", "[threads]") {
    RootsHost host;
    host.turn();
    host.shut_down_everywhere();
    host.leader.reset();  // as after an abort, the leader is destroyed without cancelling its receives
    check_that_rooms_are_still_held(host.transport);
}

TEST_CASE("the memory of posted receives outlives a leader after an abort", "[threads]") {
    RootsHost host;
    host.turn();
    host.leader->end({ErrorCode::aborted, "rank 2 died"});
    host.leader.reset();
    check_that_rooms_are_still_held(host.transport);
}

TEST_CASE("a leader that takes its receives back leaves none posted", "[threads]") {
    RootsHost host;
    host.turn();
    host.shut_down_everywhere();
    REQUIRE(host.leader->take_back_receives().is_ok());
    host.leader.reset();
    CHECK(host.transport.rooms().empty());
}

TEST_CASE("a leader waits for the reason when it notices the end of a connection", "[threads]") {
    // Whichever receive notices the end first: that of the tree's messages, or that of the stall inquiry.
    const auto channel = GENERATE(Transport::Channel::control, Transport::Channel::diagnostics);
    RootsHost host;
    host.turn();
    host.transport.cut_when_tested(channel);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // a stall inquiry has a turn every 50 ms
    host.turn();
    host.turn();
    const std::string reason = "rank 1 has died: Killed";
    host.transport.deliver(2, Transport::Channel::end_reason,
                           core::encode(core::AbortMessage{static_cast<std::int32_t>(ErrorCode::aborted), reason}));
    const Result<Leader::Moved> moved = host.leader->turn();
    REQUIRE_FALSE(moved.is_ok());
    CHECK(moved.status().code() == ErrorCode::aborted);
    CHECK(moved.status().message() == reason);
}

TEST_CASE("a leader that gets no reason for the end of a connection ends the job after half a second", "[threads]") {
    RootsHost host;
    host.turn();
    host.transport.cut_when_tested(Transport::Channel::diagnostics);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    host.turn();
    std::this_thread::sleep_for(std::chrono::milliseconds(550));
    const Result<Leader::Moved> moved = host.leader->turn();
    REQUIRE_FALSE(moved.is_ok());
    CHECK(moved.status().message() == "the connection to rank 1 has ended");
}

}  // namespace
}  // namespace rueda::tests
