// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Runs random jobs. In these jobs, the metadata of tensors change and disagree. Hosts release ids, and ranks join again
// and again. The root executes slowly. Messages are delayed at random, but stay in order on each edge of the tree. All
// hosts must always get the same decisions in the same order. When all ranks have announced a tensor, exactly one
// correct decision must follow. The root may ask a host only for the next operation on a tensor.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "core/negotiation/carried.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/tree_node.hpp"
#include "tests/core/negotiation/leaders.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::core::test {
namespace {

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random);
}
bool chance(Random& random, std::uint32_t percent) { return below(random, 100) < percent; }

/// The metadata of all ranks for one announcement of a tensor.
struct Round {
    std::vector<Metadata> by_rank;
    std::vector<std::int64_t> rows;  ///< the number of rows of each rank, in operations of variable size
    std::size_t epoch = 0;           ///< the number of joins that ended before this round
    std::vector<bool> active;        ///< whether each rank takes part; the other ranks have joined or will join

    [[nodiscard]] const Metadata& first() const {
        const auto first = std::find(active.begin(), active.end(), true);
        return by_rank[static_cast<std::size_t>(first - active.begin())];
    }
    [[nodiscard]] bool agreed() const {
        for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
            if (active[rank] && !agree(by_rank[rank], first())) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] bool everybody() const { return std::find(active.begin(), active.end(), false) == active.end(); }
    [[nodiscard]] DecisionKind right() const {
        if (!agreed()) {
            return DecisionKind::disagreed;
        }
        const auto operation = static_cast<collectives::Operation>(first().operation);
        return everybody() || goes_on_without_joined(operation) ? DecisionKind::call : DecisionKind::lacks_joined;
    }
};

/// A tensor. All hosts announce all its rounds.
struct Tensor {
    std::string name;  ///< if empty, every round is an unnamed operation
    std::vector<Round> rounds;
};

/// The state of one tensor on a host.
struct State {
    std::size_t rounds = 0;      ///< number of decided rounds
    bool pending = false;        ///< whether the host has announced the next round
    std::size_t wanted = 0;      ///< 1 + the last round that the root asked for on this host; 0 if there is none
    std::set<std::size_t> asks;  ///< all rounds that the root asked this host to announce
    std::uint64_t id = 0;        ///< the id that the host holds for the tensor; 0 if it holds none
    Metadata last_called;
};

/// The state of a host's joins.
struct Away {
    std::size_t epoch = 0;
    std::vector<std::int32_t> joined;  ///< ranks in the order of their joins
    bool said = false;
    bool settled = false;
};

class Job {
public:
    /// If `steady` is true, the job has only few tensors with many rounds, whose metadata seldom change.
    Job(std::uint32_t seed, std::uint32_t hosts, bool joins, bool steady = false)
        : random_(seed),
          steady_(steady),
          setting_{.hosts = hosts,
                   .ranks_per_host = 1 + below(random_, 3),
                   .radix = 1 + below(random_, 9),
                   .fusion_threshold_bytes = below(random_, 4) * 20,
                   .batches_ahead = 1 + below(random_, 3)},
          leaders_(setting_),
          joins_(joins),
          edges_(hosts),
          decisions_(hosts),
          away_(hosts) {
        draw_steps();
        const std::uint32_t tensors = 1 + below(random_, steady_ ? 2 : 8);
        for (std::uint32_t i = 0; i < tensors; ++i) {
            tensors_.push_back(random_tensor(chance(random_, 80) ? "tensor." + std::to_string(i) : ""));
        }
        states_.assign(hosts, std::vector<State>(tensors));
        announced_.assign(leaders_.ranks(), std::vector<std::size_t>(tensors, 0));
    }

    void run() {
        while (!all_done()) {
            step();
        }
        for (std::uint32_t host = 0; host < setting_.hosts; ++host) {
            CHECK(leaders_[host].pending().empty());
        }
        shut_down();
        check();
    }

