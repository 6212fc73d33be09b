// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/ucx/ucx_rendezvous.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"
#include "collectives/ucx/ucx_card.hpp"

namespace rueda::collectives {
namespace {

std::span<const std::byte> text_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

UcxCard own_ucx_card(const Result<std::unique_ptr<BulkTransport>>& made) {
    if (!made.is_ok()) {
        const std::string& text = made.status().message();
        return {text.empty() ? "no reason given" : text, {}, {}};
    }
    return {{}, made.value()->description(), made.value()->address()};
}

/// Parses the cards of all ranks (UcxCard) and stores their addresses in `addresses`. Returns the reason why the ranks
/// cannot use UCX; "" if they can. All ranks read the same cards, so all get the same text.
std::string read_ucx_cards(const std::vector<Bytes>& cards, std::vector<Bytes>& addresses) {
    std::string of_rank_0;
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
        Result<UcxCard> card = parse_ucx_card(cards[rank]);
        if (!card.is_ok()) {
            return fmt::format("rank {}: {}", rank, card.status().message());
        }
        if (!card.value().cannot.empty()) {
            return fmt::format("rank {}: {}", rank, card.value().cannot);
        }
        of_rank_0 = rank == 0 ? card.value().description : of_rank_0;
        if (card.value().description != of_rank_0) {
            return fmt::format("rank {} has {}, and rank 0 has {}: install the same version of UCX on all hosts", rank,
                               card.value().description, of_rank_0);
        }
        addresses.push_back(std::move(card.value().address));
    }
    return {};
}

/// Collects from each rank the reason why its connection failed, or "". Returns the reason of the lowest rank that has
/// one. Returns "" if no rank has one.
Result<std::string> first_reason(const Allgather& allgather, const std::string& mine) {
    const Result<std::vector<Bytes>> all = allgather(text_bytes(mine));
    RUEDA_RETURN_IF_FAILED(all.status());
    for (std::size_t rank = 0; rank < all.value().size(); ++rank) {
        const Bytes& reason = all.value()[rank];
        if (!reason.empty()) {
            const std::string text(reinterpret_cast<const char*>(reason.data()), reason.size());
            return fmt::format("rank {}: {}", rank, base::printable(text, kMostUcxReason));
        }
    }
    return std::string();
}

}  // namespace

Result<UcxRendezvous> rendezvous_over_ucx(const Allgather& allgather, const UcxRendezvousOptions& options) {
    Result<std::unique_ptr<BulkTransport>> made = options.create(options.rank, options.size);
    const Result<std::vector<Bytes>> cards = allgather(encode(own_ucx_card(made)));
    RUEDA_RETURN_IF_FAILED(cards.status());
    UcxRendezvous rendezvous;
    std::vector<Bytes> addresses;
    rendezvous.why_not = read_ucx_cards(cards.value(), addresses);
    if (!rendezvous.why_not.empty()) {
        return rendezvous;
    }
    std::unique_ptr<BulkTransport> transport = std::move(made).value();
    Status status = transport->connect(std::move(addresses));
    if (status.is_ok()) {
        status = transport->barrier({options.time, options.meanwhile});
    }
    Result<std::string> reason = first_reason(allgather, status.is_ok() ? "" : status.message());
    RUEDA_RETURN_IF_FAILED(reason.status());
    rendezvous.why_not = std::move(reason).value();
    if (rendezvous.why_not.empty()) {
        rendezvous.transport = std::move(transport);
    }
    return rendezvous;
}

}  // namespace rueda::collectives
