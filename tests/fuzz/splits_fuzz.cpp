// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes an alltoall on two hosts. The tested rank is rank 1. Rank 0 is on the same host, and ranks 2 and 3 are on the
// other host. The other ranks announce numbers of rows, and then send rows: rank 0 in its cells (buffers in the host's
// shared memory), and ranks 2 and 3 in messages. They may write anything at any time.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::collectives;
using fuzz::expect;
using fuzz::Input;

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kRank = 1;
constexpr std::uint64_t kRowBytes = 8;
// a progress count that is higher than any count for which step() waits
constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
constexpr std::byte kFill{0x5A};

/// A transport whose sends complete at once. Its receives also complete at once, as long as the other ranks have
/// messages left. `next` contains the next message of each sender. The length of this message may be wrong.
class SomebodysTransport final : public Transport {
public:
    struct Said {
        std::vector<std::byte> bytes;
        bool is_whole = true;  ///< whether the message is as long as the receive buffer
    };
    std::map<int, Said> next;  ///< by sender

    Result<Ticket> send(int /*rank*/, Port /*port*/, std::span<const std::byte> bytes) override {
        return keep({-1, {}, bytes.size()});
    }
    Result<Ticket> receive(int rank, Port /*port*/, std::span<std::byte> room) override {
        return keep({rank, room, room.size()});
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override {
        const auto found = under_way_.find(ticket);
        expect(found != under_way_.end());
        const UnderWay one = found->second;
        if (one.rank >= 0 && left_ == 0) {
            return std::optional<std::size_t>();
        }
        under_way_.erase(found);
        left_ -= one.rank >= 0 ? 1 : 0;
        if (one.rank < 0) {
            return std::optional(one.bytes);
        }
        const Said& said = next[one.rank];
        const std::size_t bytes = said.is_whole ? one.bytes : said.bytes.size();
        if (bytes > one.bytes) {
            return failure(ErrorCode::aborted, "rank {} sent more than there is room for", one.rank);
        }
        std::fill(one.room.begin(), one.room.end(), kFill);
        std::copy_n(said.bytes.begin(), std::min(said.bytes.size(), bytes), one.room.begin());
        return std::optional(bytes);
    }
    Result<bool> cancel(Ticket ticket) override {
        under_way_.erase(ticket);
        return true;
    }
    void abandon() override {}

private:
    struct UnderWay {
        int rank;
        std::span<std::byte> room;
        std::size_t bytes;
    };
    Result<Ticket> keep(const UnderWay& started) {
        under_way_.emplace(++last_, started);
        return last_;
    }
    std::map<Ticket, UnderWay> under_way_;
    Ticket last_ = 0;
    int left_ = 64;  // number of messages that will still arrive
};

std::shared_ptr<Arena> make_arena() {
    ArenaPlan plan;
    plan.members = 2;
    plan.negotiation_bytes = 4096;
    plan.cell_bytes = 256;
    plan.cells_per_rank = 2;
    plan.resident_bytes = 65536;
    auto memory = Arena::create_memory(plan);
    expect(memory.is_ok());
    auto arena = Arena::map(std::move(memory).value(), plan, kRank);
    expect(arena.is_ok());
    arena.value()->initialise();
    return std::move(arena).value();
}

/// The group is created only once, because own_facts() is slow: it asks the system.
const LocalGroup& group() {
    static const LocalGroup made =
        group_by_host(kRank, {own_facts("a"), own_facts("a"), own_facts("b"), own_facts("b")});
    return made;
}

class Exchange {
public:
    explicit Exchange(Input& input)
        : input_(input), arena_(make_arena()), communicator_(arena_, group(), transport_, {0, 64}) {}

    void run() {
        choice_ = input_.take<std::uint8_t>();
        const auto own = input_.take<std::uint8_t>();
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
            splits_[rank] = own >> (2 * rank) & 3;
        }
        if (learn_splits() && make_output()) {
            exchange_rows();
        }
    }

private:
    void set_progress(std::uint64_t value) {
        for (auto counter : {&Progress::staged, &Progress::fetched, &Progress::ended}) {
            (arena_->progress(0).*counter).store(value, std::memory_order_seq_cst);
        }
    }
    /// Writes two numbers of rows into rank 0's first cell: the rows for rank 0 itself, and the rows for this rank.
    void write_cells(std::uint64_t for_itself, std::uint64_t for_me) {
        std::memcpy(arena_->cell(0, 0), &for_itself, sizeof for_itself);
        std::memcpy(arena_->cell(0, 0) + sizeof for_itself, &for_me, sizeof for_me);
    }
    /// Calls the task's step() until the task is done, but at most kMostSteps times. Returns whether the task is done.
    /// If `others_write` is true, rank 0 writes to its cells after each call.
    bool finish(Task& task, bool others_write) {
        constexpr int kMostSteps = 3;  // one call of step() makes up to a thousand actions
        constexpr int kIdle = 8;
        int idle = 0;
        for (int i = 0; i < kMostSteps && idle < kIdle; ++i) {
            const StepResult result = task.step();
            if (result == StepResult::done) {
                return true;
            }
            idle = result == StepResult::advanced ? 0 : idle + 1;
            if (others_write && !input_.empty()) {
                write_cells(input_.take<std::uint64_t>(), input_.take<std::uint64_t>());
            }
        }
        expect(communicator_.failed().is_ok() == communicator_.failed().message().empty());
        return false;
    }

