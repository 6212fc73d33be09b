// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/tree_root.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/impossible.hpp"
#include "core/negotiation/log.hpp"

namespace rueda::core {
namespace {

std::vector<RankRange> joined_in(const Announcement& announcement) {
    std::vector<RankRange> joined = announcement.joined;
    joined.insert(joined.end(), announcement.uncounted.begin(), announcement.uncounted.end());
    return united(std::move(joined));
}

/// Returns the number of an operation without a name for use in texts, counted from 1; 0 if the operation has a name.
std::uint64_t number_of_call(const TensorKey& key) { return key.call ? *key.call + 1 : 0; }

}  // namespace

Status TreeRoot::complete(Announcement announcement, std::vector<CarriedBytes> inputs) {
    if (closing_) {
        return {};
    }
    const std::uint64_t id = id_of(announcement.key);
    const auto held = names_.find(id);
    if (id != 0 && held == names_.end()) {
        return failure(ErrorCode::internal, "a tensor was announced with the id {}, which no name has", id);
    }
    const Name* known = id != 0 ? &held->second : nullptr;
    const std::optional<Metadata> last_called = known != nullptr ? known->last_called : std::nullopt;
    const std::vector<RankRange> joined = joined_in(announcement);
    if (announcement.claims.empty()) {
        const auto everybody = RankRange{0, static_cast<std::int32_t>(options_.ranks) - 1};
        announcement.claims.push_back({std::nullopt, without({&everybody, 1}, joined)});
        if (announcement.claims.front().ranks.empty()) {
            return failure(ErrorCode::internal, "tensor {} was announced only by ranks that have joined",
                           base::quote(known != nullptr ? known->name : announcement.key.name));
        }
    }
    const auto agreement =
        agreement_of(known != nullptr ? known->name : announcement.key.name, announcement.claims, last_called,
                     options_.ranks, options_.job_ranks, joined, number_of_call(announcement.key));
    if (agreement.is_ok()) {
        if (const Status refusal = impossible(announcement, agreement.value(), known); !refusal.is_ok()) {
            refuse(std::move(announcement), DecisionKind::impossible, refusal, id);
            return {};
        }
        if (const Status lacking = lacks(announcement, agreement.value(), known); !lacking.is_ok()) {
            refuse(std::move(announcement), DecisionKind::lacks_joined, lacking, id);
            return {};
        }
        return call(std::move(announcement), agreement.value(), id, std::move(inputs));
    }
    if (agreement.status().code() != ErrorCode::mismatch) {
        return agreement.status();
    }
    std::vector<std::int64_t> groups = sizes_of_groups(announcement, last_called);
    refuse(std::move(announcement), DecisionKind::disagreed, agreement.status(), id, std::move(groups));
    return {};
}

Status TreeRoot::impossible(const Announcement& announcement, const Metadata& metadata, const Name* known) const {
    if (is_possible(metadata)) {
        return {};
    }
    std::vector<std::int32_t> ranks = options_.job_ranks;
    if (ranks.empty()) {
        ranks.resize(options_.ranks);
        std::iota(ranks.begin(), ranks.end(), 0);
    }
    return refusal_of(known != nullptr ? known->name : announcement.key.name, number_of_call(announcement.key),
                      metadata, ranks);
}

Status TreeRoot::lacks(const Announcement& announcement, const Metadata& metadata, const Name* known) const {
    const auto operation = static_cast<collectives::Operation>(metadata.operation);
    std::vector<std::int32_t> joined = ranks_of(joined_in(announcement));
    if (joined.empty() || goes_on_without_joined(operation)) {
        return {};
    }
    for (std::int32_t& rank : joined) {
        rank = rank_in_job(rank, options_.job_ranks);
    }
    return lacks_joined(known != nullptr ? known->name : announcement.key.name, operation, joined,
                        number_of_call(announcement.key));
}

std::uint64_t TreeRoot::id_of(const TensorKey& key) const {
    if (key.id != 0 || key.call) {
        return key.id;
    }
    const auto known = ids_.find(key.name);
    return known != ids_.end() ? known->second : 0;
}

/// Whether the next call would be decided at once. Otherwise it may share a batch with other calls, and uses no carried
/// inputs: a call with a result is a batch of its own, so it would split the batch into smaller ones.
bool TreeRoot::is_called_at_once() const { return batch_.empty() && batches_ < executed_ + options_.batches_ahead; }

std::optional<Metadata> TreeRoot::offered(std::uint64_t id, const CarriedBytes& input) const {
    const auto name = names_.find(id);
    if (closing_ || !decided_.empty() || !batch_.empty() || batches_ != executed_ || name == names_.end() ||
        !name->second.last_called) {
        return std::nullopt;
    }
    const Metadata& metadata = *name->second.last_called;
    const bool fits = input.empty() ||
                      (input.size() == bytes_of(metadata) && carried_reduction(metadata, options_.ranks).has_value());
    return fits ? std::optional(metadata) : std::nullopt;
}

/// Combines the inputs that the announcements of all hosts carried. The result is empty if there are no such inputs, or
/// if the data of such an operation moves in messages of its own.
Result<CarriedBytes> TreeRoot::result_of(const Metadata& metadata, std::vector<CarriedBytes> inputs) const {
    const auto reduction = inputs.empty() ? std::nullopt : carried_reduction(metadata, options_.ranks);
    if (!reduction) {
        return CarriedBytes();
    }
    for (const CarriedBytes& input : inputs) {
        if (inputs.size() != options_.ranks_of_host.size() || input.size() != bytes_of(metadata)) {
            return failure(ErrorCode::internal, "a tensor of {} bytes was announced with {} inputs, one of {} bytes",
                           bytes_of(metadata), inputs.size(), input.size());
        }
    }
    return combine_carried(*reduction, std::move(inputs));
}

Status TreeRoot::call(Announcement announcement, const Metadata& metadata, std::uint64_t id,
                      std::vector<CarriedBytes> inputs) {
    Decision decision;
    decision.kind = DecisionKind::call;
    decision.operation = metadata.operation;
    decision.bytes = bytes_of(metadata);
    if (has_variable_rows(static_cast<collectives::Operation>(metadata.operation))) {
        auto rows = rows_by_rank(announcement);
        RUEDA_RETURN_IF_FAILED(rows.status());
        decision.rows = std::move(rows).value();
    }
    decision.call = announcement.key.call;
    decision.name = std::move(announcement.key.name);
    decision.uncounted = static_cast<std::uint32_t>(count_of(announcement.uncounted));
    bool anything_new = decision.call || !decision.name.empty();
    if (!decision.call) {
        decision.id = id != 0 ? id : new_id(decision.name);
        Name& name = names_.at(decision.id);
        anything_new = anything_new || !name.last_called || !agree(*name.last_called, metadata);
        name.last_called = metadata;
        name.released_hosts = 0;
    }
    if (anything_new && (!announcement.joined.empty() || !announcement.uncounted.empty())) {
        decision.metadata = metadata;
    }
    if (!is_called_at_once()) {
        inputs.clear();
    }
    Result<CarriedBytes> result = result_of(metadata, std::move(inputs));
    RUEDA_RETURN_IF_FAILED(result.status());
    decision.result = std::move(result).value();
    const bool has_result = !decision.result.empty();
    join_batch(std::move(decision), has_result ? Fusion::alone : fusion_of(metadata));
    return {};
}

/// Returns the sizes of the groups that ranks announced under this name; each size occurs once.
std::vector<std::int64_t> TreeRoot::sizes_of_groups(const Announcement& announcement,
                                                    const std::optional<Metadata>& last_called) const {
    std::vector<RankRange> of_groups;
    for (const Claim& claim : announcement.claims) {
        const Metadata& meaning = claim.metadata ? *claim.metadata : *last_called;
        if (is_size_of_group(meaning)) {
            of_groups.insert(of_groups.end(), claim.ranks.begin(), claim.ranks.end());
        }
    }
    of_groups = united(std::move(of_groups));
    std::set<std::int64_t> sizes;
    for (const HostRows& host : announcement.rows) {
        const std::vector<std::int32_t>& ranks = options_.ranks_of_host[host.host];
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            if (host.rows[i] > 0 && contains(of_groups, ranks[i])) {
                sizes.insert(host.rows[i]);
            }
        }
    }
    return {sizes.begin(), sizes.end()};
}

