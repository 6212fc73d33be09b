// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Random jobs: tensors whose metadata change and differ, ids that are released, messages delayed at will (in order per
// edge), and a root that is slow to execute. Whatever happens, all hosts get the same decisions in the same order, and
// for each time that all announced a tensor exactly one, which is the right one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "core/negotiation/tree_node.hpp"
#include "tests/core/negotiation/leaders.hpp"

namespace rueda::core::test {
namespace {

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random);
}
bool chance(Random& random, std::uint32_t percent) { return below(random, 100) < percent; }

/// What all ranks mean when they announce a tensor for the n-th time.
struct Round {
    std::vector<Metadata> by_rank;
    std::vector<std::int64_t> rows;  ///< by rank; of an allgather

    [[nodiscard]] bool agreed() const {
        return std::all_of(by_rank.begin(), by_rank.end(),
                           [this](const Metadata& metadata) { return agree(metadata, by_rank.front()); });
    }
};

/// A tensor of all hosts.
struct Tensor {
    std::string name;  ///< "": each round is an operation without a name
    std::vector<Round> rounds;
};

/// What a host knows about a tensor.
struct State {
    std::size_t rounds = 0;  ///< decided
    bool pending = false;
    std::uint64_t id = 0;  ///< 0: not held
    Metadata last_called;
};

class Job {
public:
    Job(std::uint32_t seed, std::uint32_t hosts)
        : random_(seed),
          setting_{.hosts = hosts,
                   .ranks_per_host = 1 + below(random_, 3),
                   .radix = 1 + below(random_, 9),
                   .fusion_threshold_bytes = below(random_, 4) * 20,
                   .batches_ahead = 1 + below(random_, 3)},
          leaders_(setting_),
          edges_(hosts),
          decisions_(hosts) {
        const std::uint32_t tensors = 1 + below(random_, 8);
        for (std::uint32_t i = 0; i < tensors; ++i) {
            tensors_.push_back(random_tensor(chance(random_, 80) ? "tensor." + std::to_string(i) : ""));
        }
        states_.assign(hosts, std::vector<State>(tensors));
    }

    void run() {
        while (!all_done()) {
            step();
        }
        shut_down();
        check();
    }

private:
    static constexpr int kPatience =
        100'000;  ///< steps without any effect; each sort of step is tried thousands of times

    // ---- the ranks ------------------------------------------------------------------------------------------------

    Tensor random_tensor(const std::string& name) {
        Tensor tensor{name, {}};
        Metadata metadata = random_metadata();
        const std::uint32_t rounds = 1 + below(random_, 6);
        for (std::uint32_t i = 0; i < rounds; ++i) {
            if (chance(random_, 25)) {
                metadata = random_metadata();
            }
            Round round{std::vector<Metadata>(leaders_.ranks(), metadata), {}};
            for (std::uint32_t rank = 0; rank < leaders_.ranks(); ++rank) {
                round.rows.push_back(below(random_, 5));
            }
            if (chance(random_, 20)) {
                round.by_rank[below(random_, leaders_.ranks())] = random_metadata();
            }
            tensor.rounds.push_back(std::move(round));
        }
        return tensor;
    }

    Metadata random_metadata() {
        Metadata metadata = allreduce_of({1 + static_cast<std::int64_t>(below(random_, 6))});
        if (chance(random_, 20)) {
            metadata.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
            metadata.shape[0] = Metadata::kAnyExtent;
        }
        return metadata;
    }

    bool announce(std::uint32_t host, std::uint32_t tensor_number) {
        const Tensor& tensor = tensors_[tensor_number];
        State& state = states_[host][tensor_number];
        if (state.pending || state.rounds == tensor.rounds.size()) {
            return false;
        }
        if (state.id != 0 && chance(random_, 15)) {
            leaders_[host].release(state.id);
            state.id = 0;
            if (chance(random_, 50)) {
                return true;
            }
        }
        const Round& round = tensor.rounds[state.rounds];
        Announcement announcement;
        if (tensor.name.empty()) {
            announcement.key = by_call(call_number(tensor_number, state.rounds));
        } else {
            announcement.key = state.id != 0 ? by_id(state.id) : by_name(tensor.name);
        }
        announcement.claims = claims_of(host, round, state);
        announcement.rows = {rows_of(host, round)};
        leaders_[host].announce(std::move(announcement));
        state.pending = true;
        return true;
    }

