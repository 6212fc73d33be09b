// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/tree_node.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/negotiation/claims.hpp"

namespace rueda::core {
namespace {

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

/// Names the tensor in error messages.
std::string text_of(const TensorKey& key) {
    if (key.call) {
        return fmt::format("the operation without a name, number {}", *key.call);
    }
    return key.name.empty() ? fmt::format("the tensor of id {}", key.id) : "tensor " + base::quote(key.name);
}

/// Adds a claim of `ranks`: they announced the metadata of the last call, so the claim carries no metadata. Does
/// nothing if `ranks` is empty.
void merge_if_any(std::vector<Claim>& claims, std::vector<RankRange> ranks) {
    if (!ranks.empty()) {
        merge(claims, {std::nullopt, std::move(ranks)});
    }
}

}  // namespace

std::optional<std::uint32_t> TreeShape::parent(std::uint32_t host) const {
    return host == 0 ? std::nullopt : std::optional((host - 1) / radix);
}

std::vector<std::uint32_t> TreeShape::children(std::uint32_t host) const {
    std::vector<std::uint32_t> children;
    const std::uint64_t first = std::uint64_t{radix} * host + 1;
    for (std::uint64_t child = first; child < first + radix && child < hosts; ++child) {
        children.push_back(static_cast<std::uint32_t>(child));
    }
    return children;
}

TreeNode::TreeNode(Options options) : options_(std::move(options)) {
    RUEDA_ASSERT(options_.shape.radix > 0 && options_.host < options_.shape.hosts);
    const auto ranks = static_cast<std::uint32_t>(options_.host_of.size());
    most_bytes_ = most_message_bytes(ranks);
    find_contributors(options_.host_of);
    if (options_.host == 0) {
        TreeRoot::Options root;
        root.ranks = ranks;
        root.job_ranks = std::move(options_.job_ranks);
        root.ranks_of_host.resize(options_.shape.hosts);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            root.ranks_of_host[static_cast<std::size_t>(options_.host_of[rank])].push_back(
                static_cast<std::int32_t>(rank));
        }
        root.fusion_threshold_bytes = options_.fusion_threshold_bytes;
        root.batches_ahead = options_.batches_ahead;
        root_.emplace(std::move(root));
    }
    // The node no longer needs the list `host_of`, because the constructor has copied what the node uses.
    options_.host_of = {};
}

/// Assigns every host of the subtree to this host or to one of its children. If a host is below a child, it belongs to
/// the same child as its own parent. A parent has a lower number than its children, so the loop has already assigned
/// the parent.
void TreeNode::find_contributors(const std::vector<std::int32_t>& host_of) {
    const std::vector<std::uint32_t> children = options_.shape.children(options_.host);
    children_.resize(children.size());
    contributors_.resize(children.size() + 1);
    contributor_of_.assign(options_.shape.hosts, kNobody);
    contributor_of_[options_.host] = kOwn;
    for (std::uint32_t host = options_.host + 1; host < options_.shape.hosts; ++host) {
        const std::uint32_t parent = *options_.shape.parent(host);
        contributor_of_[host] = parent == options_.host ? host - children.front() + 1 : contributor_of_[parent];
    }
    for (std::uint32_t host = options_.host; host < options_.shape.hosts; ++host) {
        if (contributor_of_[host] != kNobody) {
            contributors_[contributor_of_[host]].hosts.push_back(host);
        }
    }
    ranks_on_.assign(options_.shape.hosts, 0);
    std::vector<std::vector<std::int32_t>> ranks(contributors_.size());
    for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
        const auto host = static_cast<std::uint32_t>(host_of[rank]);
        RUEDA_ASSERT(host < options_.shape.hosts);
        ++ranks_on_[host];
        if (contributor_of_[host] != kNobody) {
            ranks[contributor_of_[host]].push_back(static_cast<std::int32_t>(rank));
        }
    }
    for (std::size_t i = 0; i < contributors_.size(); ++i) {
        contributors_[i].ranks = ranges_of(ranks[i]);
    }
}

std::optional<std::uint32_t> TreeNode::child_number(std::uint32_t host) const {
    if (host == options_.host || host >= options_.shape.hosts || options_.shape.parent(host) != options_.host) {
        return std::nullopt;
    }
    return contributor_of_[host] - 1;
}

template <class Event>
void TreeNode::take_own(Event event) {
    if (root_ && offer_) {
        postponed_.emplace_back(std::move(event));
    } else {
        (void)note(event(*this));
    }
}