    /// Ends the job with a shutdown after a random number of steps.
    void run_until_a_shutdown() {
        for (auto steps = below(random_, 3000); steps > 0 && !all_done(); --steps) {
            step();
        }
        shut_down();
    }

    /// Returns how often the root asked a host for an operation.
    [[nodiscard]] std::size_t asks() const { return asks_; }
    [[nodiscard]] std::size_t results() const { return results_; }
    [[nodiscard]] std::size_t offers() const { return offers_; }
    /// Returns how often a child had two messages in flight, because the first one had accepted an offer.
    [[nodiscard]] std::size_t doubled() const { return doubled_; }

private:
    static constexpr std::uint32_t kSteps = 4;
    /// The job fails after this many consecutive steps without effect. The number is so large that every kind of step
    /// is tried thousands of times before the job fails.
    static constexpr int kPatience = 100'000;

    // ---- the ranks ------------------------------------------------------------------------------------------------

    Tensor random_tensor(const std::string& name) {
        Tensor tensor{name, {}};
        Metadata metadata = random_metadata();
        for (const auto& [epoch, at] : draw_times()) {
            if (chance(random_, steady_ ? 3 : 25)) {
                metadata = random_metadata();
            }
            Round round{std::vector<Metadata>(leaders_.ranks(), metadata), {}, epoch, {}};
            for (const std::uint32_t steps : steps_[epoch]) {
                round.active.push_back(at < steps);
            }
            for (std::uint32_t rank = 0; rank < leaders_.ranks(); ++rank) {
                round.rows.push_back(below(random_, 5));
            }
            if (chance(random_, steady_ ? 2 : 20)) {
                round.by_rank[below(random_, leaders_.ranks())] = random_metadata();
            }
            tensor.rounds.push_back(std::move(round));
        }
        return tensor;
    }

