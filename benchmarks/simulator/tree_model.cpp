// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "benchmarks/simulator/model.hpp"
#include "core/negotiation/tree_node.hpp"

namespace rueda::simulator {
namespace {

using core::Announcement;
using core::Decision;
using core::DecisionKind;
using core::DownMessage;
using core::TreeMessage;
using core::UpMessage;

struct Size {
    std::size_t items = 0;
    std::size_t bytes = 0;
};

Size size_of(const TreeMessage& message) {
    Size size{0, core::empty_message_bytes()};
    if (const auto* up = std::get_if<UpMessage>(&message)) {
        size.items = up->announcements.size();
        for (const Announcement& announcement : up->announcements) {
            size.bytes += encoded_bytes(announcement);
        }
    } else if (const auto* down = std::get_if<DownMessage>(&message)) {
        size.items = down->decisions.size();
        for (const Decision& decision : down->decisions) {
            size.bytes += encoded_bytes(decision);
        }
    }
    return size;
}

/// A message in transit, or in the inbox of its receiver.
struct Delivery {
    std::uint32_t from = 0;
    TreeMessage message;
    Size size;
};

/// A neighbour in the tree, to which a leader sends messages.
struct Neighbour {
    std::uint32_t host = 0;
    Nanoseconds left = 0;  ///< the time at which the last message to this neighbour has left
};

/// A leader with one CPU and one outgoing link.
struct Leader {
    std::unique_ptr<core::TreeNode> node;
    std::vector<Neighbour> neighbours;
    std::vector<Delivery> inbox;
    Nanoseconds free_at = 0;  ///< the time from which the leader's CPU is free
    /// The time at which the leader looks for messages next. A message that arrives during other work waits until this
    /// work is done.
    Nanoseconds looks_at = 0;
    Nanoseconds way_out_at = 0;  ///< the time from which the outgoing link is free
    Nanoseconds busy = 0;        ///< CPU time in this step
    std::uint64_t messages = 0;  ///< number of messages sent or received in this step
    std::size_t next_arrival = 0;
    std::uint32_t got = 0;  ///< number of tensors whose operations were called on this host in this step
};

/// An event at a host: a message arrives, or the leader looks for messages.
struct Event {
    Nanoseconds at = 0;
    std::uint64_t order = 0;
    std::uint32_t host = 0;
};
/// Orders events for std::priority_queue, which returns the largest element first. Simultaneous events keep the order
/// of their creation.
struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.at != b.at ? a.at > b.at : a.order > b.order; }
};

class Tree {
public:
    Tree(const Job& job, const Costs& costs) : job_(job), costs_(costs), shape_{job.hosts, job.radix} {
        core::TreeNode::Options options;
        options.shape = shape_;
        options.fusion_threshold_bytes = job.fusion_threshold_bytes;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            options.host_of.push_back(static_cast<std::int32_t>(rank / job.ranks_per_host));
        }
        for (std::uint32_t tensor = 0; tensor < job.tensors; ++tensor) {
            tensor_of_name_.emplace(name_of(tensor), tensor);
        }
        ids_.assign(job.tensors, 0);
        leaders_.resize(job.hosts);
        for (std::uint32_t host = 0; host < job.hosts; ++host) {
            options.host = host;
            leaders_[host].node = std::make_unique<core::TreeNode>(options);
            for (const std::uint32_t child : shape_.children(host)) {
                leaders_[host].neighbours.push_back({child, 0});
            }
            if (const auto parent = shape_.parent(host)) {
                leaders_[host].neighbours.push_back({*parent, 0});
            }
        }
    }

    /// Simulates a step, which begins when all work of the previous step is done.
    StepResult step(const Arrivals& arrivals) {
        arrivals_ = &arrivals;
        result_ = {};
        order_.clear();
        known_everywhere_.assign(job_.tensors, 0);
        for (std::uint32_t host = 0; host < job_.hosts; ++host) {
            Leader& leader = leaders_[host];
            leader.busy = 0;
            leader.messages = 0;
            leader.next_arrival = 0;
            leader.got = 0;
            look_at_next_arrival(host);
        }
        while (!events_.empty()) {
            handle_next_event();
        }
        StepResult result = summary();
        first_step_ = false;
        start_ = now_;
        return result;
    }