void TreeNode::announce(Announcement announcement) {
    take_own([announcement = std::move(announcement)](TreeNode& node) mutable {
        return node.take_announcement(std::move(announcement), kOwn);
    });
}
void TreeNode::release(std::uint64_t id) {
    take_own([id](TreeNode& node) { return node.take_release({id, 1}, kOwn); });
}
void TreeNode::shut_down(std::int32_t rank) {
    must_withdraw_ = root_ && offer_;
    take_own([rank](TreeNode& node) { return node.take_shutdown(rank, kOwn); });
}
void TreeNode::close() {
    take_own([](TreeNode& node) { return node.take_closed(1); });
}
void TreeNode::join(std::int32_t rank) {
    take_own([rank](TreeNode& node) { return node.take_joined(rank, kOwn); });
}
void TreeNode::settle() {
    take_own([](TreeNode& node) { return node.take_settled(1, kOwn); });
}

void TreeNode::executed(std::uint64_t batches) {
    if (root_) {
        root_->executed(batches);
    }
}

/// Stores `status` as the node's status, unless the node has already failed. Returns the node's status.
Status TreeNode::note(Status status) {
    if (failure_.is_ok()) {
        failure_ = std::move(status);
    }
    return failure_;
}

Status TreeNode::receive(std::uint32_t from_host, const TreeMessage& message) {
    if (!failure_.is_ok() || std::holds_alternative<HeartbeatMessage>(message)) {
        return failure_;
    }
    if (const auto* abort = std::get_if<AbortMessage>(&message)) {
        return {ErrorCode::aborted, abort->text};
    }
    const Status status = take(from_host, message);
    if (status.is_ok()) {
        return failure_;  // not OK if a postponed event of this host has failed
    }
    return note(failure(status.code(), "host {} sent host {}: {}", from_host, options_.host, status.message()));
}

Status TreeNode::take(std::uint32_t from_host, const TreeMessage& message) {
    if (const auto* up = std::get_if<UpMessage>(&message)) {
        if (const auto child = child_number(from_host)) {
            return take(*up, *child);
        }
    } else if (from_host == options_.shape.parent(options_.host)) {
        const auto* down = std::get_if<DownMessage>(&message);
        return down != nullptr ? take(*down) : take_withdrawal(std::get<WithdrawalMessage>(message));
    }
    return failure(ErrorCode::internal, "a message that goes to other hosts");
}

Status TreeNode::take(const UpMessage& message, std::uint32_t child_number) {
    Child& child = children_[child_number];
    if (message.number != child.taken + 1 || child.acknowledged != child.taken) {
        return failure(ErrorCode::internal, "message {}, when it was told that {} of {} were taken in", message.number,
                       child.acknowledged, child.taken);
    }
    child.taken = message.number;
    const std::optional<Decision> offer = std::exchange(offer_, std::nullopt);
    must_withdraw_ = false;
    RUEDA_RETURN_IF_FAILED(take_content(message, child_number));
    if (offer && accepts(message, *offer)) {
        note_acceptance(child);
    }
    for (const auto& event : std::exchange(postponed_, {})) {
        (void)note(event(*this));
    }
    return {};
}

Status TreeNode::take_content(const UpMessage& message, std::uint32_t child_number) {
    Child& child = children_[child_number];
    const std::uint32_t contributor = child_number + 1;
    for (const Release& release : message.releases) {
        RUEDA_RETURN_IF_FAILED(take_release(release, contributor));
    }
    for (const std::int32_t rank : message.joined) {
        RUEDA_RETURN_IF_FAILED(take_joined(rank, contributor));
    }
    for (const Announcement& announcement : message.announcements) {
        RUEDA_RETURN_IF_FAILED(take_announcement(announcement, contributor));
    }
    for (const std::int32_t rank : message.shutting_down) {
        RUEDA_RETURN_IF_FAILED(take_shutdown(rank, contributor));
    }
    if (message.settled_hosts > 0) {
        RUEDA_RETURN_IF_FAILED(take_settled(message.settled_hosts, contributor));
    }
    child.closed_hosts += message.closed_hosts;
    if (child.closed_hosts > contributors_[contributor].hosts.size()) {
        return failure(ErrorCode::internal, "{} hosts have closed, and it speaks for {}", child.closed_hosts,
                       contributors_[contributor].hosts.size());
    }
    return message.closed_hosts > 0 ? take_closed(message.closed_hosts) : Status();
}

