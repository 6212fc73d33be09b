// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/matching.hpp"

#include <algorithm>
#include <utility>

namespace rueda::core {

MessageOperation* Matching::receive_for(int sender, std::int32_t tag, std::int32_t set) {
    const auto found = boxes_.find(key_of(tag, set));
    if (found == boxes_.end()) {
        return nullptr;
    }
    std::list<MessageOperation*>& receives = found->second.receives;
    const auto receive = std::find_if(receives.begin(), receives.end(), [sender](const MessageOperation* posted) {
        return posted->request.is_from_anybody() || posted->request.peer == sender;
    });
    if (receive == receives.end()) {
        return nullptr;
    }
    MessageOperation* const taken = *receive;
    receives.erase(receive);
    drop_if_empty(found->first);
    return taken;
}

void Matching::keep(MessageArrival arrival) {
    untold_ += arrival.is_whole && !arrival.sender_goes_on ? 1 : 0;
    boxes_[key_of(arrival.tag, arrival.set)].arrivals.push_back(std::move(arrival));
}

std::optional<MessageArrival> Matching::arrival_for(const MessageRequest& request) {
    const auto found = boxes_.find(key_of(request.tag, request.set->id));
    if (found == boxes_.end()) {
        return std::nullopt;
    }
    std::list<MessageArrival>& arrivals = found->second.arrivals;
    const auto arrival = std::find_if(arrivals.begin(), arrivals.end(), [&request](const MessageArrival& kept) {
        return request.is_from_anybody() || kept.sender == request.peer;
    });
    if (arrival == arrivals.end()) {
        return std::nullopt;
    }
    forget(*arrival);
    std::optional<MessageArrival> taken = std::move(*arrival);
    arrivals.erase(arrival);
    drop_if_empty(found->first);
    return taken;
}

void Matching::post(MessageOperation& receive) {
    boxes_[key_of(receive.request.tag, receive.request.set->id)].receives.push_back(&receive);
}

std::vector<Matching::Untold> Matching::take_untold() {
    std::vector<Untold> untold;
    untold.reserve(untold_);
    for (auto& [key, box] : boxes_) {
        for (MessageArrival& arrival : box.arrivals) {
            if (arrival.is_whole && !arrival.sender_goes_on) {
                untold.push_back({arrival.sender, arrival.id});
                arrival.sender_goes_on = true;
            }
        }
    }
    untold_ = 0;
    return untold;
}

std::vector<MessageOperation*> Matching::take_receives(const std::function<bool(const MessageRequest&)>& which) {
    std::vector<MessageOperation*> taken;
    for (auto& [key, box] : boxes_) {
        box.receives.remove_if([&](MessageOperation* posted) {
            if (!which(posted->request)) {
                return false;
            }
            taken.push_back(posted);
            return true;
        });
    }
    std::erase_if(boxes_, [](const auto& box) { return box.second.receives.empty() && box.second.arrivals.empty(); });
    return taken;
}

void Matching::drop_arrivals(const std::function<bool(const MessageArrival&)>& which) {
    for (auto& [key, box] : boxes_) {
        box.arrivals.remove_if([&](const MessageArrival& arrival) {
            const bool drop = which(arrival);
            if (drop) {
                forget(arrival);
            }
            return drop;
        });
    }
    std::erase_if(boxes_, [](const auto& box) { return box.second.receives.empty() && box.second.arrivals.empty(); });
}

void Matching::drop_if_empty(std::uint64_t key) {
    const auto box = boxes_.find(key);
    if (box->second.receives.empty() && box->second.arrivals.empty()) {
        boxes_.erase(box);
    }
}

}  // namespace rueda::core
