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

/// The messages between the leaders of the hosts (docs/design/0002-several-hosts.md). A message comes from another
/// process, so the parser checks everything that can be checked without the receiver's state.
namespace rueda::core {

/// The ranks from `first` to `last`, both included.
struct RankRange {
    std::int32_t first = 0;
    std::int32_t last = 0;
    [[nodiscard]] bool operator==(const RankRange&) const = default;
};

/// The metadata that some ranks announced for a tensor. `metadata` is empty if these ranks announced the metadata of
/// the tensor's last call.
struct Claim {
    std::optional<Metadata> metadata;
    std::vector<RankRange> ranks;  ///< ascending, disjoint
};

/// For one host: the first dimensions of its ranks' tensors, in the order of the ranks. Used only for operations of
/// variable size.
struct HostRows {
    std::uint32_t host = 0;
    std::vector<std::int64_t> rows;
};

/// Identifies a tensor in the messages of the leaders, by one of these values:
/// - id: the number that the root gave to the name at its first call. A host uses the id until it releases the id.
/// - name: used by a host that has no id for the name.
/// - call: the number of an operation without a name, counted from 0.
struct TensorKey {
    std::uint64_t id = 0;  ///< 0: none
    std::string name;      ///< "": none
    std::optional<std::uint64_t> call;

