// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/mpi/mpi_api.hpp"
#include "collectives/mpi/mpi_rendezvous.hpp"
#include "tests/collectives/mpi/numbered_request.hpp"

namespace rueda::tests {

using collectives::MpiApi;
using collectives::MpiEnvelope;
using collectives::MpiMessage;

/// Messages in transit, by sender, receiver and tag.
using Mail = std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>>;

/// A fake MPI for one rank. `diary` records all calls that change something. Collectives behave as in a job of one
/// rank. Messages go through `mail`, which several ranks may share. Threads: a single thread for all ranks with the
/// same mail.
class StandIn final : public MpiApi {
public:
    bool is_initialized = false;
    bool is_finalized = false;
    int level = MPI_THREAD_MULTIPLE;
    std::function<void()> during_init = [] {};
    bool answers = true;  ///< false: requests never complete
    Status collective;    ///< the failure that collectives return
    /// Names the ABI with which the tests are compiled.
    std::string version = fmt::format("{} v9.8.7, package: stand-in", name_of(collectives::own_mpi_abi()));
    std::string diary;
    int own_rank = 0;
    int job_size = 1;
    std::shared_ptr<Mail> mail = std::make_shared<Mail>();
    bool delivers = true;  ///< if false, sent messages are never delivered
    Status messages;       ///< if this is a failure, all calls that send or receive messages return it
    /// The number of messages that the other ranks claim to have sent to this rank. They tell it when the plane closes.
    std::uint32_t expected = 0;
    std::vector<std::uint32_t> told;  ///< the number of messages that this rank claimed to have sent to each rank, when
                                      ///< the plane closed
    /// If this has a value, collectives report it instead of the real length of a message.
    std::optional<std::uint64_t> length_told;
    /// If this has a value, probe() reports it instead of the real length of a message.
    std::optional<std::size_t> probed_bytes;
    /// True if a message that is longer than the receive buffer is reported with the length 0, as in some MPIs.
    bool hides_length = false;
    std::function<void()> at_finalize;
    std::vector<int> members;  ///< the ranks of the communicator for which MPI_COMM_SELF stands in this fake MPI
    /// True if the other members take part in a rendezvous. The members are the ranks in `those_who_meet`, or all ranks
    /// if `those_who_meet` is empty. Their messages are not in `mail`.
    bool others_meet = false;
    std::vector<int> those_who_meet;
    std::function<void()> during_creation = [] {};  ///< called while a communicator is created
    bool is_between = false;                        ///< true if communicators count as intercommunicators
    bool sends_memory_of_gpus = false;

