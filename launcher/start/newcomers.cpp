// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/newcomers.hpp"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "launcher/connection/control_address.hpp"

namespace rueda::launcher {

namespace {

/// The maximum size of a hello frame in bytes. A frame with the names of 56 parts of GPUs (8 GPUs with 7 parts each)
/// has about 2600 bytes.
constexpr std::size_t kLongestHello = 8192;

}  // namespace

void raise_descriptor_limit(int ranks) {
    const rlim_t needed = static_cast<rlim_t>(ranks) * 4 + NewcomerLimits().most;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed) {
        limit.rlim_cur = std::min(needed, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

Newcomers::Newcomers(std::string secret, OnHello on_hello, const NewcomerLimits& limits)
    : secret_(std::move(secret)), on_hello_(std::move(on_hello)), limits_(limits) {}

void Newcomers::accept(base::UniqueFd socket) {
    const Result<base::Nonce> nonce = base::random_nonce();
    if (nonce.is_ok() && base::may_be_of_this_job(socket.value()) && make_room()) {
        newcomers_.push_back(
            std::make_unique<Newcomer>(Newcomer{base::ProvingSocket(std::move(socket), base::HandshakeSide::accepting,
                                                                    secret_, kHandshakePurpose, nonce.value()),
                                                FrameLink(), std::chrono::steady_clock::now() + limits_.time}));
    }
}

bool Newcomers::make_room() {
    if (count() < limits_.most) {
        return true;
    }
    const auto oldest = std::find_if(newcomers_.begin(), newcomers_.end(),
                                     [](const auto& newcomer) { return newcomer->proving.is_open(); });
    if (oldest == newcomers_.end()) {
        return false;  // there is no newcomer to close: all newcomers have proved that they know the secret
    }
    (*oldest)->close();  // add_to() removes the newcomer later, because a callback that runs now may refer to it
    return true;
}

void Newcomers::add_to(base::PollSet& set) {
    std::erase_if(newcomers_, [](const auto& newcomer) { return !newcomer->is_open(); });
    for (const auto& newcomer : newcomers_) {
        set.add(newcomer->fd(), POLLIN, [this, one = newcomer.get()] { advance(*one); });
        set.wake_at(newcomer->deadline);
    }
}

void Newcomers::advance(Newcomer& newcomer) {
    if (newcomer.proving.is_open()) {
        if (!newcomer.proving.advance().is_ok() || !newcomer.proving.is_proven()) {
            return;
        }
        newcomer.link = FrameLink(newcomer.proving.take());
    }
    const std::vector<Frame> frames = newcomer.link.receive(kLongestHello);
    if (frames.empty()) {
        return;
    }
    if (frames.size() != 1 || frames.front().kind != FrameKind::hello) {
        newcomer.close();
        return;
    }
    on_hello_(std::exchange(newcomer.link, FrameLink()), frames.front());
}

void Newcomers::expire(base::PollSet::TimePoint now) {
    for (const auto& newcomer : newcomers_) {
        if (now >= newcomer->deadline) {
            newcomer->close();
        }
    }
}

std::size_t Newcomers::count() const {
    return static_cast<std::size_t>(
        std::count_if(newcomers_.begin(), newcomers_.end(), [](const auto& newcomer) { return newcomer->is_open(); }));
}

}  // namespace rueda::launcher
