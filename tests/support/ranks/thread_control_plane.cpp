// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks/thread_control_plane.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "tests/support/ranks/thread_transport.hpp"

namespace rueda::collectives {
namespace {

enum class Kind : std::uint8_t { allgather, broadcast, barrier };

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::allgather:
            return "allgather";
        case Kind::broadcast:
            return "broadcast";
        case Kind::barrier:
            return "barrier";
    }
    return "unknown operation";
}

/// The hub at which the ranks exchange bytes in rounds. A round ends when all ranks have passed their bytes. The result
/// of a round stays valid until the next round ends. Each rank fetches a result before it passes bytes to the next
/// round, so no result is lost. Threads: all, under the mutex.
class Hub {
public:
    Hub(int size, std::chrono::milliseconds timeout)
        : size_(size), timeout_(timeout), mine_(count()), arrived_(count(), false), left_(count(), false) {}

    Result<std::shared_ptr<const std::vector<Bytes>>> exchange(int rank, Kind kind, int root, Bytes mine) {
        std::unique_lock lock(mutex_);
        if (const auto gone = std::find(left_.begin(), left_.end(), true); gone != left_.end()) {
            fail(failure(ErrorCode::aborted, "{}: rank {} has left the job", name_of(kind), gone - left_.begin()));
        }
        compare(rank, kind, root);
        if (!failed_.is_ok()) {
            return failed_;
        }
        const std::uint64_t round = round_;
        mine_[static_cast<std::size_t>(rank)] = std::move(mine);
        arrived_[static_cast<std::size_t>(rank)] = true;
        if (++arrivals_ == size_) {
            finish_round();
        } else if (!changed_.wait_for(lock, timeout_, [&] { return round_ != round || !failed_.is_ok(); })) {
            fail(failure(ErrorCode::timeout, "{}: rank{} did not come within {} s", name_of(kind), missing(),
                         std::chrono::duration<double>(timeout_).count()));
        }
        // If `round_` has changed, the round is complete. Its result is then valid even if a rank has left or failed
        // since.
        if (round_ == round) {
            return failed_;
        }
        return result_;
    }

    void leave(int rank, bool after_failure) {
        const std::lock_guard lock(mutex_);
        left_[static_cast<std::size_t>(rank)] = true;
        if (arrivals_ > 0 || after_failure) {
            fail(failure(ErrorCode::aborted, "rank {} has left the job{}", rank,
                         after_failure ? " after a failure" : ""));
        }
    }

    void abort(const std::string& reason) {
        const std::lock_guard lock(mutex_);
        fail(Status(ErrorCode::aborted, reason));
    }

private:
    [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }

    void compare(int rank, Kind kind, int root) {
        if (arrivals_ == 0) {
            first_rank_ = rank;
            kind_ = kind;
            root_ = root;
        } else if (kind != kind_ || root != root_) {
            fail(failure(ErrorCode::internal, "rank {} calls {} with root {} where rank {} calls {} with root {}", rank,
                         name_of(kind), root, first_rank_, name_of(kind_), root_));
        }
    }

    void finish_round() {
        result_ = std::make_shared<const std::vector<Bytes>>(std::exchange(mine_, std::vector<Bytes>(count())));
        arrived_.assign(count(), false);
        arrivals_ = 0;
        ++round_;
        changed_.notify_all();
    }

    /// Fails all further rounds for this reason. If an earlier call gave a reason, the earlier reason stays.
    void fail(Status status) {
        if (failed_.is_ok()) {
            failed_ = std::move(status);
            changed_.notify_all();
        }
    }

    [[nodiscard]] std::string missing() const {
        std::string ranks;
        for (std::size_t r = 0; r < arrived_.size(); ++r) {
            if (!arrived_[r]) {
                ranks += fmt::format("{}{}", ranks.empty() ? " " : ", ", r);
            }
        }
        return ranks;
    }

    const int size_;
    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Bytes> mine_;
    std::vector<bool> arrived_;
    std::vector<bool> left_;
    std::shared_ptr<const std::vector<Bytes>> result_;
    int arrivals_ = 0;
    int first_rank_ = 0;
    Kind kind_ = Kind::barrier;
    int root_ = 0;
    std::uint64_t round_ = 0;
    Status failed_;
};

class ThreadControlPlane final : public ControlPlane {
public:
    ThreadControlPlane(std::shared_ptr<Hub> hub, std::unique_ptr<Transport> transport, int rank, int size)
        : hub_(std::move(hub)), transport_(std::move(transport)), rank_(rank), size_(size) {}
    ThreadControlPlane(const ThreadControlPlane&) = delete;
    ThreadControlPlane& operator=(const ThreadControlPlane&) = delete;
    ~ThreadControlPlane() override { leave(false); }

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string description() const override { return "threads"; }

    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        auto result = hub_->exchange(rank_, Kind::allgather, 0, Bytes(mine.begin(), mine.end()));
        if (!result.is_ok()) {
            return result.status();
        }
        return std::vector<Bytes>(*result.value());
    }

    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override {
        if (root < 0 || root >= size_) {
            hub_->abort(fmt::format("broadcast: root {} does not exist, expected 0 to {}", root, size_ - 1));
            return failure(ErrorCode::invalid_argument, "broadcast: root {} does not exist, expected 0 to {}", root,
                           size_ - 1);
        }
        auto result =
            hub_->exchange(rank_, Kind::broadcast, root, rank_ == root ? Bytes(mine.begin(), mine.end()) : Bytes());
        if (!result.is_ok()) {
            return result.status();
        }
        return Bytes((*result.value())[static_cast<std::size_t>(root)]);
    }

    Status barrier() override { return hub_->exchange(rank_, Kind::barrier, 0, {}).status(); }

    [[nodiscard]] bool reaches_other_hosts() const override { return transport_ != nullptr; }
    Transport* transport() override { return transport_.get(); }

    void close(bool after_failure) override { leave(after_failure); }

    void abort(const std::string& reason) { hub_->abort(reason); }

private:
    void leave(bool after_failure) {
        if (!std::exchange(closed_, true)) {
            hub_->leave(rank_, after_failure);
        }
    }

    const std::shared_ptr<Hub> hub_;
    const std::unique_ptr<Transport> transport_;
    const int rank_;
    const int size_;
    bool closed_ = false;
};

}  // namespace

std::vector<std::unique_ptr<ControlPlane>> make_thread_control_planes(int size, std::chrono::milliseconds timeout) {
    const auto hub = std::make_shared<Hub>(size, timeout);
    std::vector<std::unique_ptr<Transport>> transports = make_thread_transports(size);
    std::vector<std::unique_ptr<ControlPlane>> planes;
    for (int rank = 0; rank < size; ++rank) {
        planes.push_back(std::make_unique<ThreadControlPlane>(
            hub, std::move(transports[static_cast<std::size_t>(rank)]), rank, size));
    }
    return planes;
}

void abort_thread_control_planes(ControlPlane& plane, const std::string& reason) {
    static_cast<ThreadControlPlane&>(plane).abort(reason);
}

}  // namespace rueda::collectives