    bool learn_splits() {
        std::array<std::int64_t, kRanks> said{};
        bool all_whole = true;
        for (const std::uint32_t rank : {0U, 2U, 3U}) {
            const auto how = input_.take<std::uint8_t>();
            said[rank] = input_.take<std::int64_t>();
            if (rank == 0) {
                set_progress(how == 255 ? 0 : kFar);
                write_cells(0, static_cast<std::uint64_t>(said[0]));
                continue;
            }
            SomebodysTransport::Said& message = transport_.next[static_cast<int>(rank)];
            message.is_whole = how % 16 == 0;
            message.bytes.resize(message.is_whole ? sizeof said[rank] : how % 16);
            std::memcpy(message.bytes.data(), &said[rank], std::min(message.bytes.size(), sizeof said[rank]));
            all_whole = all_whole && message.bytes.size() == sizeof said[rank];
        }
        said[kRank] = splits_[kRank];
        const std::span<std::int64_t> all(splits_);
        if (!finish(communicator_.start_splits(all.first(kRanks), all.last(kRanks)), false)) {
            return false;
        }
        expect(all_whole && std::equal(said.begin(), said.end(), splits_.begin() + kRanks));
        return true;
    }
    /// Allocates the output, like the caller of the task. Returns false if a number of rows is negative, or if the sum
    /// of these numbers overflows. Allocates no output if the sum is large, or if the input says so. The task then
    /// discards the rows.
    bool make_output() {
        constexpr std::int64_t kMostKept = 4096;
        std::int64_t rows = 0;
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
            const std::int64_t more = splits_[kRanks + rank];
            if (more < 0 || __builtin_add_overflow(rows, more, &rows)) {
                return false;
            }
        }
        if (choice_ % 2 == 0 && rows <= kMostKept) {
            output_.resize(static_cast<std::size_t>(rows) * kRowBytes);
            output_.shrink_to_fit();
        }
        const std::int64_t own = std::accumulate(splits_.begin(), splits_.begin() + kRanks, std::int64_t{0});
        input_rows_.assign(static_cast<std::size_t>(own) * kRowBytes, std::byte{1});
        return true;
    }
    void exchange_rows() {
        Segment segment;
        segment.dtype = DType::uint8;
        segment.count = kRowBytes;
        segment.input = input_rows_.data();
        segment.output = output_.empty() ? nullptr : output_.data();
        const std::array<Location, 2> locations{};
        write_cells(input_.take<std::uint64_t>(), input_.take<std::uint64_t>());
        for (auto& [rank, message] : transport_.next) {
            const auto how = input_.take<std::uint8_t>();
            message.is_whole = how < 128;
            message.bytes.assign(how % 128, std::byte{2});
        }
        Task& task = communicator_.start({Operation::alltoall, {&segment, 1}, locations, splits_});
        if (finish(task, true) && segment.output != nullptr) {
            // The output must contain this rank's own rows at the right position, whatever the other ranks sent.
            const auto before =
                std::accumulate(splits_.begin() + kRanks, splits_.begin() + kRanks + kRank, std::int64_t{0});
            const auto own = output_.begin() + before * static_cast<std::int64_t>(kRowBytes);
            expect(std::all_of(own, own + splits_[kRank] * static_cast<std::int64_t>(kRowBytes),
                               [](std::byte b) { return b == std::byte{1}; }));
        }
    }

    Input& input_;
    std::shared_ptr<Arena> arena_;
    SomebodysTransport transport_;
    HierarchicalCommunicator communicator_;
    std::uint8_t choice_ = 0;
    std::array<std::int64_t, std::size_t{2} * kRanks> splits_{};
    std::vector<std::byte> input_rows_;
    std::vector<std::byte> output_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    Exchange(input).run();
    return 0;
}
