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

/// Ranks [first, last], both included.
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
/// - id: the number that the root gave to the name at its first call. A host uses it as long as it holds it.
/// - name: a host that does not hold the id uses the name.
/// - call: the number of an operation without a name, counted from 0.
struct TensorKey {
    std::uint64_t id = 0;  ///< 0: none
    std::string name;      ///< "": none
    std::optional<std::uint64_t> call;

    [[nodiscard]] bool operator==(const TensorKey&) const = default;
};

/// All ranks of a host, or of all hosts of a part of the tree, have announced a tensor.
struct Announcement {
    TensorKey key;
    std::vector<Claim> claims;   ///< the claims of all these ranks; empty: all ranks mean the same as when it was last
                                 ///< called
    std::vector<HostRows> rows;  ///< for operations of variable size; ascending by host
    /// Ranks that have joined and are in no claim (docs/design/0005-join.md). The lists are ascending and disjoint, and
    /// each such rank is in one of them.
    std::vector<RankRange> joined = {};
    std::vector<RankRange> uncounted = {};  ///< an average does not count these ranks
};

/// This many hosts that held an id no longer hold it.
struct Release {
    std::uint64_t id = 0;
    std::uint32_t hosts = 0;
};

/// From a leader to its parent. At most one is under way, until a DownMessage acknowledges it.
struct UpMessage {
    std::uint64_t number = 0;       ///< counts from 1
    std::vector<Release> releases;  ///< to be processed before the announcements
    /// to be processed before the announcements; for each host on which all ranks have joined, the rank that joined
    /// last
    std::vector<std::int32_t> joined;
    std::vector<Announcement> announcements;
    std::vector<std::int32_t> shutting_down;  ///< the ranks, in the order in which they announced shutdown
    /// how many more joined hosts have no operations of their own pending on any rank
    std::uint32_t settled_hosts = 0;
    std::uint32_t closed_hosts = 0;  ///< how many more hosts of this part of the tree have shut down on all ranks
};

enum class DecisionKind : std::uint8_t {
    call = 1,          ///< execute the operation
    disagreed = 2,     ///< the ranks mean different things; `text` says which ranks mean what
    closing = 3,       ///< `rank` was the first to shut down; what was not called by now will never be called
    closed = 4,        ///< all ranks have shut down; this is the last decision
    forget = 5,        ///< no host holds `id` any more
    all_joined = 6,    ///< all ranks have joined, `rank` last, and nothing is pending; the join ends
    lacks_joined = 7,  ///< the operation needs ranks that have joined; `text` says which
    wanted = 8,  ///< not a decision: other hosts have announced the tensor, and on this host all ranks have joined
    /// the ranks agree, but no rank can do the operation; `text` gives the reason and `code` the kind of error
    impossible = 9,
};

/// In the rows of a call: the rank has joined.
inline constexpr std::int64_t kJoinedRows = -1;

/// What the root decides, in the same order on every host; and, between decisions, what a host is asked to announce
/// (kind `wanted`).
struct Decision {
    DecisionKind kind = DecisionKind::call;
    bool ends_batch = false;            ///< call: this is the last call of its batch
    std::uint64_t id = 0;               ///< of a named tensor; 0: the tensor never got an id
    std::string name;                   ///< only if some host announced by name
    std::optional<std::uint64_t> call;  ///< of an operation without a name
    std::uint8_t operation = 0;         ///< call: collectives::Operation
    std::uint64_t bytes = 0;            ///< call: bytes_of(metadata)
    /// Call of an operation of variable size: the first dimensions by rank. Disagreed: the sizes of the groups that
    /// some ranks mean, each number once.
    std::vector<std::int64_t> rows;
    std::string text;                ///< disagreed, lacks_joined, impossible
    ErrorCode code = ErrorCode::ok;  ///< impossible: is_refusal()
    std::int32_t rank = 0;           ///< closing, all_joined
    std::uint32_t uncounted = 0;     ///< call: how many ranks an average does not count
    /// Call: present if a host on which all ranks have joined might not know the metadata.
    std::optional<Metadata> metadata;
};

/// From a leader to its child.
struct DownMessage {
    std::uint64_t acknowledged = 0;  ///< number of the last UpMessage of that child that was processed
    std::vector<Decision> decisions;
};

/// Sent to all neighbours at once when the job has ended. A leader that has not heard of it yet passes it on.
struct AbortMessage {
    std::int32_t code = 0;  ///< ErrorCode
    std::string text;
};

/// "This leader is alive": sent if there was nothing else to say for a while.
struct HeartbeatMessage {};

using TreeMessage = std::variant<UpMessage, DownMessage, AbortMessage, HeartbeatMessage>;

/// The maximum number of claims of an announcement. Ranks that mean something else are then in no claim: with so many
/// different values it is a disagreement in any case, and no user reads more of them.
inline constexpr std::size_t kMostClaims = 64;
/// The longest text of a disagreement or an abort.
inline constexpr std::size_t kMostTextBytes = 4096;

/// The maximum length of a message in a job of this many ranks. A receiver has this much room, and a sender starts a
/// new message before it exceeds the limit.
[[nodiscard]] std::size_t most_message_bytes(std::uint32_t ranks);

/// The encoded length of an UpMessage or DownMessage without content, and how much each part adds. The writer of a
/// message uses them to know when it is full.
[[nodiscard]] std::size_t empty_message_bytes();
[[nodiscard]] std::size_t encoded_bytes(const Announcement& announcement);
[[nodiscard]] std::size_t encoded_bytes(const Decision& decision);
inline constexpr std::size_t kReleaseBytes = 12;
inline constexpr std::size_t kJoinedBytes = 4;
inline constexpr std::size_t kShuttingDownBytes = 4;

/// The text of an abort becomes one line of at most kMostTextBytes.
[[nodiscard]] std::vector<std::byte> encode(const TreeMessage& message);
/// `ranks` and `hosts` are the numbers in the job. Bytes that no correct leader writes give the error Internal, which
/// says what is wrong.
[[nodiscard]] Result<TreeMessage> parse_tree_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                     std::uint32_t hosts);

}  // namespace rueda::core