    bool initialized() override { return is_initialized; }
    bool finalized() override { return is_finalized; }
    std::string library_version() override { return version; }
    bool is_cuda_aware() override { return sends_memory_of_gpus; }
    Result<int> init_thread(int required) override {
        diary += required == MPI_THREAD_MULTIPLE ? "init " : "init(?) ";
        during_init();
        is_initialized = true;
        return level;
    }
    Result<int> query_thread() override { return level; }
    Status finalize() override {
        diary += "finalize ";
        end();
        return {};
    }
    Result<MPI_Comm> duplicate(MPI_Comm communicator) override {
        diary += "dup ";
        during_creation();
        return communicator;
    }
    /// Returns MPI_COMM_SELF, which stands for the new communicator.
    Result<MPI_Comm> communicator_of(std::span<const int> world_ranks, int /*tag*/) override {
        diary += "create ";
        during_creation();
        members.assign(world_ranks.begin(), world_ranks.end());
        return MPI_COMM_SELF;
    }
    Result<bool> is_intercommunicator(MPI_Comm /*communicator*/) override { return is_between; }
    Result<bool> are_congruent(MPI_Comm a, MPI_Comm b) override {
        const auto first = world_ranks(a);
        const auto second = world_ranks(b);
        return first.is_ok() && second.is_ok() && first.value() == second.value();
    }
    Result<std::vector<int>> world_ranks(MPI_Comm communicator) override {
        std::vector<int> ranks = members;
        if (communicator == MPI_COMM_WORLD) {
            ranks.resize(static_cast<std::size_t>(job_size));
            std::iota(ranks.begin(), ranks.end(), 0);
        }
        return ranks;
    }
    Status free_communicator(MPI_Comm /*communicator*/) override {
        diary += "free ";
        return {};
    }
    Result<int> rank(MPI_Comm communicator) override {
        return communicator == MPI_COMM_WORLD
                   ? own_rank
                   : static_cast<int>(std::find(members.begin(), members.end(), own_rank) - members.begin());
    }
    Result<int> size(MPI_Comm communicator) override {
        return communicator == MPI_COMM_WORLD ? job_size : static_cast<int>(members.size());
    }
    Result<int> call_at_finalize(std::function<void()> called) override {
        at_finalize = std::move(called);
        return 1;
    }
    Status release_finalize_key(int /*key*/) override {
        diary += "release ";
        at_finalize = nullptr;
        return {};
    }
    Result<MPI_Request> iallgather(std::span<const std::byte> mine, std::byte* all, MPI_Comm /*comm*/) override {
        return collect(length_told ? std::as_bytes(std::span(&*length_told, 1)) : mine, all);
    }
    Result<MPI_Request> iallgatherv(std::span<const std::byte> mine, std::byte* all, const int* counts,
                                    const int* offsets, MPI_Comm /*comm*/) override {
        CHECK(static_cast<std::size_t>(counts[0]) == mine.size());
        CHECK(offsets[0] == 0);
        longest = std::max(longest, mine.size());
        return collect(mine, all);
    }
    Result<MPI_Request> ibroadcast(std::span<std::byte> bytes, int /*root*/, MPI_Comm /*comm*/) override {
        longest = std::max(longest, bytes.size());
        if (length_told) {
            REQUIRE(bytes.size() == sizeof(*length_told));
            std::memcpy(bytes.data(), &*length_told, sizeof(*length_told));
        }
        return started();
    }
    Result<MPI_Request> ibarrier(MPI_Comm /*comm*/) override { return started(); }
    Result<MPI_Request> isum_scatter(const std::uint32_t* all, std::uint32_t* mine, MPI_Comm comm) override {
        told.assign(all, all + size(comm).value());
        *mine = expected;
        return started();
    }
    Result<bool> test(MPI_Request& /*request*/) override { return answers; }

    Result<MPI_Request> isend(std::span<const std::byte> bytes, int rank, int tag, MPI_Comm /*comm*/) override {
        RUEDA_RETURN_IF_FAILED(messages);
        mail_of(tag)[{own_rank, rank, tag}].emplace_back(bytes.begin(), bytes.end());
        return keep({rank, tag, {}, true});
    }
    Result<MPI_Request> irecv(std::span<std::byte> room, int rank, int tag, MPI_Comm /*comm*/) override {
        RUEDA_RETURN_IF_FAILED(messages);
        return keep({rank, tag, room, false});
    }
    Result<MpiMessage> test_message(MPI_Request& request) override {
        RUEDA_RETURN_IF_FAILED(messages);
        const auto found = under_way_.find(number_of(request));
        REQUIRE(found != under_way_.end());
        const UnderWay& mine = found->second;
        MpiMessage result;
        auto& queue = mail_of(mine.tag)[{mine.rank, own_rank, mine.tag}];
        if (mine.is_send || mine.is_cancelled) {
            result.complete = delivers || mine.is_cancelled;
            result.cancelled = mine.is_cancelled;
        } else if (!queue.empty() && is_first(*found)) {
            result.complete = true;
            result.truncated = queue.front().size() > mine.room.size();
            result.bytes = result.truncated && hides_length ? 0 : queue.front().size();
            std::copy_n(queue.front().begin(), std::min(queue.front().size(), mine.room.size()), mine.room.begin());
            queue.pop_front();
        }
        if (result.complete) {
            under_way_.erase(found);
        }
        return result;
    }
    Result<std::optional<MpiEnvelope>> probe(int rank, int tag, MPI_Comm /*comm*/) override {
        RUEDA_RETURN_IF_FAILED(messages);
        if (others_meet && tag == collectives::kRendezvousTag) {
            step_others();
        }
        for (const auto& [address, queue] : mail_of(tag)) {
            const auto [from, to, its_tag] = address;
            const bool is_asked_for =
                (rank == MPI_ANY_SOURCE || rank == from) && (tag == MPI_ANY_TAG || tag == its_tag) && to == own_rank;
            const bool is_awaited =
                std::any_of(under_way_.begin(), under_way_.end(), [&, from = from, tag = its_tag](const auto& other) {
                    return !other.second.is_send && other.second.rank == from && other.second.tag == tag;
                });
            if (is_asked_for && !queue.empty() && !is_awaited) {
                return std::optional(MpiEnvelope{from, its_tag, probed_bytes.value_or(queue.front().size())});
            }
        }
        return std::optional<MpiEnvelope>();
    }
    Status cancel(MPI_Request& request) override {
        diary += "cancel ";
        REQUIRE(under_way_.count(number_of(request)) == 1);
        under_way_.at(number_of(request)).is_cancelled = !is_coming;
        return {};
    }
    bool is_coming = false;  ///< if true, receives cannot be cancelled, as if their messages were already arriving
    [[nodiscard]] std::size_t requests() const { return under_way_.size(); }

