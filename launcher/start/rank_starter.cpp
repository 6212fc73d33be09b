// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/rank_starter.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace rueda::launcher {

void RankStarter::release(TimePoint now, Patience patience) {
    released_ = true;
    deadline_ = now + patience.before_sigterm;
    before_sigkill_ = patience.before_sigkill;
}

void RankStarter::advance(TimePoint now) {
    if (released_ && !is_gone() && now >= deadline_) {
        signal(std::exchange(next_signal_, SIGKILL));
        deadline_ = now + before_sigkill_;
    }
}

void RankStarter::add_errors(base::UniqueFd& errors, base::PollSet& set) {
    if (errors.is_open()) {
        set.add(errors.value(), POLLIN, [this, &errors] { read_errors(errors); });
    }
}

void RankStarter::add_deadline(base::PollSet& set) const {
    if (released_ && !is_gone()) {
        set.wake_at(deadline_);
    }
}

void RankStarter::read_last_errors(base::UniqueFd& errors) {
    while (errors.is_open() && read_errors(errors)) {
    }
}

bool RankStarter::read_errors(base::UniqueFd& errors) {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(errors.value(), buffer.data(), buffer.size());
    if (got > 0) {
        on_error_text({buffer.data(), static_cast<std::size_t>(got)});
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        errors.reset();
    }
    return got > 0;
}

}  // namespace rueda::launcher
