// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/show/live_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/system/clock.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/top/hosts/host_stream.hpp"
#include "launcher/top/merge_hosts.hpp"
#include "launcher/top/show/screen_session.hpp"

namespace rueda::launcher {

namespace {

using Clock = std::chrono::steady_clock;

/// The views of the hosts arrive at different moments. All views that arrive within this time are drawn together.
constexpr std::chrono::milliseconds kShortestDraw{100};
/// The screen shows ages in seconds, so it is drawn at least once in this time.
constexpr std::chrono::seconds kLongestDraw{1};

/// The screen of `rueda top --hosts`. Threads: one.
class LiveHosts {
public:
    explicit LiveHosts(std::chrono::nanoseconds interval) : interval_(interval) {}

    int run(const HostsQuestion& question) {
        const Result<HostCommands> commands = commands_for(question);
        Status status = commands.status();
        if (status.is_ok()) {
            // if an mpirun has to be killed, its child ssh becomes an orphan; this process adopts such orphans, so that
            // it can end them
            adopt_orphans();
            status = session_.open();
        }
        if (status.is_ok()) {
            status = start(question, commands.value());
            if (status.is_ok()) {
                watch();
            }
            session_.leave();
            end();
        }
        return finish(status);
    }

private:
    Status start(const HostsQuestion& question, const HostCommands& commands) {
        for (std::size_t i = 0; i < question.hosts.size(); ++i) {
            pictures_.push_back({question.hosts[i], std::nullopt, base::monotonic_ns(), false, ""});
            streams_.push_back(std::make_unique<HostStream>(question.hosts[i]));
            RUEDA_RETURN_IF_FAILED(
                streams_.back()->start(commands.words[i], commands.environment, session_.original_mask()));
        }
        return {};
    }

    void watch() {
        const auto is_over = [](const HostPicture& picture) { return picture.is_over; };
        session_.draw();
        Clock::time_point drawn = Clock::now();
        bool has_news = false;
        while (session_.goes_on() && !std::all_of(pictures_.begin(), pictures_.end(), is_over)) {
            base::PollSet set;
            session_.add_to(set);
            for (const std::unique_ptr<HostStream>& stream : streams_) {
                stream->add_to(set);
            }
            set.wake_at(drawn + (has_news ? Clock::duration(kShortestDraw) : Clock::duration(kLongestDraw)));
            // this wait ends when a key, a signal or a line of a host arrives, or when the time is over
            set.wait_and_dispatch();
            has_news = take_pictures() || has_news;
            const Clock::duration since = Clock::now() - drawn;
            if (since >= kLongestDraw || (has_news && since >= kShortestDraw)) {
                session_.draw();
                drawn = Clock::now();
                has_news = false;
            }
        }
    }

    /// Returns whether there is something new to show.
    bool take_pictures() {
        bool has_news = false;
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            HostPicture& picture = pictures_[i];
            if (const std::optional<std::string> line = streams_[i]->take_line()) {
                read_line(*line, picture);
                has_news = true;
            }
            if (streams_[i]->is_over() && !picture.is_over) {
                picture.is_over = true;
                picture.problem = streams_[i]->problem();
                has_news = true;
            }
        }
        return has_news;
    }

    static void read_line(const std::string& line, HostPicture& picture) {
        Result<TopView> view = view_from_json(line);
        picture.problem = view.status().message();
        if (view.is_ok()) {
            picture.view = std::move(view).value();
            picture.arrived_ns = base::monotonic_ns();
        }
    }

    void end() noexcept {
        for (const std::unique_ptr<HostStream>& stream : streams_) {
            stream->end();
        }
        end_leftover_children();
    }

    int finish(const Status& status) {
        if (!status.is_ok()) {
            fmt::print(stderr, "rueda: {}\n", status.message());
            return 1;
        }
        if (!session_.goes_on()) {
            return session_.exit_status();
        }
        const bool had_one = std::any_of(pictures_.begin(), pictures_.end(),
                                         [](const HostPicture& picture) { return picture.view.has_value(); });
        for (const HostPicture& picture : pictures_) {
            fmt::print(had_one ? stdout : stderr, "{}{}\n", had_one ? "" : "rueda: ", describe_end(picture));
        }
        return had_one ? 0 : 1;
    }

    [[nodiscard]] Screen screen(std::size_t columns) const {
        return screen_of(merge_pictures(pictures_, base::monotonic_ns(), interval_.count()), columns);
    }

    std::chrono::nanoseconds interval_;
    std::vector<std::unique_ptr<HostStream>> streams_;
    std::vector<HostPicture> pictures_;  ///< what the screen knows about each host, in the order of the streams
    ScreenSession session_{[this](std::size_t columns) { return std::optional(screen(columns)); }};
};

}  // namespace

int show_live_hosts(const HostsQuestion& question, std::chrono::nanoseconds interval) {
    return LiveHosts(interval).run(question);
}

}  // namespace rueda::launcher
