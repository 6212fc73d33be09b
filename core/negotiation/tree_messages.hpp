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

/// The messages between the leaders of the hosts (docs/design/0002-several-hosts.md). The bytes come from another
/// process, so the parse_ functions check everything that can be checked without a node's state.
namespace rueda::core {

/// The ranks from `first` to `last`, both included.
struct RankRange {
    std::int32_t first = 0;
    std::int32_t last = 0;
    [[nodiscard]] bool operator==(const RankRange&) const = default;
};

/// What some ranks mean by a tensor. Without metadata: the same as at its last call.
struct Claim {
    std::optional<Metadata> metadata;
    std::vector<RankRange> ranks;  ///< ascending, disjoint
};

/// For an operation of variable size: the first dimensions of the tensors of a host's ranks, in the order of the ranks.
struct HostRows {
    std::uint32_t host = 0;
    std::vector<std::int64_t> rows;
};

/// How leaders identify a tensor, in one of three ways:
/// - id: the number that the root gave to the name at its first call. A host uses the id until it gives it up.
/// - name: a host that does not hold the id uses the name.
/// - call: the number of an operation without a name, counted from 0.
struct TensorKey {
    std::uint64_t id = 0;  ///< 0: none
    std::string name;      ///< "": none
    std::optional<std::uint64_t> call;

    [[nodiscard]] bool operator==(const TensorKey&) const = default;
};

/// The announcement that all ranks of a host, or of all hosts in a part of the tree, have announced a tensor.
struct Announcement {
    TensorKey key;
    std::vector<Claim> claims;   ///< the claims of all these ranks; empty if all ranks mean the same as at the last
                                 ///< call
    std::vector<HostRows> rows;  ///< for operations of variable size; in ascending order of the hosts
    /// Ranks that have joined and have no claim (docs/design/0005-join.md). `joined` and `uncounted` are ascending and
    /// disjoint; each such rank is in one of them.
    std::vector<RankRange> joined = {};
    std::vector<RankRange> uncounted = {};  ///< an average does not count these ranks
};

/// The number of hosts that held an id and have given it up.
struct Release {
    std::uint64_t id = 0;
    std::uint32_t hosts = 0;
};

/// A message from a leader to its parent. A leader sends the next one only after a DownMessage has acknowledged the
/// previous one.
struct UpMessage {
    std::uint64_t number = 0;       ///< counts from 1
    std::vector<Release> releases;  ///< to be processed before the announcements are
    /// to be processed before the announcements; the last rank to join on each host on which all ranks have joined
    std::vector<std::int32_t> joined;
    std::vector<Announcement> announcements;
    /// ranks that announced their shutdown, in the order of these announcements
    std::vector<std::int32_t> shutting_down;
    /// how many more hosts have settled: all their ranks have joined, and none has an operation of its own pending
    std::uint32_t settled_hosts = 0;
    std::uint32_t closed_hosts = 0;  ///< how many more hosts in this part of the tree have shut down on all ranks
};

enum class DecisionKind : std::uint8_t {
    call = 1,       ///< execute the operation
    disagreed = 2,  ///< the ranks mean different things; `text` says which ranks mean what
    /// `rank` was the first to shut down; operations that were not called before will never be called
    closing = 3,
    closed = 4,        ///< all ranks have shut down; this is the last decision
    forget = 5,        ///< no host uses `id` any more
    all_joined = 6,    ///< all ranks have joined, `rank` was the last, and nothing is pending; the join ends
    lacks_joined = 7,  ///< the operation needs ranks that have joined; `text` says which
    wanted = 8,  ///< not a decision: on this host all ranks have joined, and other hosts have announced the tensor
    /// the ranks agree, but no rank can do the operation; `text` gives the reason and `code` the kind of error
    impossible = 9,
};

/// In the rows of a call: means that the rank has joined.
inline constexpr std::int64_t kJoinedRows = -1;

/// A decision of the root. Every host gets the decisions in the same order. Between them, a host may get a request to
/// announce something (kind `wanted`).
struct Decision {
    DecisionKind kind = DecisionKind::call;
    bool ends_batch = false;            ///< call: this is the last call of its batch
    std::uint64_t id = 0;               ///< id of a named tensor; 0: the tensor never got an id
    std::string name;                   ///< set only if some host announced by name
    std::optional<std::uint64_t> call;  ///< number of an operation without a name
    std::uint8_t operation = 0;         ///< call: collectives::Operation
    std::uint64_t bytes = 0;            ///< call: bytes_of(metadata)
    /// For a call of an operation of variable size: the first dimensions by rank. For `disagreed`: the sizes of the
    /// groups that some ranks mean, each size once.
    std::vector<std::int64_t> rows;
    std::string text;                ///< disagreed, lacks_joined, impossible
    ErrorCode code = ErrorCode::ok;  ///< impossible: is_refusal()
    std::int32_t rank = 0;           ///< closing, all_joined
    std::uint32_t uncounted = 0;     ///< call: how many ranks an average does not count
    /// For a call: set if there is a host on which all ranks have joined and which may not know the metadata.
    std::optional<Metadata> metadata;
};

/// A message from a leader to its child.
struct DownMessage {
    std::uint64_t acknowledged = 0;  ///< number of the child's last UpMessage that was processed
    std::vector<Decision> decisions;
};

/// Sent to all neighbours at once when the job has ended. A leader that did not know of the end yet passes the message
/// on.
struct AbortMessage {
    std::int32_t code = 0;  ///< ErrorCode
    std::string text;
};

/// Means "This leader is alive". Sent if the leader has sent no other message for some time.
struct HeartbeatMessage {};

using TreeMessage = std::variant<UpMessage, DownMessage, AbortMessage, HeartbeatMessage>;

/// The maximum number of claims in an announcement. If the ranks announced more different metadata than that,
/// the claims of some ranks are left out. This does no harm: more than one claim is an error in any case, and its
/// message need not list so many values.
inline constexpr std::size_t kMostClaims = 64;
/// The longest text of a disagreement or an abort.
inline constexpr std::size_t kMostTextBytes = 4096;

/// The maximum length of a message in a job of this many ranks. A receiver has a buffer of this size, and a sender
/// starts a new message before it exceeds the limit.
[[nodiscard]] std::size_t most_message_bytes(std::uint32_t ranks);

/// The encoded length of an UpMessage or DownMessage without content, and how much each part adds. With these, the
/// writer of a message knows when the message is full.
[[nodiscard]] std::size_t empty_message_bytes();
[[nodiscard]] std::size_t encoded_bytes(const Announcement& announcement);
[[nodiscard]] std::size_t encoded_bytes(const Decision& decision);
inline constexpr std::size_t kReleaseBytes = 12;
inline constexpr std::size_t kJoinedBytes = 4;
inline constexpr std::size_t kShuttingDownBytes = 4;

/// Encodes a message. The text of an abort is cut to one line of at most kMostTextBytes.
[[nodiscard]] std::vector<std::byte> encode(const TreeMessage& message);
/// Parses a message. `ranks` and `hosts` are the numbers of ranks and hosts in the job. For bytes that no correct
/// leader writes, returns ErrorCode::internal with a text that says what is wrong.
[[nodiscard]] Result<TreeMessage> parse_tree_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                     std::uint32_t hosts);

}  // namespace rueda::core