    /// Finalises MPI like a program that calls MPI_Finalize itself.
    void end() {
        is_finalized = true;
        if (at_finalize) {
            at_finalize();
            at_finalize = nullptr;
        }
    }
    std::size_t longest = 0;  ///< the size of the longest piece that a collective exchanged, in bytes

private:
    struct UnderWay {
        int rank;
        int tag;
        std::span<std::byte> room;
        bool is_send;
        bool is_cancelled = false;
    };

    /// Another member that takes part in a rendezvous.
    struct Other {
        std::unique_ptr<StandIn> mpi;
        std::unique_ptr<collectives::Rendezvous> rendezvous;
    };

    Mail& mail_of(int tag) { return others_meet && tag == collectives::kRendezvousTag ? *rendezvous_mail_ : *mail; }
    void step_others() {
        const collectives::RendezvousTime now{};
        std::erase_if(others_, [now](const Other& other) { return other.rendezvous->step(now).has_value(); });
        if (!others_.empty()) {
            return;
        }
        collectives::RendezvousPlan plan{MPI_COMM_WORLD, those_who_meet, 0, true, std::chrono::seconds(1)};
        if (plan.members.empty()) {
            plan.members = world_ranks(MPI_COMM_WORLD).value();
        }
        for (const int rank : plan.members) {
            if (rank != own_rank) {
                Other other{std::make_unique<StandIn>(), nullptr};
                other.mpi->own_rank = plan.own_rank = rank;
                other.mpi->mail = rendezvous_mail_;
                other.rendezvous = collectives::begin_rendezvous(*other.mpi, plan, --others_attempt_, now);
                static_cast<void>(other.rendezvous->step(now));
                others_.push_back(std::move(other));
            }
        }
    }

    Result<MPI_Request> keep(const UnderWay& started) {
        under_way_.emplace(++last_, started);
        return request_of(last_);
    }
    /// MPI gives a message to the oldest receive that matches the message. Returns true if no older receive matches the
    /// same messages as this receive.
    [[nodiscard]] bool is_first(const std::pair<const int, UnderWay>& receive) const {
        return std::none_of(under_way_.begin(), under_way_.find(receive.first), [&](const auto& other) {
            return !other.second.is_send && other.second.rank == receive.second.rank &&
                   other.second.tag == receive.second.tag;
        });
    }

    Result<MPI_Request> started() const {
        return collective.is_ok() ? Result<MPI_Request>(MPI_REQUEST_NULL) : Result<MPI_Request>(collective);
    }
    Result<MPI_Request> collect(std::span<const std::byte> mine, std::byte* all) const {
        if (!mine.empty()) {
            std::memcpy(all, mine.data(), mine.size());
        }
        return started();
    }

    std::shared_ptr<Mail> rendezvous_mail_ = std::make_shared<Mail>();
    std::vector<Other> others_;
    /// The number of the other members' current attempt. This number counts down from 0. The numbers of this rank's own
    /// attempts count up.
    std::int32_t others_attempt_ = 0;
    std::map<int, UnderWay> under_way_;
    int last_ = 0;
};

}  // namespace rueda::tests