void TreeRoot::refuse(Announcement announcement, DecisionKind kind, const Status& reason, std::uint64_t id,
                      std::vector<std::int64_t> groups) {
    Decision decision;
    decision.rows = std::move(groups);
    decision.kind = kind;
    decision.code = kind == DecisionKind::impossible ? reason.code() : ErrorCode::ok;
    decision.id = id;
    decision.call = announcement.key.call;
    decision.name = std::move(announcement.key.name);
    decision.text = shortened(reason.message());
    decide(std::move(decision));
    if (id != 0) {
        forget_if_nobody_holds(id);
    }
}

Result<std::vector<std::int64_t>> TreeRoot::rows_by_rank(const Announcement& announcement) const {
    constexpr std::int64_t kMissing = -2;
    static_assert(kMissing != kJoinedRows);
    std::vector<std::int64_t> by_rank(options_.ranks, kMissing);
    for (const HostRows& host : announcement.rows) {
        const std::vector<std::int32_t>& ranks = options_.ranks_of_host[host.host];
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            by_rank[static_cast<std::size_t>(ranks[i])] = host.rows[i];
        }
    }
    for (const std::int32_t rank : ranks_of(joined_in(announcement))) {
        by_rank[static_cast<std::size_t>(rank)] = kJoinedRows;
    }
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        if (by_rank[rank] == kMissing) {
            return failure(ErrorCode::internal,
                           "an operation of variable size was announced without the first dimension of rank {}", rank);
        }
    }
    return by_rank;
}