    [[nodiscard]] bool operator==(const TensorKey&) const = default;
};

/// Tells a leader that all ranks of a host, or of a subtree of hosts, have announced a tensor.
struct Announcement {
    TensorKey key;
    /// The claims of all these ranks. Empty if all these ranks announced the metadata of the last call.
    std::vector<Claim> claims;
    std::vector<HostRows> rows;  ///< sorted by host; only for operations of variable size
    /// `joined` and `uncounted` contain the ranks that have joined and make no claim (docs/design/0005-join.md). Each
    /// of these ranks is in one of the two lists. Both lists are ascending.
    std::vector<RankRange> joined = {};
    std::vector<RankRange> uncounted = {};  ///< the joined ranks that an average does not count
    /// The partial result of the inputs of one host (core/negotiation/carried.hpp). Empty if the data moves in messages
    /// of its own. Only announcements of one host without claims and without joined ranks have it.
    std::vector<std::byte> input = {};
};

/// Reports that some hosts no longer use an id. `hosts` is the number of these hosts.
struct Release {
    std::uint64_t id = 0;
    std::uint32_t hosts = 0;
};

/// A message from a leader to its parent in the tree. The leader sends an UpMessage only after a DownMessage has
/// acknowledged its previous UpMessage, or after the previous UpMessage has accepted an offer.
struct UpMessage {
    std::uint64_t number = 0;       ///< counts from 1
    std::vector<Release> releases;  ///< processed before the announcements
    /// One rank for each host on which all ranks have joined: the rank that joined last. The receiver processes this
    /// list before the announcements.
    std::vector<std::int32_t> joined;
    std::vector<Announcement> announcements;
    /// ranks that have shut down, in the order of their shutdowns
    std::vector<std::int32_t> shutting_down;
    /// How many hosts have settled since the previous UpMessage. A host has settled when all its ranks have joined, and
    /// none of them has a pending operation of its own.
    std::uint32_t settled_hosts = 0;
    /// How many hosts of this subtree were closed since the previous UpMessage. A host is closed when its last rank has
    /// shut down.
    std::uint32_t closed_hosts = 0;
};

enum class DecisionKind : std::uint8_t {
    call = 1,       ///< execute the operation
    disagreed = 2,  ///< the ranks' metadata differ; `text` lists which ranks announced what
    /// `rank` was the first to shut down; no operation is called after this decision
    closing = 3,
    closed = 4,        ///< all ranks have shut down; this is the last decision
    forget = 5,        ///< no host uses `id` any more, so the leaders forget the name that belongs to it
    all_joined = 6,    ///< all ranks have joined, and no operation is pending; the join ends; `rank` joined last
    lacks_joined = 7,  ///< the operation needs data of ranks that have joined; `text` lists them
    /// Not a decision but a request to a host on which all ranks have joined: its ranks must announce the operation,
    /// too.
    wanted = 8,
    /// All ranks announced the same operation, but no rank can do it. `text` gives the reason, and `code` the kind of
    /// error.
    impossible = 9,
    /// Not a decision but an *offer* of the root to its only child: the root's host has announced the tensor `id`. If
    /// the child's next UpMessage accepts the offer (see accepts()), the root's next decision is a call of this tensor,
    /// and the child makes this decision itself. `metadata` is that of the call, and `result` is the partial result of
    /// the root's host, or empty if the announcement carried no input.
    offered = 10,
};

/// The value in `Decision::rows` that stands for a rank that has joined.
inline constexpr std::int64_t kJoinedRows = -1;

/// A decision of the root. Every host gets the decisions in the same order. A host on which all ranks have joined also
/// gets requests (kind `wanted`) between the decisions.
struct Decision {
    DecisionKind kind = DecisionKind::call;
    bool ends_batch = false;            ///< only for a call: whether it is the last call of its batch
    std::uint64_t id = 0;               ///< the id of a named tensor; 0 if the tensor never got an id
    std::string name;                   ///< the name; empty unless some host announced the tensor by its name
    std::optional<std::uint64_t> call;  ///< the number of an operation without a name
    std::uint8_t operation = 0;         ///< for a call: collectives::Operation
    std::uint64_t bytes = 0;            ///< bytes_of(metadata); only for a call
    /// The content depends on the decision. For a call of an operation of variable size, these are the first dimensions
    /// of the ranks' tensors. For `disagreed`, these are the sizes of the groups that ranks announced under this name;
    /// each size occurs once.
    std::vector<std::int64_t> rows;
    std::string text;                ///< the text of the error, for `disagreed`, `lacks_joined` and `impossible`
    ErrorCode code = ErrorCode::ok;  ///< a code for which is_refusal() is true; only for `impossible`
    std::int32_t rank = 0;           ///< for `closing` and `all_joined`
    std::uint32_t uncounted = 0;     ///< how many ranks an average does not count; only for a call
    /// The metadata of a call. It is present only if all ranks of some host have joined, because the ranks of that host
    /// may not know the metadata.
    std::optional<Metadata> metadata;
    /// For a call: the result of the operation, if the announcements of all hosts carried the inputs, and if the root
    /// decided the call at once; otherwise empty. The ranks of a call with a result exchange no further data, and the
    /// call is a batch of its own.
    std::vector<std::byte> result = {};
};

/// Whether `message`, the first message after an offer, accepts the offer: it contains nothing but the announcement of
/// the offered tensor, without claims, and with an input if the offer has one. The root and the child call this
/// function with the same arguments, so they agree about the outcome without a further message.
[[nodiscard]] bool accepts(const UpMessage& message, const Decision& offer);

/// A message from a leader to its child.
struct DownMessage {
    std::uint64_t acknowledged = 0;  ///< the number of the child's last UpMessage that was processed
    std::vector<Decision> decisions;
};

/// A leader sends this to all its neighbours in the tree when the job ends. A leader that receives an AbortMessage for
/// the first time passes it on.
struct AbortMessage {
    std::int32_t code = 0;  ///< ErrorCode
    std::string text;
};

/// A message that says only that its sender is alive. A leader sends it if it has sent no other message for some time.
struct HeartbeatMessage {};

/// A message from the root to its only child: the root withdraws its offer. The offer was sent after the child's
/// message `taken`. If the child has sent no message since, it sends one now, which may be empty.
struct WithdrawalMessage {
    std::uint64_t taken = 0;
};

using TreeMessage = std::variant<UpMessage, DownMessage, AbortMessage, HeartbeatMessage, WithdrawalMessage>;

/// The maximum number of claims in an announcement. Further claims are left out, which does no harm: two different
/// claims are already an error, and the kept claims are enough for the error message.
inline constexpr std::size_t kMostClaims = 64;
/// The maximum length of the text of a refusal or an abort, in bytes.
inline constexpr std::size_t kMostTextBytes = 4096;

/// The maximum length of a message in a job with `ranks` ranks. A receiver has a buffer of this size. A sender starts a
/// new message if the next part would not fit.
[[nodiscard]] std::size_t most_message_bytes(std::uint32_t ranks);

/// These functions and constants give the encoded length of a message without content, and the length that each part
/// adds. With them, the writer of a message knows when the message is full.
[[nodiscard]] std::size_t empty_message_bytes();
[[nodiscard]] std::size_t encoded_bytes(const Announcement& announcement);
[[nodiscard]] std::size_t encoded_bytes(const Decision& decision);
inline constexpr std::size_t kReleaseBytes = 12;
inline constexpr std::size_t kJoinedBytes = 4;
inline constexpr std::size_t kShuttingDownBytes = 4;

/// Encodes a message. The text of an AbortMessage is cut to one line of at most kMostTextBytes.
[[nodiscard]] std::vector<std::byte> encode(const TreeMessage& message);
/// Parses a message. `ranks` and `hosts` are the numbers of ranks and hosts of the job. Returns an Internal error, with
/// the reason, if no correct leader writes these bytes.
[[nodiscard]] Result<TreeMessage> parse_tree_message(std::span<const std::byte> bytes, std::uint32_t ranks,
                                                     std::uint32_t hosts);

}  // namespace rueda::core