Status TreeNode::take_release(const Release& release, std::uint32_t contributor) {
    if (closing_) {
        return {};
    }
    const auto name = names_.find(release.id);
    if (name == names_.end() || release.hosts > contributors_[contributor].hosts.size()) {
        return failure(ErrorCode::internal, "{} hosts release the id {}, and it speaks for {}; {}", release.hosts,
                       release.id, contributors_[contributor].hosts.size(),
                       name == names_.end() ? "no name has that id" : "the name is " + base::quote(name->second));
    }
    if (root_) {
        return root_->release(release, pending_.contains(name->second));
    }
    outbox_.releases[release.id] += release.hosts;
    return {};
}

Status TreeNode::take_shutdown(std::int32_t rank, std::uint32_t contributor) {
    if (!contains(contributors_[contributor].ranks, rank)) {
        return failure(ErrorCode::internal, "rank {} shuts down, and it speaks for {}", rank,
                       base::format_ranks(ranks_of(contributors_[contributor].ranks)));
    }
    if (closing_) {
        return {};
    }
    if (!root_) {
        outbox_.shutting_down.push_back(rank);
        return {};
    }
    draw_from_root();  // The first draw_from_root() collects the decisions that the root made before the shutdown.
    root_->shut_down(rank);
    draw_from_root();
    return {};
}

Status TreeNode::take_closed(std::uint32_t hosts) {
    if (root_) {
        return root_->close(hosts);
    }
    outbox_.closed_hosts += hosts;
    return {};
}

Status TreeNode::take_joined(std::int32_t rank, std::uint32_t contributor_number) {
    if (closing_) {
        return {};
    }
    Contributor& contributor = contributors_[contributor_number];
    if (!contains(contributor.ranks, rank) || contributor.is_away()) {
        return failure(ErrorCode::internal,
                       "all ranks of a host have joined, rank {} the last; it speaks for {}, and {} "
                       "of its {} hosts have",
                       rank, base::format_ranks(ranks_of(contributor.ranks)), contributor.joined_hosts,
                       contributor.hosts.size());
    }
    ++contributor.joined_hosts;
    if (root_) {
        root_->join(rank);
    } else {
        outbox_.joined.push_back(rank);
    }
    if (contributor.is_away()) {
        for (auto& [name, entry] : pending_) {
            ask({entry.id, name, std::nullopt}, entry);
        }
        for (auto& [call, entry] : pending_calls_) {
            ask({0, "", call}, entry);
        }
    }
    return {};
}

Status TreeNode::take_settled(std::uint32_t hosts, std::uint32_t contributor_number) {
    if (closing_) {
        return {};
    }
    Contributor& contributor = contributors_[contributor_number];
    contributor.settled_hosts += hosts;
    if (contributor.settled_hosts > contributor.joined_hosts) {
        return failure(
            ErrorCode::internal,
            "{} hosts report that they have nothing pending after a join, but only on {} hosts have all ranks joined",
            contributor.settled_hosts, contributor.joined_hosts);
    }
    if (root_) {
        return root_->settle(hosts);
    }
    outbox_.settled_hosts += hosts;
    return {};
}

/// Handles the parent's request to announce a tensor. All ranks of this subtree have joined, so they announce only the
/// tensors that they are asked to announce.
Status TreeNode::take_wanted(const Decision& wanted) {
    const auto key = key_of({wanted.id, wanted.name, wanted.call});
    RUEDA_RETURN_IF_FAILED(key.status());
    const auto is_away = [](const Contributor& contributor) { return contributor.is_away(); };
    if (closing_ || !std::all_of(contributors_.begin(), contributors_.end(), is_away)) {
        return failure(ErrorCode::internal,
                       "{} is wanted from host {} and the hosts below it, but not all of their ranks have joined",
                       text_of(key.value()), options_.host);
    }
    Entry& entry = find_or_add(key.value());
    entry.id = entry.id != 0 ? entry.id : wanted.id;
    ask(key.value(), entry);
    return {};
}