private:
    void look(std::uint32_t host, Nanoseconds at) { events_.push({at, ++events_made_, host}); }

    void look_at_next_arrival(std::uint32_t host) {
        const std::vector<Arrival>& mine = arrivals_->by_host[host];
        Leader& leader = leaders_[host];
        if (leader.next_arrival < mine.size()) {
            look(host, std::max(start_ + mine[leader.next_arrival].at, leader.free_at));
        }
    }

    void handle_next_event() {
        const Event event = events_.top();
        events_.pop();
        now_ = event.at;
        const std::uint32_t host = event.host;
        Leader& leader = leaders_[host];
        if (auto delivery = under_way_.extract(event.order)) {
            leader.inbox.push_back(std::move(delivery.mapped()));
        }
        if (leader.free_at > now_) {
            // When the leader looks for messages, it finds all messages that have arrived.
            if (leader.looks_at != leader.free_at) {
                leader.looks_at = leader.free_at;
                look(host, leader.free_at);
            }
            return;
        }
        work(host);
    }

    /// Lets a leader process all messages that have arrived, and then send its own.
    void work(std::uint32_t host) {
        Leader& leader = leaders_[host];
        Nanoseconds cost = take_arrivals(host) + take_messages(leader);
        while (auto decision = leader.node->next_decision()) {
            cost += costs_.item;
            note(host, *decision, now_ + cost);
            if (host == 0 && decision->ends_batch) {
                // Only the negotiation is simulated, so the batch counts as executed at once.
                leader.node->executed(++batches_);
            }
        }
        for (Neighbour& neighbour : leader.neighbours) {
            cost += send(host, neighbour, cost);
        }
        leader.busy += cost;
        leader.free_at = now_ + cost;
        if (!leader.node->status().is_ok()) {
            throw std::logic_error(leader.node->status().message());
        }
    }

    Nanoseconds take_arrivals(std::uint32_t host) {
        Leader& leader = leaders_[host];
        const std::vector<Arrival>& mine = arrivals_->by_host[host];
        Nanoseconds cost = 0;
        const std::size_t before = leader.next_arrival;
        for (; leader.next_arrival < mine.size() && start_ + mine[leader.next_arrival].at <= now_;
             ++leader.next_arrival) {
            cost += costs_.item;
            leader.node->announce(announcement_of(host, mine[leader.next_arrival].tensor));
        }
        if (leader.next_arrival != before && leader.next_arrival < mine.size()) {
            look(host, std::max(start_ + mine[leader.next_arrival].at, now_ + cost));
        }
        return cost;
    }

    [[nodiscard]] Announcement announcement_of(std::uint32_t host, std::uint32_t tensor) const {
        if (!first_step_) {
            return {{ids_[tensor], "", std::nullopt}, {}, {}};
        }
        core::Metadata metadata;
        metadata.dtype = static_cast<std::uint8_t>(DType::uint8);
        metadata.reduce_op = static_cast<std::uint8_t>(ReduceOp::average);
        metadata.ndim = 1;
        metadata.shape[0] = static_cast<std::int64_t>(job_.tensor_bytes);
        const auto first = static_cast<std::int32_t>(host * job_.ranks_per_host);
        const auto last = first + static_cast<std::int32_t>(job_.ranks_per_host) - 1;
        return {{0, name_of(tensor), std::nullopt}, {{metadata, {{first, last}}}}, {}};
    }
    /// Returns a name of typical length for a parameter.
    static std::string name_of(std::uint32_t tensor) {
        return "allreduce.encoder.layer." + std::to_string(tensor) + ".attention.weight";
    }

    Nanoseconds take_messages(Leader& leader) {
        Nanoseconds cost = 0;
        for (const Delivery& delivery : std::exchange(leader.inbox, {})) {
            cost += costs_.receive + static_cast<Nanoseconds>(delivery.size.items) * costs_.item;
            ++leader.messages;
            const Status status = leader.node->receive(delivery.from, delivery.message);
            if (!status.is_ok()) {
                throw std::logic_error(status.message());
            }
        }
        return cost;
    }

    Nanoseconds send(std::uint32_t host, Neighbour& to, Nanoseconds cost_before) {
        Leader& leader = leaders_[host];
        if (to.left > now_) {
            return 0;  // nothing is sent now; the leader tries again when the last message to this neighbour has left
        }
        auto message = leader.node->next_message(to.host);
        if (!message) {
            return 0;
        }
        const Size size = size_of(*message);
        const Nanoseconds cost = costs_.send + static_cast<Nanoseconds>(size.items) * costs_.item;
        to.left = std::max(now_ + cost_before + cost, leader.way_out_at) + costs_.transfer(size.bytes);
        leader.way_out_at = to.left;
        ++leader.messages;
        ++result_.messages;
        result_.bytes += size.bytes;
        look(to.host, to.left + costs_.latency);
        under_way_.emplace(events_made_, Delivery{host, std::move(*message), size});
        look(host, to.left);
        return cost;
    }

    void note(std::uint32_t host, const Decision& decision, Nanoseconds at) {
        if (decision.kind != DecisionKind::call) {
            throw std::logic_error("something else than a call was decided");
        }
        const std::uint32_t tensor = tensor_of(decision);
        Leader& leader = leaders_[host];
        if (leader.got == order_.size()) {
            order_.push_back(tensor);
        }
        result_.exactly_once = result_.exactly_once && order_[leader.got] == tensor;
        ++leader.got;
        known_everywhere_[tensor] = std::max(known_everywhere_[tensor], at);
        result_.rounds += host == 0 && decision.ends_batch ? 1 : 0;
    }

    std::uint32_t tensor_of(const Decision& decision) {
        const auto known = tensor_of_id_.find(decision.id);
        if (known != tensor_of_id_.end()) {
            return known->second;
        }
        const std::uint32_t tensor = tensor_of_name_.at(decision.name);
        ids_[tensor] = decision.id;
        tensor_of_id_.emplace(decision.id, tensor);
        return tensor;
    }

    StepResult summary() {
        std::vector<bool> seen(job_.tensors, false);
        for (const std::uint32_t tensor : order_) {
            result_.exactly_once = result_.exactly_once && !seen[tensor];
            seen[tensor] = true;
        }
        result_.exactly_once = result_.exactly_once && order_.size() == job_.tensors;
        for (const Leader& leader : leaders_) {
            result_.exactly_once = result_.exactly_once && leader.got == job_.tensors;
            result_.busiest = std::max(result_.busiest, leader.busy);
            result_.work += leader.busy;
            result_.most_messages = std::max(result_.most_messages, leader.messages);
        }
        result_.coordinator = leaders_.front().busy;
        for (std::uint32_t tensor = 0; tensor < job_.tensors; ++tensor) {
            result_.delays.push_back(known_everywhere_[tensor] - start_ - arrivals_->last[tensor]);
        }
        std::sort(result_.delays.begin(), result_.delays.end());
        return std::move(result_);
    }

    const Job& job_;
    const Costs& costs_;
    core::TreeShape shape_;
    std::vector<Leader> leaders_;
    std::priority_queue<Event, std::vector<Event>, Later> events_;
    std::uint64_t events_made_ = 0;
    /// The key is the number of the event at which the message arrives. Events are numbered as they are created.
    std::unordered_map<std::uint64_t, Delivery> under_way_;
    Nanoseconds now_ = 0;
    Nanoseconds start_ = 0;  ///< when the step began
    std::uint64_t batches_ = 0;
    bool first_step_ = true;
    std::vector<std::uint64_t> ids_;  ///< by tensor
    std::unordered_map<std::uint64_t, std::uint32_t> tensor_of_id_;
    std::unordered_map<std::string, std::uint32_t> tensor_of_name_;
    const Arrivals* arrivals_ = nullptr;
    std::vector<std::uint32_t> order_;  ///< the tensors in the order in which their operations were called on the first
                                        ///< host
    std::vector<Nanoseconds> known_everywhere_;
    StepResult result_;
};

}  // namespace

std::vector<StepResult> simulate_tree(const Job& job, const Costs& costs, std::uint32_t steps) {
    Tree tree(job, costs);
    std::vector<StepResult> results;
    for (std::uint32_t step = 0; step < steps; ++step) {
        results.push_back(tree.step(arrivals_of(job, step)));
    }
    return results;
}

std::uint32_t depth_of_tree(const Job& job) {
    const core::TreeShape shape{job.hosts, job.radix};
    std::uint32_t depth = 0;
    for (auto host = shape.parent(job.hosts - 1); host; host = shape.parent(*host)) {
        ++depth;
    }
    return depth;
}

}  // namespace rueda::simulator
