// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/messages/operation.hpp"

namespace rueda::core {

/// A message that has come, or of which its sender has told.
struct MessageArrival {
    int sender = 0;
    std::int32_t tag = 0;
    std::int32_t set = 0;
    DType dtype = DType::uint8;
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
    bool is_whole = false;
    bool is_resident = false;  ///< where it is not whole: at `place` of the sender's resident memory
    std::uint64_t place = 0;
    std::unique_ptr<std::byte[]> payload = nullptr;  ///< of a whole one that waits
    bool sender_goes_on = false;                     ///< it knows that the message lies here
};

/// Which message is for which receive: the first that was called for its tag, process set and sender, in the order in
/// which messages came. Pure: no clock, no memory of anybody else.
///
/// Threads: one at a time.
class Matching {
public:
    /// The receive that a message is for, which is posted no longer; null: none waits for it.
    [[nodiscard]] MessageOperation* receive_for(int sender, std::int32_t tag, std::int32_t set);
    /// Until a receive comes for it.
    void keep(MessageArrival arrival);

    /// The message that a receive is for, which is kept no longer.
    [[nodiscard]] std::optional<MessageArrival> arrival_for(const MessageRequest& request);
    /// Until a message comes for it.
    void post(MessageOperation& receive);

    /// The whole messages that are kept and whose senders may wait for that, each once.
    [[nodiscard]] bool has_untold() const { return untold_ > 0; }
    struct Untold {
        int sender = 0;
        std::uint64_t id = 0;
    };
    [[nodiscard]] std::vector<Untold> take_untold();

    /// Takes posted receives out.
    [[nodiscard]] std::vector<MessageOperation*> take_receives(const std::function<bool(const MessageRequest&)>& which);
    /// Forgets messages.
    void drop_arrivals(const std::function<bool(const MessageArrival&)>& which);
    /// Forgets everything. Needs no memory.
    void clear() noexcept {
        boxes_.clear();
        untold_ = 0;
    }

private:
    struct Box {
        std::list<MessageOperation*> receives;  // both in order, and one of them matches nothing in the other
        std::list<MessageArrival> arrivals;
    };
    [[nodiscard]] static std::uint64_t key_of(std::int32_t tag, std::int32_t set) {
        return std::uint64_t{static_cast<std::uint32_t>(set)} << 32U | static_cast<std::uint32_t>(tag);
    }
    void drop_if_empty(std::uint64_t key);
    void forget(const MessageArrival& arrival) { untold_ -= arrival.is_whole && !arrival.sender_goes_on ? 1 : 0; }

    std::unordered_map<std::uint64_t, Box> boxes_;
    std::size_t untold_ = 0;
};

}  // namespace rueda::core
