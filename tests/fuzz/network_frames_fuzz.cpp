// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank of another host sends message frames of any content and length. A rank with pending sends and receives must
// continue, or end the job with a reason. It must never write beyond a caller's memory, and all its operations must
// end.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/settings/config.hpp"
#include "core/messages/frame.hpp"
#include "core/messages/messenger.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;
using collectives::Bytes;
using fuzz::expect;
using fuzz::Input;

constexpr int kThere = 1;  // the rank of the other host, whose frames the input supplies

/// A transport that receives what the input supplies. Sends complete when the input says so.
class Wire final : public collectives::Transport {
public:
    void bring(Bytes message) { coming_.push_back(std::move(message)); }
    void hold(bool holds) { holds_ = holds; }

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override {
        expect(rank == kThere && port.channel == Channel::messages && bytes.size() >= sizeof(Frame));
        tickets_.push_back(bytes.size());
        return static_cast<Ticket>(2 * (tickets_.size() - 1));
    }
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override {
        expect(rank == kThere && port.channel == Channel::messages && !coming_.empty());
        // the buffer must have exactly the message's size, because MPI treats another size as an error
        expect(room.size() == coming_.front().size());
        std::copy(coming_.front().begin(), coming_.front().end(), room.begin());
        coming_.pop_front();
        tickets_.push_back(room.size());
        return static_cast<Ticket>(2 * (tickets_.size() - 1) + 1);
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override {
        expect(ticket / 2 < tickets_.size());
        const bool is_send = ticket % 2 == 0;
        return is_send && holds_ ? std::optional<std::size_t>() : std::optional(tickets_[ticket / 2]);
    }
    Result<bool> cancel(Ticket /*ticket*/) override { return true; }
    Result<std::optional<Arrival>> probe() override {
        return coming_.empty() ? std::optional<Arrival>() : std::optional(Arrival{kThere, coming_.front().size()});
    }
    void abandon() override {}

private:
    std::deque<Bytes> coming_;
    // the number of bytes of each received message; the index is the `Ticket` that receive() returned
    std::vector<std::size_t> tickets_;
    bool holds_ = false;
};

/// An operation. Its memory has exactly the announced size, so that AddressSanitizer reports an access beyond it.
struct Call {
    Completion completion;
    std::unique_ptr<std::byte[]> memory;
};

class Rank {
public:
    Rank() {
        group_ = collectives::group_by_host(0, {collectives::own_facts("here"), collectives::own_facts("there")});
        group_.job_ranks = {0, kThere};
        collectives::ArenaPlan plan;
        plan.negotiation_bytes = 4096;
        plan.cell_bytes = 4096;
        plan.resident_bytes = 4096;
        plan.ring_bytes = 4096;
        auto memory = collectives::Arena::create_memory(plan);
        expect(memory.is_ok());
        auto arena = collectives::Arena::map(std::move(memory).value(), plan, 0);
        expect(arena.is_ok());
        arena.value()->initialise();
        base::Config config;
        config.log_level = base::LogLevel::off;
        messenger_ = std::make_unique<Messenger>(group_, arena.value(), &wire_, pending_, base::Logger(config, 0));
    }
    ~Rank() {
        messenger_->fail_all(failure(ErrorCode::aborted, "the end"));
        for (const Call& call : calls_) {
            expect(call.completion.done());
        }
        expect(pending_.load() == 0);
    }

    void begin(Input& input) {
        const auto choice = input.take<std::uint8_t>();
        MessageRequest request;
        request.sends = choice % 2 == 0;
        request.peer = choice % 8 == 1 ? RUEDA_ANY_PEER : kThere;
        request.tag = choice >> 4U & 1U;
        request.set = sets_[choice >> 5U & 1U];
        request.bytes = input.take<std::uint8_t>() * (choice >= 192 ? 1000U : 1U);
        Call& call = calls_.emplace_back();
        call.memory = std::make_unique<std::byte[]>(request.bytes);
        request.memory = call.memory.get();
        expect(messenger_->submit(std::move(request), call.completion).is_ok());
    }
    /// Makes a frame from the input, usually of a valid kind.
    void bring(Input& input) {
        const auto choice = input.take<std::uint8_t>();
        const auto length = input.take<std::uint8_t>();
        auto frame = input.take<Frame>();
        if (choice % 2 == 0) {
            frame.kind %= 13;
            frame.id %= 8;
            frame.tag &= 1;
            frame.set &= 1;
            frame.dtype %= 16;
            frame.flags &= 3;
            std::fill(std::begin(frame.reserved), std::end(frame.reserved), std::uint8_t{0});
        }
        const std::size_t payload = length * (choice >= 192 ? 300U : 1U);
        if (choice % 4 == 0) {
            frame.bytes = payload;
        }
        Bytes message(sizeof(Frame) + payload, std::byte{0x5A});
        std::memcpy(message.data(), &frame, sizeof(Frame));
        if (choice % 16 == 15) {
            message.resize(length);
        }
        wire_.bring(std::move(message));
    }
    void hold(bool holds) { wire_.hold(holds); }
    void forget() { messenger_->forget(1, failure(ErrorCode::invalid_argument, "removed")); }
    void shut_down() { messenger_->shut_down(); }
    /// Returns false if the job has ended.
    bool step() {
        const auto step = messenger_->step(/*somebody_waits=*/true, /*asks_others=*/true);
        if (!step.is_ok()) {
            expect(!step.status().message().empty());
        }
        return step.is_ok();
    }

private:
    collectives::LocalGroup group_;
    Wire wire_;
    std::shared_ptr<const SetIdentity> sets_[2] = {
        std::make_shared<const SetIdentity>(SetIdentity{0, {0, kThere}}),
        std::make_shared<const SetIdentity>(SetIdentity{1, {0, kThere}}),
    };
    std::atomic<std::uint32_t> pending_{0};
    std::deque<Call> calls_;
    std::unique_ptr<Messenger> messenger_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Rank rank;
    Input input(std::span(data, size));
    bool goes_on = true;
    bool may_begin = true;
    for (int i = 0; i < 64 && goes_on && !input.empty(); ++i) {
        switch (const auto choice = input.take<std::uint8_t>(); choice % 8) {
            case 0:
            case 1:
                if (may_begin) {
                    rank.begin(input);
                }
                break;
            case 2:
                rank.hold(choice >= 128);
                break;
            case 3:
                if (std::exchange(may_begin, false)) {
                    choice >= 128 ? rank.forget() : rank.shut_down();
                }
                break;
            case 4:
                goes_on = rank.step();
                break;
            default:
                rank.bring(input);
        }
    }
    rank.hold(false);
    for (int turn = 0; turn < 4 && goes_on; ++turn) {
        goes_on = rank.step();
    }
    return 0;
}
