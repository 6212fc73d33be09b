// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Another rank of the host writes any values into the negotiation tables and the progress words during operations.
// Nevertheless, each call of step() must return, and each pending operation must end exactly once. A rank may access
// only the arena and the memory of its operations.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings/config.hpp"
#include "core/operations/groups.hpp"
#include "core/operations/requests.hpp"
#include "core/process_set/process_set.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;
using collectives::Operation;
using fuzz::expect;
using fuzz::Input;
using Atomics = ProcessSet::Atomics;
using Memory = NegotiationMemory<Atomics>;

constexpr std::uint32_t kMembers = 2;
constexpr std::uint64_t kResidentBytes = 64 * 1024;
constexpr int kMostActions = 96;

NegotiationExtent extent_of_host() {
    NegotiationExtent extent;
    extent.members = kMembers;
    extent.unnamed_slots = 2;
    extent.initial_slots = 4;
    extent.slots = 6;
    extent.mailbox_records = 4;
    extent.payload_slots = 5;
    extent.payload_bytes = 256;
    return extent;
}

/// An operation of a rank. Its memory has exactly the announced size, so that AddressSanitizer reports an access beyond
/// it.
struct Call {
    explicit Call(std::uint32_t members = 1) : completion(members) {}

    Completion completion;
    std::vector<std::unique_ptr<std::byte[]>> memory;
    bool began = false;
    bool at_once = false;  // true if the operation ended before any other rank knew about it
};

/// One rank with its own mapping of the arena.
class Rank {
public:
    Rank(const base::Config& config, std::shared_ptr<collectives::Arena> arena, std::uint32_t number)
        : arena_(std::move(arena)),
          number_(number),
          set_(config, SetIdentity{0, {0, 1}}, arena_, extent_of_host(), std::nullopt, pending_) {
        base::RankBlock& block = arena_->control().ranks[number];
        block.pid.store(::getpid());
        block.global_rank.store(static_cast<std::int32_t>(number));
        block.state.store(static_cast<std::uint32_t>(base::RankState::running));
    }

    void begin(Input& input) {
        const auto choice = input.take<std::uint8_t>();
        const auto shape = input.take<std::uint8_t>();
        if (choice % 16 == 15) {
            begin_group(choice, shape);
            return;
        }
        Call& call = calls_.emplace_back();
        Request request;
        if (!make(choice % 16, shape, call, request).is_ok()) {
            calls_.pop_back();
            return;
        }
        constexpr std::array kUrgencies = {Urgency::background, Urgency::blocking, Urgency::driving, Urgency::leaving};
        const Urgency urgency = kUrgencies[choice / 16 % 4];
        const std::string name = choice >= 192 ? "" : std::string(1, static_cast<char>('a' + shape % 5));
        call.began = set_.submit(name, request, call.completion, urgency).is_ok();
        if (call.began && urgency == Urgency::driving) {
            call.at_once = set_.finish_at_once(2) && !call.completion.done();
        }
    }
    void join() {
        Call& call = calls_.emplace_back();
        call.began = set_.announce_join(call.completion, /*counted=*/true).is_ok();
    }
    void shut_down() { set_.announce_shutdown(); }
    void step(bool urgent) { static_cast<void>(set_.step(urgent)); }
    void look() { static_cast<void>(set_.pending_tensors()); }
    [[nodiscard]] bool is_done() const { return pending_.load() == 0; }
    [[nodiscard]] bool has_ended() const { return arena_->blocks().abort().raised(); }
    [[nodiscard]] Memory memory() const { return set_.memory(); }
    [[nodiscard]] collectives::Arena& arena() const { return *arena_; }

    void end() {
        set_.fail_all(failure(ErrorCode::aborted, "the end"));
        for (const Call& call : calls_) {
            expect(call.completion.done() == (call.began && !call.at_once));
        }
        expect(pending_.load() == 0);
    }

private:
    static constexpr std::int64_t kColumns = 3;

