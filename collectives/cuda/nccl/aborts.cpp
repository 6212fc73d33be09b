// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/aborts.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace rueda::collectives::cuda {

class StartedAbort {
public:
    StartedAbort(std::shared_ptr<const LoadedNccl> nccl, NcclCommunicator communicator)
        : nccl_(std::move(nccl)), communicator_(communicator) {}

    [[nodiscard]] const LoadedNccl& nccl() const { return *nccl_; }
    [[nodiscard]] NcclCommunicator communicator() const { return communicator_; }
    void end() {
        {
            const std::scoped_lock lock(mutex_);
            has_ended_ = true;
        }
        ended_.notify_all();
    }
    bool wait(std::chrono::milliseconds limit) {
        std::unique_lock lock(mutex_);
        return ended_.wait_for(lock, limit, [this] { return has_ended_; });
    }

private:
    const std::shared_ptr<const LoadedNccl> nccl_;
    const NcclCommunicator communicator_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool has_ended_ = false;
};

namespace {

/// The communicators of the process that wait for an abort. The object is never destroyed, because a thread may use it
/// while the process ends.
struct WaitingAborts {
    std::mutex mutex;
    std::vector<StartedAbortPtr> list;
};
WaitingAborts& waiting_aborts() {
    static auto* const waiting = new WaitingAborts;
    return *waiting;
}

/// Takes the first communicator from the list of waiting aborts, and all others that can be aborted in one group with
/// the first.
std::vector<StartedAbortPtr> take_waiting_aborts() {
    WaitingAborts& waiting = waiting_aborts();
    const std::scoped_lock lock(waiting.mutex);
    std::vector<StartedAbortPtr> taken;
    std::vector<StartedAbortPtr> left;
    for (StartedAbortPtr& abort : waiting.list) {
        const bool fits =
            taken.empty() || (&abort->nccl() == &taken[0]->nccl() && abort->nccl().version >= kNcclAbortsInGroup);
        (fits ? taken : left).push_back(std::move(abort));
    }
    waiting.list = std::move(left);
    return taken;
}

/// Errors of an abort have no consequence, because the communicators are not used again.
void abort_waiting() {
    const std::vector<StartedAbortPtr> taken = take_waiting_aborts();
    if (taken.empty()) {
        return;  // an earlier thread has taken all communicators
    }
    const NcclApi& api = taken[0]->nccl().api;
    if (taken.size() > 1) {
        static_cast<void>(api.group_start());
    }
    for (const StartedAbortPtr& abort : taken) {
        static_cast<void>(api.abort(abort->communicator()));
    }
    if (taken.size() > 1) {
        static_cast<void>(api.group_end());
    }
    for (const StartedAbortPtr& abort : taken) {
        abort->end();
    }
}

}  // namespace

StartedAbortPtr start_abort(std::shared_ptr<const LoadedNccl> nccl, NcclCommunicator communicator) noexcept {
    try {
        auto abort = std::make_shared<StartedAbort>(std::move(nccl), communicator);
        WaitingAborts& waiting = waiting_aborts();
        {
            const std::scoped_lock lock(waiting.mutex);
            waiting.list.push_back(abort);
        }
        std::thread(abort_waiting).detach();
        return abort;
    } catch (...) {
        return nullptr;
    }
}

bool wait_for_abort(StartedAbort& abort, std::chrono::milliseconds limit) { return abort.wait(limit); }

}  // namespace rueda::collectives::cuda