    /// A claim per rank where anything is new; sometimes also where nothing is.
    std::vector<Claim> claims_of(std::uint32_t host, const Round& round, const State& state) {
        std::vector<Claim> claims;
        bool anything_new = false;
        for (const std::int32_t rank : ranks_of(host)) {
            const Metadata& metadata = round.by_rank[static_cast<std::size_t>(rank)];
            const bool same = state.id != 0 && agree(metadata, state.last_called);
            anything_new = anything_new || !same;
            claims.push_back({same ? std::nullopt : std::optional(metadata), {{rank, rank}}});
        }
        return anything_new || chance(random_, 10) ? claims : std::vector<Claim>();
    }

    HostRows rows_of(std::uint32_t host, const Round& round) {
        HostRows rows{host, {}};
        for (const std::int32_t rank : ranks_of(host)) {
            rows.rows.push_back(round.rows[static_cast<std::size_t>(rank)]);
        }
        return rows;
    }

    [[nodiscard]] std::vector<std::int32_t> ranks_of(std::uint32_t host) const {
        std::vector<std::int32_t> ranks;
        for (std::uint32_t local = 0; local < setting_.ranks_per_host; ++local) {
            ranks.push_back(static_cast<std::int32_t>(host * setting_.ranks_per_host + local));
        }
        return ranks;
    }

    static std::uint64_t call_number(std::uint32_t tensor, std::size_t round) { return tensor * 1000ULL + round; }

    // ---- one thing that happens ------------------------------------------------------------------------------------

    void step() {
        const std::uint32_t host = below(random_, setting_.hosts);
        bool effect = false;
        switch (below(random_, 5)) {
            case 0:
                effect = announce(host, below(random_, static_cast<std::uint32_t>(tensors_.size())));
                break;
            case 1:
                effect = send(host);
                break;
            case 2:
                effect = deliver(host);
                break;
            case 3:
                effect = take_decision(host);
                break;
            default:
                effect = execute();
                break;
        }
        idle_steps_ = effect ? 0 : idle_steps_ + 1;
        REQUIRE(idle_steps_ < kPatience);
    }

    bool send(std::uint32_t host) {
        const std::vector<std::uint32_t> neighbours = leaders_.neighbours(host);
        if (neighbours.empty()) {
            return false;
        }
        const std::uint32_t to = neighbours[below(random_, static_cast<std::uint32_t>(neighbours.size()))];
        auto message = leaders_[host].next_message(to);
        if (!message) {
            return false;
        }
        edges_[to][host].push_back(std::move(*message));
        return true;
    }

    bool deliver(std::uint32_t host) {
        if (edges_[host].empty()) {
            return false;
        }
        const auto edge =
            std::next(edges_[host].begin(), below(random_, static_cast<std::uint32_t>(edges_[host].size())));
        if (edge->second.empty()) {
            return false;
        }
        // A parent has room for one message a child.
        REQUIRE((edge->first < host || edge->second.size() == 1));
        const Status status = leaders_.deliver(edge->first, host, edge->second.front());
        INFO(status.message());
        REQUIRE(status.is_ok());
        edge->second.pop_front();
        return true;
    }

    bool take_decision(std::uint32_t host) {
        auto decision = leaders_[host].next_decision();
        REQUIRE(leaders_[host].status().is_ok());
        if (!decision) {
            return false;
        }
        if (host == 0 && decision->ends_batch) {
            ++batches_;
        }
        decisions_[host].push_back(*decision);
        if (decision->kind == DecisionKind::call || decision->kind == DecisionKind::disagreed) {
            apply(host, *decision);
        } else if (decision->kind == DecisionKind::forget) {
            for (const State& state : states_[host]) {
                CHECK(state.id != decision->id);
            }
        }
        return true;
    }

    void apply(std::uint32_t host, const Decision& decision) {
        const std::uint32_t tensor = tensor_of(host, decision);
        State& state = states_[host][tensor];
        REQUIRE(state.pending);
        const Round& round = tensors_[tensor].rounds[state.rounds];
        state.pending = false;
        ++state.rounds;
        CHECK((decision.kind == DecisionKind::call) == round.agreed());
        if (decision.kind == DecisionKind::disagreed) {
            CHECK(decision.text == mismatch_of(tensors_[tensor].name, round.by_rank).message());
            return;
        }
        state.id = decision.id;
        state.last_called = round.by_rank.front();
        CHECK(decision.operation == state.last_called.operation);
        CHECK(decision.bytes == bytes_of(state.last_called));
        const bool by_rows = is_by_rows(static_cast<collectives::Operation>(decision.operation));
        CHECK(decision.rows == (by_rows ? round.rows : std::vector<std::int64_t>()));
    }

