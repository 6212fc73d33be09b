// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/connection/reachability.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/network/endpoint_list.hpp"
#include "base/network/socket_address.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

ReachListener::ReachListener(ControlListener listener, std::string secret, Acceptor::Say say)
    : endpoints_(std::move(listener.address.endpoints)),
      visitors_(std::make_unique<Visitors>(Visitors{std::move(secret), {}})),
      acceptor_(
          std::move(listener.sockets),
          [visitors = visitors_.get()](base::UniqueFd socket) { visitors->accept(std::move(socket)); },
          std::move(say)) {}

void ReachListener::Visitors::accept(base::UniqueFd socket) {
    const Result<base::Nonce> nonce = base::random_nonce();
    if (!nonce.is_ok()) {
        return;
    }
    if (sockets.size() >= kMost) {
        // Closes the oldest open connection. Its element stays in `sockets` until the next add_to(), because a callback
        // that is running now may refer to this element.
        const auto oldest =
            std::find_if(sockets.begin(), sockets.end(), [](const auto& visitor) { return visitor.is_open(); });
        if (oldest != sockets.end()) {
            oldest->close();
        }
    }
    sockets.emplace_back(std::move(socket), base::HandshakeSide::accepting, secret, kReachPurpose, nonce.value());
}

void ReachListener::add_to(base::PollSet& set) {
    if (!visitors_) {
        return;
    }
    acceptor_.add_to(set);
    std::erase_if(visitors_->sockets, [](const auto& visitor) { return !visitor.is_open(); });
    for (base::ProvingSocket& visitor : visitors_->sockets) {
        set.add(visitor.fd(), POLLIN, [&visitor] {
            // The connection is closed after a failure. It is also closed after the proof, because the other side then
            // sends nothing more, and closes its end, too.
            if (!visitor.is_open() || !visitor.advance().is_ok() || visitor.is_proven()) {
                visitor.close();
            }
        });
    }
}

ReachProbe::ReachProbe(std::vector<std::string> endpoints, const std::string& secret, const Times& times)
    : times_(times),
      race_(endpoints, secret, std::string(kReachPurpose), {.connect = times.longest, .proof = times.longest}),
      deadline_(std::chrono::steady_clock::now() + times.longest) {}

void ReachProbe::add_to(base::PollSet& set) {
    race_.add_to(set);
    set.wake_at(deadline_);
}

std::optional<std::vector<std::string>> ReachProbe::advance(base::PollSet::TimePoint now) {
    race_.check_deadlines(now);
    std::vector<std::string> reached = race_.proven();
    if (!reached.empty() && !std::exchange(has_first_, true)) {
        deadline_ = std::min(deadline_, now + times_.after_first);
    }
    return race_.has_undecided() && now < deadline_ ? std::nullopt : std::optional(std::move(reached));
}

std::string encode_endpoints(const std::vector<std::string>& endpoints) {
    return fmt::format("{}", fmt::join(endpoints, ","));
}

std::vector<std::string> parse_endpoints(std::string_view text) {
    std::vector<std::string> endpoints;
    while (!text.empty() && endpoints.size() < base::kMostEndpoints) {
        std::string endpoint(take_until(text, ','));
        if (!endpoint.starts_with('@') && base::parse_endpoint(endpoint)) {
            endpoints.push_back(std::move(endpoint));
        }
    }
    return endpoints;
}

}  // namespace rueda::launcher