/// Some contributors have joined. Asks these contributors to announce a tensor that other contributors have announced.
/// (A contributor is this host, or a child with its subtree.) The request comes after all decisions that were made so
/// far, because the other contributors knew these decisions when they announced the tensor. The request comes before
/// the decision about the tensor.
void TreeNode::ask(const TensorKey& key, Entry& entry) {
    const auto is_in = [](const std::vector<std::uint32_t>& list, std::uint32_t contributor) {
        return std::find(list.begin(), list.end(), contributor) != list.end();
    };
    for (std::uint32_t contributor = 0; contributor < contributors_.size(); ++contributor) {
        if (!contributors_[contributor].is_away() || is_in(entry.who, contributor) || is_in(entry.asked, contributor)) {
            continue;
        }
        entry.asked.push_back(contributor);
        Wanted wanted{first_decision_ + decisions_.size(), {}};
        wanted.decision.kind = DecisionKind::wanted;
        wanted.decision.call = key.call;
        if (contributor == kOwn) {
            wanted.decision.name = key.name;
            wanted_.push_back(std::move(wanted));
            continue;
        }
        // A host that announced the tensor by its id still uses the id. The root keeps an id as long as a host uses it.
        // So every contributor (this host, or a child with its subtree) knows the id.
        wanted.decision.id = entry.id;
        wanted.decision.name = entry.id == 0 ? key.name : std::string();
        children_[contributor - 1].wanted.push_back(std::move(wanted));
    }
}

std::optional<Decision> TreeNode::next_wanted() {
    if (within_batch_ || wanted_.empty() || wanted_.front().position > handed_out_) {
        return std::nullopt;
    }
    Decision decision = std::move(wanted_.front().decision);
    wanted_.pop_front();
    return decision;
}

/// Called when the root has ended the join. All later announcements come from hosts that know that the join has ended.
Status TreeNode::end_joins() {
    for (Contributor& contributor : contributors_) {
        if (!contributor.is_away() || contributor.settled_hosts != contributor.joined_hosts || !pending_.empty() ||
            !pending_calls_.empty()) {
            return failure(ErrorCode::internal,
                           "the root says that all ranks have joined; in this part of the tree they have on {} of {} "
                           "hosts, {} hosts have nothing pending, and {} tensors are pending",
                           contributor.joined_hosts, contributor.hosts.size(), contributor.settled_hosts,
                           pending_.size() + pending_calls_.size());
        }
        contributor.joined_hosts = contributor.settled_hosts = 0;
    }
    return {};
}

Status TreeNode::take_announcement(Announcement announcement, std::uint32_t contributor) {
    if (closing_) {
        return {};
    }
    const auto key = key_of(announcement.key);
    RUEDA_RETURN_IF_FAILED(key.status());
    RUEDA_RETURN_IF_FAILED(check(announcement, contributor));
    Entry& entry = find_or_add(key.value());
    if (std::find(entry.who.begin(), entry.who.end(), contributor) != entry.who.end()) {
        return failure(ErrorCode::internal, "{} is announced again before it was decided on", text_of(key.value()));
    }
    gather(entry, std::move(announcement), contributor);
    if (entry.who.size() == contributors_.size()) {
        return complete(key.value(), entry);
    }
    ask(key.value(), entry);
    return {};
}

/// Returns the key under which the node gathers the announcements of a tensor. If the tensor has a name, the key is the
/// name, even if the tensor was announced by its id.
Result<TensorKey> TreeNode::key_of(const TensorKey& announced) const {
    if (announced.call || announced.id == 0) {
        return announced;
    }
    const auto name = names_.find(announced.id);
    if (name == names_.end()) {
        return failure(ErrorCode::internal, "{} is announced, and no name has that id", text_of(announced));
    }
    return TensorKey{announced.id, name->second, std::nullopt};
}

TreeNode::Entry* TreeNode::find(const TensorKey& key) {
    if (key.call) {
        const auto found = pending_calls_.find(*key.call);
        return found != pending_calls_.end() ? &found->second : nullptr;
    }
    const auto found = pending_.find(key.name);
    return found != pending_.end() ? &found->second : nullptr;
}

TreeNode::Entry& TreeNode::find_or_add(const TensorKey& key) {
    Entry& entry = key.call ? pending_calls_[*key.call] : pending_[key.name];
    if (entry.order == 0) {
        entry.order = ++entries_;
    }
    return entry;
}

void TreeNode::erase(const TensorKey& key) {
    if (key.call) {
        pending_calls_.erase(*key.call);
    } else {
        pending_.erase(key.name);
    }
}