std::uint64_t TreeRoot::new_id(const std::string& name) {
    const std::uint64_t id = ++last_id_;
    names_[id].name = name;
    ids_[name] = id;
    return id;
}

Status TreeRoot::release(const Release& release, bool pending) {
    const auto known = names_.find(release.id);
    if (closing_) {
        return {};
    }
    if (known == names_.end()) {
        return failure(ErrorCode::internal, "{} hosts released the id {}, which no name has", release.hosts,
                       release.id);
    }
    const std::size_t hosts = options_.ranks_of_host.size();
    if (known->second.released_hosts + std::uint64_t{release.hosts} > hosts) {
        return failure(ErrorCode::internal, "{} hosts more released tensor {}, after {} of {}", release.hosts,
                       base::quote(known->second.name), known->second.released_hosts, hosts);
    }
    known->second.released_hosts += release.hosts;
    if (!pending) {
        forget_if_nobody_holds(release.id);
    }
    return {};
}

void TreeRoot::forget_if_nobody_holds(std::uint64_t id) {
    const auto known = names_.find(id);
    if (known->second.released_hosts < options_.ranks_of_host.size()) {
        return;
    }
    ids_.erase(known->second.name);
    names_.erase(known);
    Decision decision;
    decision.kind = DecisionKind::forget;
    decision.id = id;
    decide(std::move(decision));
}

void TreeRoot::shut_down(std::int32_t rank) {
    if (closing_) {
        return;
    }
    closing_ = true;
    batch_.clear();
    Decision decision;
    decision.kind = DecisionKind::closing;
    decision.rank = rank;
    decide(std::move(decision));
}

Status TreeRoot::close(std::uint32_t hosts) {
    closed_hosts_ += hosts;
    if (!closing_ || closed_hosts_ > options_.ranks_of_host.size()) {
        return failure(ErrorCode::internal, "{} of {} hosts say that all their ranks have shut down{}", closed_hosts_,
                       options_.ranks_of_host.size(), closing_ ? "" : ", and no rank has");
    }
    if (closed_hosts_ == options_.ranks_of_host.size()) {
        Decision decision;
        decision.kind = DecisionKind::closed;
        decide(std::move(decision));
    }
    return {};
}

/// Counts `hosts` more hosts that have settled: they have no pending operation, and announce nothing more. When all
/// hosts have settled, nothing is pending, and the join ends.
Status TreeRoot::settle(std::uint32_t hosts) {
    settled_hosts_ += hosts;
    if (settled_hosts_ > options_.ranks_of_host.size()) {
        return failure(ErrorCode::internal, "{} of {} hosts have settled", settled_hosts_,
                       options_.ranks_of_host.size());
    }
    if (settled_hosts_ == options_.ranks_of_host.size()) {
        settled_hosts_ = 0;
        Decision decision;
        decision.kind = DecisionKind::all_joined;
        decision.rank = last_joined_;
        decide(std::move(decision));
    }
    return {};
}

// Uses the same limits of a batch as the negotiation on one host (core/negotiation/batch_end.hpp).
void TreeRoot::join_batch(Decision call, Fusion fusion) {
    if (fusion != batch_fusion_ || batch_bytes_ + call.bytes > options_.fusion_threshold_bytes) {
        end_batch();
    }
    batch_fusion_ = fusion;
    batch_bytes_ += call.bytes;
    batch_.push_back(std::move(call));
    if (fusion == Fusion::alone || batch_bytes_ >= options_.fusion_threshold_bytes || batch_.size() == kBatchEntries) {
        end_batch();
    }
}

void TreeRoot::end_batch() {
    batch_bytes_ = 0;
    if (batch_.empty()) {
        return;
    }
    batch_.back().ends_batch = true;
    ++batches_;
    decided_.insert(decided_.end(), std::make_move_iterator(batch_.begin()), std::make_move_iterator(batch_.end()));
    batch_.clear();
}

void TreeRoot::decide(Decision decision) {
    end_batch();
    decided_.push_back(std::move(decision));
}

std::vector<Decision> TreeRoot::take_decisions() {
    if (batches_ < executed_ + options_.batches_ahead) {
        end_batch();
    }
    return std::exchange(decided_, {});
}

}  // namespace rueda::core
