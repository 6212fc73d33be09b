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

/// How long the end of a failed operation waits for copies. 256 MB take 5 ms at the 55 GB/s of an H200.
constexpr std::chrono::milliseconds kCopyLimit{1000};

}  // namespace

/// Begins an operation, unless it is a send that must wait for a copy: its own, or that of an earlier send to the same
/// peer. Messages with the same peer, tag and process set arrive in the order of the calls.
void Messenger::begin_in_order(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    const bool is_behind = std::any_of(held_.begin(), held_.end(), [&](const MessageOperation* earlier) {
        return earlier->request.peer == request.peer;
    });
    if (request.sends && (is_behind || request.device != nullptr)) {
        held_.push_back(&operation);
    } else {
        begin(operation);
    }
}

bool Messenger::step_copies() {
    const bool begun = !held_.empty() && begin_held();
    return (!copies_to_device_.empty() && step_copies_to_device()) || begun;
}

/// Begins all sends whose copy is done, and that have no earlier send to their peer before them. All copies go on.
bool Messenger::begin_held() {
    std::vector<MessageOperation*> held;
    held.swap(held_);
    for (MessageOperation* operation : held) {
        const auto copied =
            operation->request.device == nullptr ? Result<bool>(true) : operation->request.device->step();
        const bool is_behind = std::any_of(held_.begin(), held_.end(), [&](const MessageOperation* earlier) {
            return earlier->request.peer == operation->request.peer;
        });
        if (!copied.is_ok()) {
            end(*operation, about(operation->request, copied.status()), -1);
        } else if (!copied.value() || is_behind) {
            held_.push_back(operation);
        } else {
            begin(*operation);
        }
    }
    return held_.size() < held.size();
}

bool Messenger::step_copies_to_device() {
    bool moved = false;
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
        if (!done.is_ok()) {
            end(*operation, about(operation->request, done.status()), operation->sender);
        } else if (done.value()) {
            end(*operation, {}, operation->sender);
        } else {
            copies_to_device_.push_back(operation);
        }
    }
    return moved || copies_to_device_.size() < copies.size();
}

/// Waits until the device uses no tensor of this rank's messages any more. A copy to the device can stand behind the
/// program's work, so the wait is limited; the program may then get its memory back too early, as after the abort of
/// other operations on a device.
void Messenger::settle_copies() noexcept {
    const auto limit = std::chrono::steady_clock::now() + kCopyLimit;
    for (const std::vector<MessageOperation*>* list : {&held_, &copies_to_device_}) {
        for (const MessageOperation* operation : *list) {
            if (operation->request.device != nullptr) {
                operation->request.device->settle(limit);
            }
        }
    }
}

/// Fails the operations of one process set, or of all sets, that wait for a copy.
void Messenger::end_copies(std::optional<std::int32_t> set, const Status& reason) {
    settle_copies();
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
