// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"

/// What the leaders of the hosts say to each other (docs/design/0002-several-hosts.md). Bytes of another process:
/// parse_ functions check everything that can be checked without a node's state.
namespace rueda::core {

/// Ranks [first, last], both included.
struct RankRange {
    std::int32_t first = 0;
    std::int32_t last = 0;
    [[nodiscard]] bool operator==(const RankRange&) const = default;
};

/// What some ranks mean with a tensor. Without metadata: what it was called with the last time.
struct Claim {
    std::optional<Metadata> metadata;
    std::vector<RankRange> ranks;  ///< ascending, apart
};

/// Of an operation by rows: the first dimensions of a host's ranks, in their order.
struct HostRows {
    std::uint32_t host = 0;
    std::vector<std::int64_t> rows;
};

/// How leaders name a tensor. One of the three:
///   id    what the root gave to the name at its first call; used by who still holds it
///   name  by who does not
///   call  number of an operation without a name, from 0
struct TensorKey {
    std::uint64_t id = 0;  ///< 0: none
    std::string name;      ///< "": none
    std::optional<std::uint64_t> call;

    [[nodiscard]] bool operator==(const TensorKey&) const = default;
};

/// All ranks of a host, or of all hosts of a part of the tree, have announced a tensor.
struct Announcement {
    TensorKey key;
    std::vector<Claim> claims;   ///< of all its ranks; empty: all mean what it was called with the last time
    std::vector<HostRows> rows;  ///< ascending by host; of operations by rows
    /// Ranks that have joined, and are in no claim (docs/design/0005-join.md). Ascending, apart; in one of the two.
    std::vector<RankRange> joined = {};
    std::vector<RankRange> uncounted = {};  ///< averages do not count them
};

/// An id is not held any more by so many hosts that held it.
struct Release {
    std::uint64_t id = 0;
    std::uint32_t hosts = 0;
};

/// From a leader to its parent: at most one under way, until a DownMessage acknowledges it.
struct UpMessage {
    std::uint64_t number = 0;          ///< from 1
    std::vector<Release> releases;     ///< before the announcements
    std::vector<std::int32_t> joined;  ///< likewise: of each host all of whose ranks have joined, the last one
    std::vector<Announcement> announcements;
    std::vector<std::int32_t> shutting_down;  ///< ranks, as they were announced
    std::uint32_t settled_hosts = 0;  ///< hosts more, of these, none of whose ranks has anything of its own pending
    std::uint32_t closed_hosts = 0;   ///< hosts more, of this part of the tree, all of whose ranks have shut down
};

enum class DecisionKind : std::uint8_t {
    call = 1,          ///< do it
    disagreed = 2,     ///< the ranks mean different things: `text` says who means what
    closing = 3,       ///< `rank` was the first to shut down: what was not called by now never is
    closed = 4,        ///< all ranks have shut down; the last decision
    forget = 5,        ///< nobody holds `id` any more
    all_joined = 6,    ///< all ranks have joined, `rank` the last, and nothing is pending: they are back
    lacks_joined = 7,  ///< it needs ranks that have joined: `text` says which
    wanted = 8,        ///< no decision: others have announced it, and on this host all ranks have joined
    impossible = 9,    ///< the ranks agree on what no rank can do: `text` says why, `code` what kind of error it is
};

/// In the rows of a call: the rank has joined.
inline constexpr std::int64_t kJoinedRows = -1;

/// What the root decides, in the same order on every host; and, between these, what a host is asked for.
struct Decision {
    DecisionKind kind = DecisionKind::call;
    bool ends_batch = false;            ///< call: the last one of its batch
    std::uint64_t id = 0;               ///< of a named tensor; 0: it never got one
    std::string name;                   ///< where somebody announced by name
    std::optional<std::uint64_t> call;  ///< of an operation without a name
    std::uint8_t operation = 0;         ///< call: collectives::Operation
    std::uint64_t bytes = 0;            ///< call: as bytes_of(metadata)
    /// Call of an operation by rows: first dimensions by rank. Disagreed: how many members the groups have that some
    /// ranks mean, each number once.
    std::vector<std::int64_t> rows;
    std::string text;                ///< disagreed, lacks_joined, impossible
    ErrorCode code = ErrorCode::ok;  ///< impossible: is_refusal()
    std::int32_t rank = 0;           ///< closing, all_joined
    std::uint32_t uncounted = 0;     ///< call: an average does not divide by so many ranks
    /// Call: where a host all of whose ranks have joined might not know them.
    std::optional<Metadata> metadata;
};

/// From a leader to its child.
struct DownMessage {
    std::uint64_t acknowledged = 0;  ///< number of the last UpMessage of that child that was taken in
    std::vector<Decision> decisions;
};

/// To all neighbours, at once: the job has ended. Passed on by who has not heard of it.
struct AbortMessage {
    std::int32_t code = 0;  ///< ErrorCode
    std::string text;
};

/// "I am alive": where there was nothing else to say for a while.
struct HeartbeatMessage {};

using TreeMessage = std::variant<UpMessage, DownMessage, AbortMessage, HeartbeatMessage>;

/// Most claims of an announcement. Ranks that mean yet other things are in no claim then: so many values that differ
/// are a disagreement whatever the rest is, and more than that nobody reads.
inline constexpr std::size_t kMostClaims = 64;
/// Longest text of a disagreement or an abort.
inline constexpr std::size_t kMostTextBytes = 4096;

/// No message is longer, in a job of so many ranks: who receives has that much room, who sends ends a message before.
[[nodiscard]] std::size_t most_message_bytes(std::uint32_t ranks);

/// What `encode` makes of an UpMessage and a DownMessage without anything in them, and how much longer the parts make
/// them: who fills a message knows where to stop.
[[nodiscard]] std::size_t empty_message_bytes();
[[nodiscard]] std::size_t encoded_bytes(const Announcement& announcement);
[[nodiscard]] std::size_t encoded_bytes(const Decision& decision);
inline constexpr std::size_t kReleaseBytes = 12;
inline constexpr std::size_t kJoinedBytes = 4;
inline constexpr std::size_t kShuttingDownBytes = 4;

/// An abort's text becomes one line of at most kMostTextBytes.
[[nodiscard]] std::vector<std::byte> encode(const TreeMessage& message);
/// `ranks`, `hosts`: of the job. Internal, saying what is wrong, for bytes that no leader writes.
[[nodiscard]] Result<TreeMessage> parse_tree_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                     std::uint32_t hosts);

}  // namespace rueda::core