Status TreeNode::check(const Announcement& announcement, std::uint32_t contributor) const {
    const std::vector<RankRange>& ranks = contributors_[contributor].ranks;
    std::vector<RankRange> joined = announcement.joined;
    joined.insert(joined.end(), announcement.uncounted.begin(), announcement.uncounted.end());
    joined = united(std::move(joined));
    if (!all_within(joined, ranks) ||
        count_of(joined) != count_of(announcement.joined) + count_of(announcement.uncounted)) {
        return failure(ErrorCode::internal, "{} is announced without {}, of {}", text_of(announcement.key),
                       base::format_ranks(ranks_of(joined)), base::format_ranks(ranks_of(ranks)));
    }
    if (!announcement.claims.empty()) {
        RUEDA_RETURN_IF_FAILED(check_claims(announcement.claims, without(ranks, joined)));
    }
    if (!announcement.input.empty() &&
        (!announcement.claims.empty() || !joined.empty() || contributors_[contributor].hosts.size() != 1)) {
        return failure(ErrorCode::internal, "{} is announced with the input of {} hosts, {} claims and {} joined ranks",
                       text_of(announcement.key), contributors_[contributor].hosts.size(), announcement.claims.size(),
                       count_of(joined));
    }
    for (const HostRows& rows : announcement.rows) {
        if (rows.host >= options_.shape.hosts || contributor_of_[rows.host] != contributor ||
            rows.rows.size() != ranks_on_[rows.host]) {
            return failure(ErrorCode::internal, "{} has {} first dimensions of host {}", text_of(announcement.key),
                           rows.rows.size(), rows.host);
        }
    }
    return {};
}

void TreeNode::gather(Entry& entry, Announcement announcement, std::uint32_t contributor) {
    if (announcement.key.id != 0) {
        entry.id = announcement.key.id;
    } else {
        entry.by_name = true;
    }
    // An announcement without claims stands for the metadata of the last call. If another announcement of the tensor
    // has claims, an announcement without claims must be turned into a claim too.
    if (entry.claims.empty() && !announcement.claims.empty()) {
        for (const std::uint32_t before : entry.who) {
            merge_if_any(entry.claims, active_of(entry, before));
        }
    }
    const auto add = [](std::vector<RankRange>& ranges, const std::vector<RankRange>& more) {
        ranges.insert(ranges.end(), more.begin(), more.end());
        ranges = united(std::move(ranges));
    };
    add(entry.joined, announcement.joined);
    add(entry.uncounted, announcement.uncounted);
    if (!entry.claims.empty() && announcement.claims.empty()) {
        merge_if_any(entry.claims, active_of(entry, contributor));
    }
    for (Claim& claim : announcement.claims) {
        merge(entry.claims, std::move(claim));
    }
    std::move(announcement.rows.begin(), announcement.rows.end(), std::back_inserter(entry.rows));
    if (!announcement.input.empty()) {
        entry.inputs.resize(contributors_.size());
        entry.inputs[contributor] = std::move(announcement.input);
    }
    entry.who.push_back(contributor);
}

/// Returns the contributor's ranks that have not joined.
std::vector<RankRange> TreeNode::active_of(const Entry& entry, std::uint32_t contributor) const {
    return without(without(contributors_[contributor].ranks, entry.joined), entry.uncounted);
}

/// Reports that the whole subtree has announced the tensor. A node reports this to its parent; the root reports it to
/// the TreeRoot.
Status TreeNode::complete(const TensorKey& key, Entry& entry) {
    Announcement whole;
    if (key.call) {
        whole.key.call = key.call;
    } else if (entry.by_name) {
        whole.key.name = key.name;
    } else {
        whole.key.id = entry.id;
    }
    whole.claims = std::move(entry.claims);
    whole.rows = std::move(entry.rows);
    whole.joined = std::move(entry.joined);
    whole.uncounted = std::move(entry.uncounted);
    std::sort(whole.rows.begin(), whole.rows.end(),
              [](const HostRows& a, const HostRows& b) { return a.host < b.host; });
    // If some announcement did not carry its input, the data of the operation moves in messages of its own.
    const bool has_all =
        !entry.inputs.empty() && whole.claims.empty() &&
        std::none_of(entry.inputs.begin(), entry.inputs.end(), [](const CarriedBytes& input) { return input.empty(); });
    if (root_) {
        return root_->complete(std::move(whole), has_all ? std::move(entry.inputs) : std::vector<CarriedBytes>());
    }
    if (has_all && contributors_.size() == 1) {
        whole.input = std::move(entry.inputs.front());
    }
    outbox_.announcements.push_back(std::move(whole));
    return {};
}

