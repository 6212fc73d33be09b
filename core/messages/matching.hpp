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

/// A message from another rank: its bytes have arrived, or its sender has offered to send them.
struct MessageArrival {
    int sender = 0;
    std::int32_t tag = 0;
    std::int32_t set = 0;
    DType dtype = DType::uint8;
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
    bool is_whole = false;
    /// True if the message was offered and its bytes are at `place` in the sender's resident memory.
    bool is_resident = false;
    std::uint64_t place = 0;
    /// The bytes of the message if it arrived as a whole and is kept here until its receive is called. Otherwise null.
    std::unique_ptr<std::byte[]> payload = nullptr;
    bool sender_goes_on = false;  ///< true if the sender was told that the message is kept here
};

/// Finds the receive for a message, and the message for a receive. A message and a receive match if their tag, process
/// set and sender match. If several match, the earliest receive or message is taken. This class uses no clock and no
/// memory of other ranks.
///
/// Threads: one at a time.
class Matching {
public:
    /// Removes and returns the receive for this message. Returns null if no receive waits for it.
    [[nodiscard]] MessageOperation* receive_for(int sender, std::int32_t tag, std::int32_t set);
    /// Keeps a message until a receive for it is called.
    void keep(MessageArrival arrival);

    /// Removes and returns the message for this receive.
    [[nodiscard]] std::optional<MessageArrival> arrival_for(const MessageRequest& request);
    /// Whether messages or receives with this tag and process set are kept here.
    [[nodiscard]] bool has(std::int32_t tag, std::int32_t set) const { return boxes_.contains(key_of(tag, set)); }
    /// Keeps a receive until a message for it arrives.
    void post(MessageOperation& receive);

    /// The sender of a whole message that is kept here may wait until it is told that the message is kept.
    /// take_untold() returns each message whose sender was not told yet, and returns it only once.
    [[nodiscard]] bool has_untold() const { return untold_ > 0; }
    struct Untold {
        int sender = 0;
        std::uint64_t id = 0;
    };
    [[nodiscard]] std::vector<Untold> take_untold();

    /// Removes and returns the posted receives for which `which` returns true.
    [[nodiscard]] std::vector<MessageOperation*> take_receives(const std::function<bool(const MessageRequest&)>& which);
    /// Forgets the messages for which `which` returns true.
    void drop_arrivals(const std::function<bool(const MessageArrival&)>& which);
    /// Forgets everything. Allocates no memory.
    void clear() noexcept {
        boxes_.clear();
        untold_ = 0;
    }

private:
    struct Box {
        // `receives` is in the order of the calls, and `arrivals` is in the order of arrival. No receive in a box
        // matches an arrival in the same box.
        std::list<MessageOperation*> receives;
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