    std::uint32_t tensor_of(std::uint32_t host, const Decision& decision) {
        for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
            const State& state = states_[host][i];
            const bool same = decision.call ? tensors_[i].name.empty() && call_number(i, state.rounds) == *decision.call
                              : !decision.name.empty() ? tensors_[i].name == decision.name
                                                       : state.id == decision.id && state.id != 0;
            if (same) {
                return i;
            }
        }
        FAIL("a decision on what host " << host << " does not know");
        return 0;
    }

    bool execute() {
        if (executed_ == batches_) {
            return false;
        }
        leaders_[0].executed(++executed_);
        return true;
    }

    // ---- the end ---------------------------------------------------------------------------------------------------

    [[nodiscard]] bool all_done() const {
        for (const std::vector<State>& states : states_) {
            for (std::size_t i = 0; i < states.size(); ++i) {
                if (states[i].rounds < tensors_[i].rounds.size()) {
                    return false;
                }
            }
        }
        return true;
    }

    void shut_down() {
        for (std::uint32_t host = 0; host < setting_.hosts; ++host) {
            CHECK(leaders_[host].pending().empty());
            for (const std::int32_t rank : ranks_of(host)) {
                leaders_[host].shut_down(rank);
            }
        }
        std::vector<bool> closed(setting_.hosts, false);
        while (std::any_of(decisions_.begin(), decisions_.end(), [](const std::vector<Decision>& decisions) {
            return decisions.empty() || decisions.back().kind != DecisionKind::closed;
        })) {
            step();
            const std::uint32_t host = below(random_, setting_.hosts);
            if (!closed[host] && !decisions_[host].empty() && decisions_[host].back().kind == DecisionKind::closing) {
                closed[host] = true;
                leaders_[host].close();
            }
        }
    }

    void check() {
        for (std::uint32_t host = 1; host < setting_.hosts; ++host) {
            REQUIRE(Leaders::bytes_of_all(decisions_[host]) == Leaders::bytes_of_all(decisions_[0]));
        }
        std::map<DecisionKind, std::size_t> count;
        for (const Decision& decision : decisions_[0]) {
            ++count[decision.kind];
        }
        std::size_t rounds = 0;
        for (const Tensor& tensor : tensors_) {
            rounds += tensor.rounds.size();
        }
        CHECK(count[DecisionKind::call] + count[DecisionKind::disagreed] == rounds);
        CHECK(count[DecisionKind::closing] == 1);
        CHECK(count[DecisionKind::closed] == 1);
        check_batches();
    }

    void check_batches() {
        std::uint64_t bytes = 0;
        int calls = 0;
        for (const Decision& decision : decisions_[0]) {
            if (decision.kind != DecisionKind::call) {
                CHECK(calls == 0);  // nothing comes between the calls of a batch
                continue;
            }
            bytes += decision.bytes;
            ++calls;
            if (calls > 1) {
                CHECK(decision.operation == static_cast<std::uint8_t>(collectives::Operation::allreduce));
                CHECK(bytes <= setting_.fusion_threshold_bytes);
            }
            if (decision.ends_batch) {
                bytes = 0;
                calls = 0;
            }
        }
        CHECK(calls == 0);
    }

    Random random_;
    Leaders::Setting setting_;
    Leaders leaders_;
    std::vector<Tensor> tensors_;
    std::vector<std::vector<State>> states_;                               ///< by host and tensor
    std::vector<std::map<std::uint32_t, std::deque<TreeMessage>>> edges_;  ///< to, from: under way
    std::vector<std::vector<Decision>> decisions_;                         ///< by host
    std::uint64_t batches_ = 0;
    std::uint64_t executed_ = 0;
    int idle_steps_ = 0;
};

TEST_CASE("random jobs: the same decisions everywhere, and one for each tensor") {
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
        const std::uint32_t hosts = 1 + seed % 40;
        INFO("seed " << seed << ", " << hosts << " hosts");
        Job(seed, hosts).run();
    }
}

}  // namespace
}  // namespace rueda::core::test
