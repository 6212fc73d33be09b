// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Another rank of the host writes any values into its message ring and the ring's counters. A rank with pending sends
// and receives must continue, or end the job with a reason. It must never write beyond a caller's memory, and all its
// operations must end.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/settings/config.hpp"
#include "core/messages/host_link.hpp"
#include "core/messages/messenger.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;
using fuzz::expect;
using fuzz::Input;

constexpr std::uint64_t kResidentBytes = 128 * 1024;

/// An operation of the tested rank. Its memory has exactly the announced size, so that AddressSanitizer reports an
/// access beyond it.
struct Call {
    Completion completion;
    std::unique_ptr<std::byte[]> memory;
};

/// Two ranks of one host. Rank 0 runs the shipped code, and the input plays rank 1.
class Host {
public:
    Host() {
        collectives::ArenaPlan plan;
        plan.members = 2;
        plan.negotiation_bytes = 4096;
        plan.cell_bytes = 4096;
        plan.resident_bytes = kResidentBytes;
        plan.ring_bytes = 16 * 1024;
        auto memory = collectives::Arena::create_memory(plan);
        expect(memory.is_ok());
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            auto arena = collectives::Arena::map(base::UniqueFd(dup(memory.value().value())), plan, rank);
            expect(arena.is_ok());
            if (rank == 0) {
                arena.value()->initialise();
            }
            arenas_[rank] = arena.value();
        }
        group_ = collectives::group_by_host(0, std::vector(2, collectives::own_facts("host")));
        group_.job_ranks = {0, 1};
        base::Config config;
        config.log_level = base::LogLevel::off;
        messenger_ =
            std::make_unique<Messenger>(group_, arenas_[0], nullptr, pending_, base::Logger(config, group_.rank));
        liar_ = std::make_unique<HostLink>(arenas_[1], 0);
    }
    ~Host() {
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
        request.peer = choice % 8 == 1 ? RUEDA_ANY_PEER : choice % 16 == 4 ? 0 : 1;
        request.tag = choice >> 4U & 1U;
        request.set = sets_[choice >> 5U & 1U];
        request.bytes = input.take<std::uint8_t>() * (choice >= 192 ? 300U : 1U);
        Call& call = calls_.emplace_back();
        call.memory = std::make_unique<std::byte[]>(request.bytes);
        const bool resident = request.sends && choice % 4 == 0 && request.bytes <= kResidentBytes;
        request.memory = resident ? arenas_[0]->resident(0) : call.memory.get();
        expect(messenger_->submit(std::move(request), call.completion).is_ok());
    }
    void lie(Input& input) {
        const auto length = input.take<std::uint8_t>();
        auto frame = input.take<Frame>();
        if (length % 2 == 0) {  // gives the fields of the frame valid values in most cases
            frame.kind %= 13;
            frame.id %= 8;
            frame.tag &= 1;
            frame.set &= 1;
            frame.dtype %= 16;
            frame.flags &= 3;
            std::fill(std::begin(frame.reserved), std::end(frame.reserved), std::uint8_t{0});
        }
        const std::vector<std::byte> payload(length, std::byte{0x5A});
        if (length % 4 == 0) {
            frame.bytes = payload.size();
        }
        const bool is_near = length % 8 == 0;
        static_cast<void>((is_near ? liar_->send_awaited(frame, payload) : liar_->send(frame, payload)).is_ok());
        liar_->tell();
    }
    void break_ring(Input& input) {
        const collectives::MessageRegion region = arenas_[1]->message_region();
        const auto choice = input.take<std::uint8_t>();
        const auto count = input.take<std::uint64_t>();
        switch (choice % 5) {
            case 0:
                region.state(1, 0).written.store(count);
                break;
            case 1:
                region.state(0, 1).read.store(count);
                break;
            case 2:
                region.state(1, 0).near.store(count);
                break;
            case 3:
                std::memcpy(region.bytes(1, 0) + choice / 4 * 64, &count, sizeof(count));
                break;
            default:
                region.door(1).gone.store(1);
                region.departures().store(static_cast<std::uint32_t>(count));
        }
        liar_->tell();
        static_cast<void>(region.door(0).step.knock(1));
    }
    /// Returns false if the job has ended.
    bool step() {
        const auto step = messenger_->step(/*somebody_waits=*/true, /*asks_others=*/false);
        if (!step.is_ok()) {
            expect(step.status().code() == ErrorCode::internal && !step.status().message().empty());
        }
        return step.is_ok();
    }
    void forget() { messenger_->forget(1, failure(ErrorCode::invalid_argument, "removed")); }

private:
    std::shared_ptr<collectives::Arena> arenas_[2];
    collectives::LocalGroup group_;
    std::shared_ptr<const SetIdentity> sets_[2] = {
        std::make_shared<const SetIdentity>(SetIdentity{0, {0, 1}}),
        std::make_shared<const SetIdentity>(SetIdentity{1, {0, 1}}),
    };
    std::atomic<std::uint32_t> pending_{0};
    std::deque<Call> calls_;
    std::unique_ptr<Messenger> messenger_;
    std::unique_ptr<HostLink> liar_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Host host;
    Input input(std::span(data, size));
    bool has_forgotten = false;
    for (int i = 0; i < 64 && !input.empty(); ++i) {
        switch (input.take<std::uint8_t>() % 8) {
            case 0:
            case 1:
                if (!has_forgotten) {
                    host.begin(input);
                }
                break;
            case 2:
                host.break_ring(input);
                break;
            case 3:
                if (!std::exchange(has_forgotten, true)) {
                    host.forget();
                }
                break;
            case 4:
                if (!host.step()) {
                    return 0;
                }
                break;
            default:
                host.lie(input);
        }
    }
    static_cast<void>(host.step() && host.step());
    return 0;
}