Status TreeNode::take(const DownMessage& message) {
    if (message.acknowledged < acknowledged_up_ || message.acknowledged > last_sent_up_) {
        return failure(ErrorCode::internal, "message {} was taken in, after {} of {}", message.acknowledged,
                       acknowledged_up_, last_sent_up_);
    }
    acknowledged_up_ = message.acknowledged;
    for (const Decision& decision : message.decisions) {
        RUEDA_RETURN_IF_FAILED(pass_on(decision));
    }
    return accept_offer();
}

/// Only on the root. If only the root's host has announced a tensor, and nothing else is pending, returns an offer to
/// the child. Between an offer and the child's next message, the root postpones all events of its own host. So when
/// this message arrives, the root is in the state in which it made the offer, and its decision is known in advance.
std::optional<Decision> TreeNode::next_offer(const Child& child) const {
    if (!root_ || options_.shape.hosts != 2 || offer_ || closing_ || pending_.size() != 1 || !pending_calls_.empty() ||
        child.sent != first_decision_ + decisions_.size() || !child.wanted.empty()) {
        return std::nullopt;
    }
    const Entry& entry = pending_.begin()->second;
    const bool is_plain = entry.who == std::vector{kOwn} && entry.asked.empty() && !entry.by_name &&
                          entry.claims.empty() && entry.rows.empty() && entry.joined.empty() && entry.uncounted.empty();
    if (!is_plain) {
        return std::nullopt;
    }
    Decision offer;
    offer.kind = DecisionKind::offered;
    offer.id = entry.id;
    offer.result = entry.inputs.empty() ? CarriedBytes() : entry.inputs[kOwn];
    offer.metadata = root_->offered(entry.id, offer.result);
    return offer.metadata ? std::optional(std::move(offer)) : std::nullopt;
}

/// Called on the root when the child has accepted the offer. The child has made the decision itself, and needs no
/// acknowledgement of its message.
void TreeNode::note_acceptance(Child& child) {
    draw_from_root();
    RUEDA_ASSERT(child.sent + 1 == first_decision_ + decisions_.size());
    ++child.sent;
    child.acknowledged = child.taken;
}

Status TreeNode::take_offer(Decision offer) {
    if (!may_get_offers() || offer_ || closing_) {
        return failure(ErrorCode::internal, "the id {} is offered to host {} of {}", offer.id, options_.host,
                       options_.shape.hosts);
    }
    offer_ = std::move(offer);
    return {};
}

/// The root withdraws its offer, because a rank of its host shuts down. If this node has sent a message since the
/// offer, that message is the answer. Otherwise this node must answer now: the root's host waits for the answer, and
/// the ranks of this host may announce nothing for a long time.
Status TreeNode::take_withdrawal(const WithdrawalMessage& message) {
    if (!may_get_offers() || message.taken > last_sent_up_) {
        return failure(ErrorCode::internal, "an offer after message {} of {} is withdrawn from host {} of {}",
                       message.taken, last_sent_up_, options_.host, options_.shape.hosts);
    }
    must_answer_ = must_answer_ || offer_;
    offer_.reset();
    return {};
}

/// If the message that answers the offer was sent and accepts the offer, makes the decision that the root will make.
Status TreeNode::accept_offer() {
    if (!offer_ || last_sent_up_ == acknowledged_up_) {
        return {};
    }
    const Decision offer = *std::exchange(offer_, std::nullopt);
    const std::optional<UpMessage> sent = std::exchange(sent_, std::nullopt);
    if (!sent || !accepts(*sent, offer)) {
        return {};
    }
    acknowledged_up_ = last_sent_up_;
    Decision decision;
    decision.ends_batch = true;
    decision.id = offer.id;
    decision.operation = offer.metadata->operation;
    decision.bytes = bytes_of(*offer.metadata);
    if (!offer.result.empty()) {
        const auto reduction = carried_reduction(*offer.metadata, ranks_on_[0] + ranks_on_[1]);
        if (!reduction) {
            return failure(ErrorCode::internal, "the id {} is offered with an input, and is not an allreduce",
                           offer.id);
        }
        decision.result = combine_carried(*reduction, {offer.result, sent->announcements.front().input});
    }
    return pass_on(std::move(decision));
}

