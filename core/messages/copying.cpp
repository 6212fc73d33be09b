// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Sends and receives of tensors in device memory. A send begins when its tensor was copied to the host; a receive ends
// when its message was copied to the device.
#include <algorithm>
#include <chrono>
#include <utility>

#include "core/messages/messenger.hpp"

namespace rueda::core {
namespace {

/// How long a failed operation waits for its copies, at most, before it ends. A copy of 256 MB takes 5 ms at the 55
/// GB/s of an H200.
constexpr std::chrono::milliseconds kCopyLimit{1000};

}  // namespace

/// Begins an operation. A send whose tensor is still being copied must wait. A send must also wait behind a waiting
/// send with the same peer, tag and process set, because such messages arrive in the order of the calls. All other
/// sends begin at once. They must not wait for a waiting send, because its copy may become possible only after the
/// receivers of the other sends have got their messages.
void Messenger::begin_in_order(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    const MessageOperation* const earlier = request.sends && !held_.empty() ? held_before(request) : nullptr;
    if (request.sends && (earlier != nullptr || request.device != nullptr)) {
        note_gpu(operation, earlier != nullptr ? earlier->waits_for_gpu : request.device->device());
        held_.push_back(&operation);
    } else {
        begin(operation);
    }
}

/// Returns the send in held_ (the list of waiting sends) that a send with this request must not overtake. Returns null
/// if there is none.
const MessageOperation* Messenger::held_before(const MessageRequest& request) const {
    const auto found = std::find_if(held_.begin(), held_.end(), [&](const MessageOperation* earlier) {
        return earlier->request.keeps_order_with(request);
    });
    return found == held_.end() ? nullptr : *found;
}

void Messenger::note_gpu(MessageOperation& operation, int gpu) {
    const std::lock_guard lock(operations_mutex_);
    operation.waits_for_gpu = gpu;
}

/// Continues the copies. If a copy fails, the job ends, like after any other failure of a step. Otherwise the other
/// rank, which waits for this message, would get a later message in its place.
Status Messenger::step_copies(bool& moved) {
    if (!held_.empty()) {
        RUEDA_RETURN_IF_FAILED(begin_held(moved));
    }
    return copies_to_device_.empty() ? Status() : step_copies_to_device(moved);
}

/// Continues all copies. Then begins each send whose copy is done and that need not wait for an earlier send. If a send
/// fails, the other sends stay in the list, so that fail_all() waits for their copies.
Status Messenger::begin_held(bool& moved) {
    Status failed;
    std::vector<MessageOperation*> held;
    held.swap(held_);
    for (MessageOperation* operation : held) {
        const MessageRequest& request = operation->request;
        const Result<bool> copied = request.device == nullptr ? Result<bool>(true) : request.device->step();
        if (!copied.is_ok() && failed.is_ok()) {
            failed = about(request, copied.status());
        }
        if (!failed.is_ok() || !copied.value() || held_before(request) != nullptr) {
            held_.push_back(operation);
        } else {
            note_gpu(*operation, -1);
            begin(*operation);
        }
    }
    moved = moved || held_.size() < held.size();
    return failed;
}

Status Messenger::step_copies_to_device(bool& moved) {
    Status failed;
    std::vector<MessageOperation*> copies;
    copies.swap(copies_to_device_);
    for (MessageOperation* operation : copies) {
        DeviceCopy& copy = *operation->request.device;
        const bool was_put = copy.end() != nullptr;
        const Result<bool> done = copy.step();
        if (!was_put && copy.end() != nullptr) {
            operation->completion->launched(copy.end());
            moved = true;
        }
        if (!done.is_ok() && failed.is_ok()) {
            failed = about(operation->request, done.status());
        }
        if (done.is_ok() && done.value()) {
            end(*operation, {}, operation->sender);
        } else {
            copies_to_device_.push_back(operation);
        }
    }
    moved = moved || copies_to_device_.size() < copies.size();
    return failed;
}

/// Waits until the device no longer uses the tensors of messages: those of one process set, or of all sets if `set` is
/// empty. A copy to the device may have to wait for the program's work, so this wait has a limit. If the limit is
/// reached, the program may get its memory back too early. The same can happen after an abort of other operations on a
/// device.
void Messenger::settle_copies(std::optional<std::int32_t> set) noexcept {
    const auto limit = std::chrono::steady_clock::now() + kCopyLimit;
    for (const std::vector<MessageOperation*>* list : {&held_, &copies_to_device_}) {
        for (const MessageOperation* operation : *list) {
            const MessageRequest& request = operation->request;
            if (request.device != nullptr && (!set || request.set->id == *set)) {
                request.device->settle(limit);
            }
        }
    }
}

/// Fails all operations that wait for a copy: those of one process set, or of all sets if `set` is empty.
void Messenger::end_copies(std::optional<std::int32_t> set, const Status& reason) {
    settle_copies(set);
    for (std::vector<MessageOperation*>* list : {&held_, &copies_to_device_}) {
        std::vector<MessageOperation*> all;
        all.swap(*list);
        for (MessageOperation* operation : all) {
            if (set && operation->request.set->id != *set) {
                list->push_back(operation);
            } else {
                end(*operation, about(operation->request, reason), operation->sender);
            }
        }
    }
}

}  // namespace rueda::core