    /// Describes a tensor of `rows` rows of int32. All resident tensors use the same memory in the arena.
    rueda_tensor tensor(Call& call, std::array<std::int64_t, 2>& shape, std::int64_t rows, bool resident) {
        shape = {rows, kColumns};
        const auto bytes = static_cast<std::size_t>(rows * kColumns) * sizeof(std::int32_t);
        void* data = nullptr;
        if (resident && bytes <= kResidentBytes) {
            data = arena_->resident(number_);
        } else {
            call.memory.push_back(std::make_unique<std::byte[]>(bytes));
            data = call.memory.back().get();
        }
        return {data, shape.data(), 2, RUEDA_INT32};
    }

    Status make(int kind, std::uint8_t choice, Call& call, Request& request) {
        constexpr std::array<std::int64_t, 4> kRows = {2, 5, 24, 900};
        const std::int64_t rows = kRows[choice / 8 % 4];
        const bool resident = choice >= 128;
        std::array<std::int64_t, 2> shape{};
        const rueda_tensor in = tensor(call, shape, rows, resident);
        rueda_options options{};
        const rueda_options* effective = nullptr;
        RUEDA_RETURN_IF_FAILED(effective_options(nullptr, options, effective));
        options = *effective;
        options.reduce_op = kind == 13 ? RUEDA_ADASUM : choice % 2 == 0 ? RUEDA_SUM : RUEDA_MAX;
        const int rank = static_cast<int>(number_);
        const std::array<int, 2> ranks = {0, 1};
        const std::array<std::int64_t, 2> splits = {rows / 3, rows - rows / 3};
        switch (kind) {
            case 0:
                return make_broadcast(in, in, choice & 1, ranks, rank, options, request);
            case 1:
            case 2:
                return make_allgather(in, nullptr, options, request);
            case 3:
            case 4:
                return make_reducescatter(in, nullptr, rank, kMembers, options, request);
            case 5:
            case 6:
                return make_alltoall(in, splits.data(), splits.size(), nullptr, kMembers, options, request);
            case 7:
                return make_barrier(options, request);
            case 8:
                return make_gather(in, nullptr, choice & 1, ranks, rank, options, request);
            case 9:
                return make_scatter(in, splits.data(), splits.size(), nullptr, choice & 1, ranks, rank, options,
                                    request);
            case 10:
                return make_reduce(in, &in, choice & 1, ranks, rank, options, request);
            default:
                return make_allreduce(in, in, options, request);
        }
    }

    void begin_group(std::uint8_t choice, std::uint8_t shape) {
        const std::size_t count = 1 + choice / 16 % 3;
        Call& call = calls_.emplace_back(static_cast<std::uint32_t>(count));
        std::vector<std::string> names;
        std::vector<Request> requests(count);
        for (std::size_t i = 0; i < count; ++i) {
            names.push_back(name_of_member("g", i, count));
            static_cast<void>(make(11, shape, call, requests[i]).is_ok());
        }
        call.began = set_.submit_group("g", names, requests, call.completion, Urgency::background).is_ok();
    }

    std::shared_ptr<collectives::Arena> arena_;
    const std::uint32_t number_;
    std::atomic<std::uint32_t> pending_{0};
    // `set_` uses the calls until it is destroyed, so they must be declared before `set_`
    std::deque<Call> calls_;
    ProcessSet set_;
};

/// A field of the host's tables that the input may overwrite.
struct Target {
    void* memory = nullptr;
    std::size_t bytes = 0;
};

template <class T>
Target target_of(T& object) {
    return {&object, sizeof(T)};
}

Target target_in(const Rank& rank, std::uint8_t table, std::uint8_t index) {
    const Memory memory = rank.memory();
    const NegotiationExtent& extent = memory.extent();
    const std::uint32_t slot = index % extent.slots;
    const std::uint32_t member = index / 8 % kMembers;
    switch (table % 16) {
        case 0:
            return target_of(memory.header());
        case 1:
            return target_of(memory.cursor(member));
        case 2:
        case 3:
            return target_of(memory.entry(index % 32));
        case 4:
            return target_of(memory.arrivals(slot));
        case 5:
        case 6:
        case 7:
            return target_of(memory.place(slot, member, index / 16));
        case 8:
            return target_of(memory.record(slot));
        case 9:
            return target_of(memory.label(slot));
        case 10:
            return target_of(memory.mailbox(member));
        case 11:
            return target_of(memory.mailbox_record(member, index / 16));
        case 12:
            return {&memory.name_bucket(0), 4 * extent.name_buckets()};
        case 13:
            return index % 2 == 0 ? Target{&memory.free_slot(0), 4 * extent.slots}
                                  : Target{&memory.retired_slot(0), 4 * extent.slots};
        case 14:
            return index % 2 == 0 ? target_of(memory.refusal(index / 2 % extent.refusal_buckets()))
                                  : Target{memory.splits(slot, member, index / 16), sizeof(std::int64_t) * kMembers};
        default:
            return target_of(rank.arena().progress(member));
    }
}