Status TreeNode::pass_on(Decision decision) {
    if (decision.kind == DecisionKind::wanted) {
        return take_wanted(decision);
    }
    if (decision.kind == DecisionKind::offered) {
        return take_offer(std::move(decision));
    }
    RUEDA_RETURN_IF_FAILED(learn(decision));
    const bool is_whole = decision.kind != DecisionKind::call || decision.ends_batch;
    decisions_.push_back(std::move(decision));
    if (is_whole) {
        whole_ = first_decision_ + decisions_.size();
    }
    return {};
}

Status TreeNode::learn(const Decision& decision) {
    if (closed_ || (closing_ && decision.kind != DecisionKind::closed)) {
        return failure(ErrorCode::internal, "a decision of kind {} after the end", static_cast<int>(decision.kind));
    }
    if (decision.kind == DecisionKind::closing) {
        begin_closing();
        return {};
    }
    if (decision.kind == DecisionKind::closed) {
        closed_ = true;
        return closing_ ? Status() : failure(ErrorCode::internal, "the end without a shutdown");
    }
    if (decision.kind == DecisionKind::all_joined) {
        return end_joins();
    }
    if (decision.kind == DecisionKind::call && decision.id != 0 && !decision.name.empty()) {
        names_.emplace(decision.id, decision.name);
    }
    const auto key = key_of({decision.id, decision.name, decision.call});
    RUEDA_RETURN_IF_FAILED(key.status());
    if (!decision.name.empty() && key.value().name != decision.name) {
        return failure(ErrorCode::internal, "{} is called {}", text_of(key.value()), base::quote(decision.name));
    }
    if (decision.kind == DecisionKind::forget) {
        names_.erase(decision.id);
        return {};
    }
    const Entry* entry = find(key.value());
    if (entry == nullptr || entry->who.size() != contributors_.size()) {
        return failure(ErrorCode::internal, "{} is decided on, and host {} has not announced it", text_of(key.value()),
                       options_.host);
    }
    erase(key.value());
    return {};
}

/// Called when the root makes no further decision about pending tensors. So the node drops everything that is pending.
void TreeNode::begin_closing() {
    closing_ = true;
    pending_.clear();
    pending_calls_.clear();
    outbox_.releases.clear();
    outbox_.announcements.clear();
    outbox_.shutting_down.clear();
    outbox_.joined.clear();
    outbox_.settled_hosts = 0;
    wanted_.clear();
    for (Child& child : children_) {
        child.wanted.clear();
    }
}

void TreeNode::draw_from_root() {
    if (!root_) {
        return;
    }
    for (Decision& decision : root_->take_decisions()) {
        (void)note(pass_on(std::move(decision)));
    }
}

std::optional<Decision> TreeNode::next_decision() {
    draw_from_root();
    if (!failure_.is_ok()) {
        return std::nullopt;
    }
    if (auto wanted = next_wanted()) {
        return wanted;
    }
    if (handed_out_ == whole_) {
        return std::nullopt;
    }
    Decision decision = decisions_[handed_out_ - first_decision_];
    ++handed_out_;
    within_batch_ = decision.kind == DecisionKind::call && !decision.ends_batch;
    drop_what_everybody_has();
    return decision;
}

void TreeNode::drop_what_everybody_has() {
    std::uint64_t had_by_all = handed_out_;
    for (const Child& child : children_) {
        had_by_all = std::min(had_by_all, child.sent);
    }
    for (; first_decision_ < had_by_all; ++first_decision_) {
        decisions_.pop_front();
    }
}

std::optional<TreeMessage> TreeNode::next_message(std::uint32_t to_host) {
    draw_from_root();
    if (!failure_.is_ok()) {
        return std::nullopt;
    }
    if (const auto child = child_number(to_host)) {
        return message_down(children_[*child]);
    }
    return to_host == options_.shape.parent(options_.host) ? message_up() : std::nullopt;
}