    /// For each epoch (the time between two joins), draws the number of steps of each rank before it joins. Without
    /// joins, this number is the same for all ranks.
    void draw_steps() {
        const std::uint32_t epochs = joins_ ? 1 + below(random_, 3) : 1;
        const bool by_host = chance(random_, 50);  // all ranks of a host make the same number of steps
        for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
            std::vector<std::uint32_t> steps;
            std::vector<bool> counted;
            for (std::uint32_t rank = 0; rank < leaders_.ranks(); ++rank) {
                const bool as_before = by_host && rank % setting_.ranks_per_host != 0;
                steps.push_back(!joins_ ? 1 : as_before ? steps.back() : below(random_, kSteps + 1));
                counted.push_back(chance(random_, 50));
            }
            steps_.push_back(std::move(steps));
            counted_.push_back(std::move(counted));
        }
    }

    struct Time {
        std::size_t epoch;
        std::uint32_t step;
    };
    /// Draws the epoch and step of each round of a tensor. At least one rank is active in every step.
    std::vector<Time> draw_times() {
        std::vector<Time> times;
        for (std::size_t epoch = 0; epoch < steps_.size(); ++epoch) {
            const std::uint32_t most = *std::max_element(steps_[epoch].begin(), steps_[epoch].end());
            const auto first = static_cast<std::ptrdiff_t>(times.size());
            for (std::uint32_t rounds = most == 0 ? 0 : 1 + below(random_, steady_ ? 30 : 6); rounds > 0; --rounds) {
                times.push_back({epoch, below(random_, most)});
            }
            std::sort(times.begin() + first, times.end(), [](const Time& a, const Time& b) { return a.step < b.step; });
        }
        return times;
    }

    Metadata random_metadata() {
        Metadata metadata = allreduce_of({1 + static_cast<std::int64_t>(below(random_, 6))});
        if (chance(random_, 20)) {
            metadata.operation = static_cast<std::uint8_t>(collectives::Operation::allgather);
            metadata.shape[0] = Metadata::kAnyExtent;
        } else if (chance(random_, 10)) {
            metadata.operation = static_cast<std::uint8_t>(collectives::Operation::group);
            metadata.shape[0] = Metadata::kAnyExtent;
        }
        return metadata;
    }

    /// Returns the tensor's next round on this host. Returns null if there is none in the present epoch of the host.
    [[nodiscard]] const Round* next_round(std::uint32_t host, std::uint32_t tensor) const {
        const std::vector<Round>& rounds = tensors_[tensor].rounds;
        const std::size_t number = states_[host][tensor].rounds;
        return number < rounds.size() && rounds[number].epoch == away_[host].epoch ? &rounds[number] : nullptr;
    }

    [[nodiscard]] bool has_joined(std::uint32_t host, std::int32_t rank) const {
        const std::vector<std::int32_t>& joined = away_[host].joined;
        return std::find(joined.begin(), joined.end(), rank) != joined.end();
    }

    /// Lets a rank announce a tensor. A rank that has joined announces the tensor without data. It does this only if
    /// another rank of its host has announced the tensor, or if the root has asked the host for it.
    bool announce_as(std::int32_t rank, std::uint32_t tensor) {
        const std::uint32_t host = host_of(rank);
        const State& state = states_[host][tensor];
        const Round* round = next_round(host, tensor);
        std::size_t& announced = announced_[static_cast<std::size_t>(rank)][tensor];
        if (round == nullptr || announced != state.rounds) {
            return false;
        }
        if (!round->active[static_cast<std::size_t>(rank)]) {
            const std::vector<std::int32_t> others = ranks_of(host);
            const bool known = std::any_of(others.begin(), others.end(), [&](std::int32_t other) {
                return announced_[static_cast<std::size_t>(other)][tensor] > state.rounds;
            });
            if (!has_joined(host, rank) || (!known && state.wanted <= state.rounds)) {
                return false;
            }
        }
        ++announced;
        return true;
    }

    /// If all ranks of the host have announced the tensor, the host's leader announces it to its parent.
    bool announce(std::uint32_t host, std::uint32_t tensor_number) {
        const Tensor& tensor = tensors_[tensor_number];
        State& state = states_[host][tensor_number];
        const std::vector<std::int32_t> ranks = ranks_of(host);
        const auto announced = [&](std::int32_t rank) {
            return announced_[static_cast<std::size_t>(rank)][tensor_number] > state.rounds;
        };
        if (state.pending || !std::all_of(ranks.begin(), ranks.end(), announced)) {
            return false;
        }
        const Round& round = tensor.rounds[state.rounds];
        Announcement announcement;
        if (tensor.name.empty()) {
            announcement.key = by_call(call_number(tensor_number, state.rounds));
        } else {
            announcement.key = state.id != 0 ? by_id(state.id) : by_name(tensor.name);
        }
        for (const std::int32_t rank : ranks) {
            if (!round.active[static_cast<std::size_t>(rank)]) {
                const bool counted = counted_[round.epoch][static_cast<std::size_t>(rank)];
                (counted ? announcement.joined : announcement.uncounted).push_back({rank, rank});
            }
        }
        if (announcement.joined.size() + announcement.uncounted.size() < ranks.size()) {
            announcement.claims = claims_of(host, round, state);
            if (has_rows(announcement, state)) {
                announcement.rows = {rows_of(host, round)};
            }
        }
        if (may_carry(announcement, state)) {
            announcement.input = random_input(state.last_called);
            auto& inputs = inputs_[{tensor_number, state.rounds}];
            inputs.resize(setting_.hosts);
            inputs[host] = announcement.input;
        }
        leaders_[host].announce(std::move(announcement));
        state.pending = true;
        return true;
    }

    /// Whether the announcement contains first dimensions. A leader adds them if the operation is of variable size on
    /// some rank of its host. A claim without metadata, or an announcement without claims, means the metadata of the
    /// last call.
    static bool has_rows(const Announcement& announcement, const State& state) {
        const auto is_variable = [](const Metadata& metadata) {
            return has_variable_rows(static_cast<collectives::Operation>(metadata.operation));
        };
        return announcement.claims.empty()
                   ? is_variable(state.last_called)
                   : std::any_of(announcement.claims.begin(), announcement.claims.end(), [&](const Claim& claim) {
                         return is_variable(claim.metadata.value_or(state.last_called));
                     });
    }

    /// Whether the announcement carries the host's input. At random, some announcements do not.
    bool may_carry(const Announcement& announcement, const State& state) {
        return setting_.hosts > 1 && setting_.radix + 1 >= setting_.hosts && announcement.key.id != 0 &&
               announcement.claims.empty() && announcement.joined.empty() && announcement.uncounted.empty() &&
               carried_reduction(state.last_called, leaders_.ranks()).has_value() && chance(random_, 90);
    }
    CarriedBytes random_input(const Metadata& metadata) {
        std::vector<float> values(bytes_of(metadata) / sizeof(float));
        std::generate(values.begin(), values.end(), [this] { return static_cast<float>(below(random_, 1000)) / 7; });
        CarriedBytes input(bytes_of(metadata));
        std::memcpy(input.data(), values.data(), input.size());
        return input;
    }

    /// Checks the result that the call of a round carries. The root may leave it out.
    void check_result(std::uint32_t tensor, std::size_t round, const Decision& decision) {
        if (decision.result.empty()) {
            return;
        }
        CHECK(decision.ends_batch);
        const auto inputs = inputs_.find({tensor, round});
        REQUIRE(inputs != inputs_.end());
        REQUIRE(std::none_of(inputs->second.begin(), inputs->second.end(),
                             [](const CarriedBytes& input) { return input.empty(); }));
        const auto reduction = carried_reduction(tensors_[tensor].rounds[round].first(), leaders_.ranks());
        REQUIRE(reduction.has_value());
        CHECK(decision.result == combine_carried(*reduction, inputs->second));
        ++results_;
    }

    /// Releases the tensor's id on a host where no rank has announced the tensor.
    bool release(std::uint32_t host, std::uint32_t tensor) {
        State& state = states_[host][tensor];
        for (const std::int32_t rank : ranks_of(host)) {
            if (announced_[static_cast<std::size_t>(rank)][tensor] > state.rounds) {
                return false;
            }
        }
        if (state.id == 0 || !chance(random_, steady_ ? 1 : 15)) {
            return false;
        }
        leaders_[host].release(state.id);
        state.id = 0;
        return true;
    }

    /// Lets a rank join after it has announced all its tensors.
    bool join(std::int32_t rank) {
        const std::uint32_t host = host_of(rank);
        if (!joins_ || away_[host].epoch == steps_.size() || has_joined(host, rank)) {
            return false;
        }
        for (std::uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
            const std::size_t announced = announced_[static_cast<std::size_t>(rank)][tensor];
            const std::vector<Round>& rounds = tensors_[tensor].rounds;
            if (announced < rounds.size() && rounds[announced].epoch == away_[host].epoch &&
                rounds[announced].active[static_cast<std::size_t>(rank)]) {
                return false;
            }
        }
        away_[host].joined.push_back(rank);
        return true;
    }

    /// Lets the host's leader report that all ranks of the host have joined. In a later call, lets it report that these
    /// ranks have no own operation pending.
    bool say_away(std::uint32_t host) {
        Away& away = away_[host];
        if (away.joined.size() < setting_.ranks_per_host || away.settled) {
            return false;
        }
        if (!away.said) {
            leaders_[host].join(away.joined.back());
            away.said = true;
            return true;
        }
        for (std::uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
            const Round* round = next_round(host, tensor);
            for (const std::int32_t rank : ranks_of(host)) {
                if (round != nullptr && round->active[static_cast<std::size_t>(rank)]) {
                    return false;
                }
            }
        }
        leaders_[host].settle();
        away.settled = true;
        return true;
    }

    /// Makes a claim for each active rank. A claim contains metadata only if they differ from those of the previous
    /// call. If no claim contains metadata, usually returns no claims.
    std::vector<Claim> claims_of(std::uint32_t host, const Round& round, const State& state) {
        std::vector<Claim> claims;
        bool anything_new = false;
        for (const std::int32_t rank : ranks_of(host)) {
            if (!round.active[static_cast<std::size_t>(rank)]) {
                continue;
            }
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

    [[nodiscard]] std::uint32_t host_of(std::int32_t rank) const {
        return static_cast<std::uint32_t>(rank) / setting_.ranks_per_host;
    }
    [[nodiscard]] std::vector<std::int32_t> ranks_of(std::uint32_t host) const {
        std::vector<std::int32_t> ranks;
        for (std::uint32_t local = 0; local < setting_.ranks_per_host; ++local) {
            ranks.push_back(static_cast<std::int32_t>(host * setting_.ranks_per_host + local));
        }
        return ranks;
    }

    static std::uint64_t call_number(std::uint32_t tensor, std::size_t round) { return tensor * 1000ULL + round; }

    // ---- one random event ------------------------------------------------------------------------------------------

    void step() {
        const std::uint32_t host = below(random_, setting_.hosts);
        const auto rank = static_cast<std::int32_t>(below(random_, leaders_.ranks()));
        const std::uint32_t tensor = below(random_, static_cast<std::uint32_t>(tensors_.size()));
        bool effect = false;
        switch (below(random_, closing_ ? 4 : 9)) {
            case 0:
                effect = send(host);
                break;
            case 1:
                effect = deliver(host);
                break;
            case 2:
                effect = take_decision(host);
                break;
            case 3:
                effect = execute();
                break;
            case 4:
                effect = announce(host, tensor);
                break;
            case 5:
                effect = release(host, tensor);
                break;
            case 6:
                effect = join(rank);
                break;
            case 7:
                effect = say_away(host);
                break;
            default:
                effect = announce_as(rank, tensor);
                break;
        }
        idle_steps_ = effect ? 0 : idle_steps_ + 1;
        if (idle_steps_ == kPatience) {  // no CHECK(), because a CHECK() in every step would be slow
            FAIL("nothing goes on");
        }
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
        const auto* down = std::get_if<DownMessage>(&*message);
        if (down != nullptr && !down->decisions.empty() && down->decisions.front().kind == DecisionKind::offered) {
            ++offers_;
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
        // A parent stores only one message of each child. A child that has accepted an offer may send another message.
        const std::size_t most = setting_.hosts == 2 ? 2 : 1;
        REQUIRE((edge->first < host || edge->second.size() <= most));
        if (edge->first > host && edge->second.size() == 2) {
            ++doubled_;
        }
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
        if (decision->kind == DecisionKind::wanted) {
            take_wanted(host, *decision);
            return true;
        }
        decisions_[host].push_back(*decision);
        if (decision->kind == DecisionKind::call || decision->kind == DecisionKind::disagreed ||
            decision->kind == DecisionKind::lacks_joined) {
            apply(host, *decision);
        } else if (decision->kind == DecisionKind::all_joined) {
            Away& away = away_[host];
            CHECK(away.settled);
            CHECK(std::none_of(states_[host].begin(), states_[host].end(),
                               [](const State& state) { return state.pending; }));
            away = {away.epoch + 1, {}, false, false};
        } else if (decision->kind == DecisionKind::forget) {
            for (const State& state : states_[host]) {
                CHECK(state.id != decision->id);
            }
        }
        return true;
    }

    /// Checks that the root asks a host for an operation only if all ranks of the host have joined. The operation must
    /// be the tensor's next round, and the root must ask only once for each round.
    void take_wanted(std::uint32_t host, const Decision& wanted) {
        CHECK(away_[host].said);
        CHECK((wanted.call.has_value() || !wanted.name.empty()));
        // A batch of calls must not be interrupted by another decision.
        CHECK((decisions_[host].empty() || decisions_[host].back().kind != DecisionKind::call ||
               decisions_[host].back().ends_batch));
        const std::uint32_t tensor = tensor_of(host, wanted);
        State& state = states_[host][tensor];
        REQUIRE(next_round(host, tensor) != nullptr);
        CHECK(state.asks.insert(state.rounds).second);
        state.wanted = state.rounds + 1;
        ++asks_;
    }

    void apply(std::uint32_t host, const Decision& decision) {
        const std::uint32_t tensor = tensor_of(host, decision);
        State& state = states_[host][tensor];
        REQUIRE(state.pending);
        const Round& round = tensors_[tensor].rounds[state.rounds];
        state.pending = false;
        ++state.rounds;
        REQUIRE(decision.kind == round.right());
        if (decision.kind != DecisionKind::call) {
            CHECK(decision.text == refusal_of(tensors_[tensor].name, round, decision.call));
            return;
        }
        check_without_joined(host, state, round, decision);
        check_result(tensor, state.rounds - 1, decision);
        state.id = decision.id;
        state.last_called = round.first();
        CHECK(decision.operation == state.last_called.operation);
        CHECK(decision.bytes == bytes_of(state.last_called));
        const bool variable_rows = has_variable_rows(static_cast<collectives::Operation>(decision.operation));
        std::vector<std::int64_t> rows = variable_rows ? round.rows : std::vector<std::int64_t>();
        for (std::size_t rank = 0; rank < rows.size(); ++rank) {
            rows[rank] = round.active[rank] ? rows[rank] : kJoinedRows;
        }
        CHECK(decision.rows == rows);
    }

    static std::string refusal_of(const std::string& name, const Round& round,
                                  const std::optional<std::uint64_t>& call) {
        std::vector<MetadataOfRanks> meant;
        std::vector<std::int32_t> joined;
        for (std::size_t rank = 0; rank < round.by_rank.size(); ++rank) {
            if (round.active[rank]) {
                meant.push_back({round.by_rank[rank], {static_cast<std::int32_t>(rank)}});
            } else {
                joined.push_back(static_cast<std::int32_t>(rank));
            }
        }
        const std::uint64_t number = call ? *call + 1 : 0;
        if (round.right() == DecisionKind::lacks_joined) {
            const auto operation = static_cast<collectives::Operation>(round.first().operation);
            return lacks_joined(name, operation, joined, number).message();
        }
        return (call ? mismatch_of_unnamed(number, std::move(meant)) : mismatch_of(name, std::move(meant))).message();
    }

    /// Checks that a host without active ranks gets the metadata of the call, unless the host knows these metadata from
    /// the previous call.
    void check_without_joined(std::uint32_t host, const State& state, const Round& round, const Decision& decision) {
        std::uint32_t uncounted = 0;
        for (std::size_t rank = 0; rank < round.active.size(); ++rank) {
            uncounted += round.active[rank] || counted_[round.epoch][rank] ? 0U : 1U;
        }
        CHECK(decision.uncounted == uncounted);
        if (decision.metadata) {
            CHECK(agree(*decision.metadata, round.first()));
            CHECK_FALSE(round.everybody());
        }
        const std::vector<std::int32_t> ranks = ranks_of(host);
        const bool nobody_here = std::none_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
            return round.active[static_cast<std::size_t>(rank)];
        });
        const bool knows = state.id != 0 && agree(state.last_called, round.first());
        CHECK((decision.metadata.has_value() || knows || !nobody_here));
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
        if (joins_ &&
            std::any_of(away_.begin(), away_.end(), [this](const Away& away) { return away.epoch < steps_.size(); })) {
            return false;
        }
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
        closing_ = true;
        const auto shut_down_ranks_of = [this](std::uint32_t host) {
            for (const std::int32_t rank : ranks_of(host)) {
                leaders_[host].shut_down(rank);
            }
        };
        // Either all hosts shut down at the same time, or the shutdown of one host must reach the others.
        const bool together = chance(random_, 50);
        const std::uint32_t first = below(random_, setting_.hosts);
        for (std::uint32_t host = 0; host < setting_.hosts; ++host) {
            if (together || host == first) {
                shut_down_ranks_of(host);
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
                if (!together && host != first) {
                    shut_down_ranks_of(host);
                }
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
        CHECK(count[DecisionKind::call] + count[DecisionKind::disagreed] + count[DecisionKind::lacks_joined] == rounds);
        CHECK(count[DecisionKind::all_joined] == (joins_ ? steps_.size() : 0));
        CHECK(count[DecisionKind::closing] == 1);
        CHECK(count[DecisionKind::closed] == 1);
        check_batches();
    }

    void check_batches() {
        std::uint64_t bytes = 0;
        int calls = 0;
        for (const Decision& decision : decisions_[0]) {
            if (decision.kind != DecisionKind::call) {
                CHECK(calls == 0);  // a batch of calls must not be interrupted by another decision
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
    bool steady_ = false;
    Leaders::Setting setting_;
    Leaders leaders_;
    bool joins_;
    std::vector<std::vector<std::uint32_t>> steps_;  ///< by epoch and rank
    /// For each epoch and rank, tells whether averages count the rank after its join.
    std::vector<std::vector<bool>> counted_;
    std::vector<Tensor> tensors_;
    std::vector<std::vector<State>> states_;  ///< by host and tensor
    /// Messages in transit, by receiver and sender.
    std::vector<std::map<std::uint32_t, std::deque<TreeMessage>>> edges_;
    std::vector<std::vector<Decision>> decisions_;     ///< by host
    std::vector<Away> away_;                           ///< by host
    std::vector<std::vector<std::size_t>> announced_;  ///< number of announced rounds, by rank and tensor
    /// The inputs that announcements carried, by tensor and round, and then by host.
    std::map<std::pair<std::uint32_t, std::size_t>, std::vector<CarriedBytes>> inputs_;
    std::size_t results_ = 0;
    std::size_t offers_ = 0;
    std::size_t doubled_ = 0;  ///< the number of calls that carried a result, counted on every host
    std::size_t asks_ = 0;
    bool closing_ = false;
    std::uint64_t batches_ = 0;
    std::uint64_t executed_ = 0;
    int idle_steps_ = 0;
};

TEST_CASE("random jobs: the same decisions everywhere, and one for each tensor") {
    std::size_t results = 0;
    for (std::uint32_t seed = 0; seed < (tests::kSanitized ? 80 : 400); ++seed) {
        const std::uint32_t hosts = 1 + seed % 40;
        INFO("seed " << seed << ", " << hosts << " hosts");
        Job job(seed, hosts, /*joins=*/false);
        job.run();
        results += job.results();
    }
    CHECK(results > (tests::kSanitized ? 10U : 50U));
}

TEST_CASE("random jobs of two hosts, whose root makes offers") {
    std::size_t results = 0;
    std::size_t offers = 0;
    std::size_t doubled = 0;
    for (std::uint32_t seed = 1000; seed < (tests::kSanitized ? 1200 : 3000); ++seed) {
        INFO("seed " << seed);
        Job job(seed, 2, /*joins=*/seed % 3 == 0, /*steady=*/seed % 2 == 0);
        if (seed % 3 == 1) {
            job.run_until_a_shutdown();
        } else {
            job.run();
        }
        results += job.results();
        offers += job.offers();
        doubled += job.doubled();
    }
    CHECK(results > (tests::kSanitized ? 100U : 1000U));
    CHECK(offers > (tests::kSanitized ? 100U : 1000U));
    CHECK(doubled > (tests::kSanitized ? 0U : 10U));
}

TEST_CASE("random jobs whose ranks join: announcements of the other ranks are called, and all ranks return together") {
    std::size_t asks = 0;
    for (std::uint32_t seed = 0; seed < (tests::kSanitized ? 30 : 150); ++seed) {
        const std::uint32_t hosts = 1 + seed % 25;
        INFO("seed " << seed << ", " << hosts << " hosts");
        Job job(seed, hosts, /*joins=*/true);
        job.run();
        asks += job.asks();
    }
    CHECK(asks > (tests::kSanitized ? 200U : 1000U));
}

TEST_CASE("a rank shuts down while others join: all hosts come to the end") {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        const std::uint32_t hosts = 1 + seed % 20;
        INFO("seed " << seed << ", " << hosts << " hosts");
        Job(seed, hosts, /*joins=*/true).run_until_a_shutdown();
    }
}

}  // namespace
}  // namespace rueda::core::test