/// Writes a number into a table. Most of these numbers are plausible.
void lie(const Rank& rank, Input& input) {
    const auto table = input.take<std::uint8_t>();
    const Target target = target_in(rank, table, input.take<std::uint8_t>());
    const auto how = input.take<std::uint8_t>();
    const std::size_t width = std::size_t{1} << (how & 3U);
    const std::size_t places = target.bytes / width;
    auto* const at = static_cast<std::byte*>(target.memory) + input.take<std::uint16_t>() % places * width;
    std::uint64_t value = 0;
    std::memcpy(&value, at, width);
    switch (how >> 2U & 3U) {
        case 0:
            value += static_cast<std::uint64_t>(std::int64_t{input.take<std::int8_t>()});
            break;
        case 1:
            value = input.take<std::uint8_t>();
            break;
        case 2:
            value ^= std::uint64_t{1} << (input.take<std::uint8_t>() % 64U);
            break;
        default:
            value = input.take<std::uint64_t>();
    }
    std::memcpy(at, &value, width);
}

class Host {
public:
    Host() {
        collectives::ArenaPlan plan;
        plan.members = kMembers;
        plan.negotiation_bytes = Memory::bytes(extent_of_host());
        plan.cell_bytes = 1024;
        plan.cells_per_rank = 2;
        plan.resident_bytes = kResidentBytes;
        auto memory = collectives::Arena::create_memory(plan);
        expect(memory.is_ok());
        base::Config config;
        config.log_level = base::LogLevel::off;
        for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
            auto arena = collectives::Arena::map(base::UniqueFd(::dup(memory.value().value())), plan, rank);
            expect(arena.is_ok());
            if (rank == 0) {
                arena.value()->initialise();
                Memory::initialise(arena.value()->negotiation(), extent_of_host());
            }
            ranks_[rank] = std::make_unique<Rank>(config, arena.value(), rank);
        }
    }

    void act(Input& input) {
        const auto choice = input.take<std::uint8_t>();
        Rank& rank = *ranks_[choice & 1U];
        switch (choice / 2 % 8) {
            case 0:
            case 1:
            case 2:
                rank.begin(input);
                break;
            case 3:
            case 4:
                rank.step(choice >= 128);
                break;
            case 5:
                if (choice < 16) {
                    rank.join();
                } else if (choice < 32) {
                    rank.shut_down();
                } else {
                    rank.look();
                }
                break;
            default:
                lie(*ranks_[0], input);
        }
    }
    /// Steps both ranks until they make no progress. After these steps, an operation may be pending only if the input
    /// wrote wrong values. Such values can make a rank wait forever.
    void finish() {
        constexpr int kTurns = 64;
        for (int i = 0; i < kTurns && !has_ended() && !(ranks_[0]->is_done() && ranks_[1]->is_done()); ++i) {
            ranks_[0]->step(true);
            if (!has_ended()) {
                ranks_[1]->step(true);
            }
        }
        ranks_[0]->end();
        ranks_[1]->end();
    }
    [[nodiscard]] bool has_ended() const { return ranks_[0]->has_ended(); }

private:
    std::array<std::unique_ptr<Rank>, kMembers> ranks_;
};

}  // namespace

/// The input may announce a result of any size. With these options, an allocation that is too large for the machine
/// fails, instead of ending the process.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): AddressSanitizer's name
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Host host;
    Input input(std::span(data, size));
    for (int i = 0; i < kMostActions && !input.empty() && !host.has_ended(); ++i) {
        host.act(input);
    }
    host.finish();
    return 0;
}