std::optional<TreeMessage> TreeNode::message_up() {
    const bool is_empty = outbox_.releases.empty() && outbox_.joined.empty() && outbox_.announcements.empty() &&
                          outbox_.shutting_down.empty() && outbox_.settled_hosts == 0 && outbox_.closed_hosts == 0;
    if ((is_empty && !must_answer_) || acknowledged_up_ != last_sent_up_) {
        return std::nullopt;
    }
    must_answer_ = false;
    UpMessage message;
    message.number = ++last_sent_up_;
    std::size_t room = most_bytes_ - empty_message_bytes();
    // The parts of the message are added in a fixed order. A part is added only if all parts before it were added
    // completely. So an announcement is never sent before an earlier release or an earlier join, and a shutdown is
    // never sent before earlier announcements.
    const auto fits = [&room](std::size_t bytes) {
        const bool enough = bytes <= room;
        room = enough ? room - bytes : 0;
        return enough;
    };
    while (!outbox_.releases.empty() && fits(kReleaseBytes)) {
        const auto release = outbox_.releases.begin();
        message.releases.push_back({release->first, release->second});
        outbox_.releases.erase(release);
    }
    while (!outbox_.joined.empty() && fits(kJoinedBytes)) {
        message.joined.push_back(outbox_.joined.front());
        outbox_.joined.pop_front();
    }
    while (!outbox_.announcements.empty() && fits(encoded_bytes(outbox_.announcements.front()))) {
        message.announcements.push_back(std::move(outbox_.announcements.front()));
        outbox_.announcements.pop_front();
    }
    while (!outbox_.shutting_down.empty() && fits(kShuttingDownBytes)) {
        message.shutting_down.push_back(outbox_.shutting_down.front());
        outbox_.shutting_down.pop_front();
    }
    if (outbox_.announcements.empty() && outbox_.shutting_down.empty()) {
        message.settled_hosts = std::exchange(outbox_.settled_hosts, 0);
        message.closed_hosts = std::exchange(outbox_.closed_hosts, 0);
    }
    if (may_get_offers()) {
        sent_ = message.announcements.size() == 1 ? std::optional(message) : std::nullopt;
        (void)note(accept_offer());
    }
    return message;
}

std::optional<TreeMessage> TreeNode::message_down(Child& child) {
    if (std::exchange(must_withdraw_, false)) {
        return WithdrawalMessage{child.taken};
    }
    const std::uint64_t end = first_decision_ + decisions_.size();
    std::optional<Decision> offer = next_offer(child);
    if (child.sent == end && child.wanted.empty() && child.acknowledged == child.taken && !offer) {
        return std::nullopt;
    }
    DownMessage message;
    message.acknowledged = child.acknowledged = child.taken;
    if (offer) {
        offer_ = offer;
        message.decisions.push_back(std::move(*offer));
        return message;
    }
    std::size_t room = most_bytes_ - empty_message_bytes();
    for (;;) {
        const bool is_wanted = !child.wanted.empty() && child.wanted.front().position <= child.sent;
        if (!is_wanted && child.sent == end) {
            break;
        }
        const Decision& decision = is_wanted ? child.wanted.front().decision : decisions_[child.sent - first_decision_];
        const std::size_t bytes = encoded_bytes(decision);
        if (bytes > room) {
            break;
        }
        room -= bytes;
        message.decisions.push_back(decision);
        if (is_wanted) {
            child.wanted.pop_front();
        } else {
            ++child.sent;
        }
    }
    drop_what_everybody_has();
    return message;
}

std::vector<TreeNode::Pending> TreeNode::pending() const {
    std::map<std::uint64_t, Pending> in_order;
    const auto add = [&](const std::string& name, const Entry& entry) {
        // An entry without contributors is left out: this subtree was asked to announce the tensor, but nobody in it
        // has announced the tensor yet.
        if (!entry.who.empty()) {
            in_order.emplace(entry.order, pending_of(name, entry));
        }
    };
    for (const auto& [name, entry] : pending_) {
        add(name, entry);
    }
    for (const auto& [call, entry] : pending_calls_) {
        add("", entry);
    }
    std::vector<Pending> all;
    for (auto& [order, pending] : in_order) {
        all.push_back(std::move(pending));
    }
    return all;
}

TreeNode::Pending TreeNode::pending_of(const std::string& name, const Entry& entry) const {
    Pending pending;
    pending.name = name;
    for (std::uint32_t contributor = 0; contributor < contributors_.size(); ++contributor) {
        if (std::find(entry.who.begin(), entry.who.end(), contributor) == entry.who.end()) {
            const std::vector<std::uint32_t>& hosts = contributors_[contributor].hosts;
            pending.missing_hosts.insert(pending.missing_hosts.end(), hosts.begin(), hosts.end());
        }
    }
    std::sort(pending.missing_hosts.begin(), pending.missing_hosts.end());
    return pending;
}

}  // namespace rueda::core
