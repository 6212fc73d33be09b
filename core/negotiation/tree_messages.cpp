// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/tree_messages.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "collectives/wire.hpp"
#include "core/negotiation/carried.hpp"
#include "core/negotiation/impossible.hpp"

namespace rueda::core {
namespace {

using collectives::WireReader;
using collectives::WireWriter;

// A message is encoded as its kind, followed by the fields in the order of the structs. A list begins with its length.
// Each value has exactly one encoding, so parsing and encoding again gives the same bytes.

enum class MessageKind : std::uint8_t { up = 1, down = 2, abort = 3, heartbeat = 4, withdrawal = 5 };
enum class KeyKind : std::uint8_t { id = 1, name = 2, call = 3 };

/// Bits that say which optional fields of a decision are present.
enum : std::uint8_t {
    kEndsBatch = 1,
    kHasId = 2,
    kHasName = 4,
    kHasCall = 8,
    kHasRows = 16,
    kHasMetadata = 32,
    kHasUncounted = 64,
    kHasResult = 128
};

/// Bits that say which optional fields of an announcement are present.
enum : std::uint16_t { kAnnouncedRows = 1, kAnnouncedJoined = 2, kAnnouncedInput = 4, kAllAnnounced = 7 };

constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);
constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
/// The encoded length of an UpMessage with empty lists. A DownMessage with empty lists is shorter.
constexpr std::size_t kUpHeadBytes = 1 + kNumberBytes + 4 * kLengthBytes + 2 * sizeof(std::uint32_t);

std::uint32_t length_of(std::size_t count) { return static_cast<std::uint32_t>(count); }

void put(WireWriter& out, const Metadata& metadata) {
    out.number(metadata.operation);
    out.number(metadata.dtype);
    out.number(metadata.reduce_op);
    out.number(metadata.ndim);
    out.number(metadata.root);
    out.number(metadata.process_set);
    out.number(metadata.compression);
    out.number(metadata.root_is_foreign);
    out.number(metadata.device);
    out.number(std::bit_cast<std::uint64_t>(metadata.prescale));
    out.number(std::bit_cast<std::uint64_t>(metadata.postscale));
    for (int i = 0; i < metadata.ndim; ++i) {
        out.number(metadata.shape[i]);
    }
}

void put(WireWriter& out, const std::vector<RankRange>& ranges) {
    out.number(length_of(ranges.size()));
    for (const RankRange& range : ranges) {
        out.number(range.first);
        out.number(range.last);
    }
}

void put(WireWriter& out, const Claim& claim) {
    out.number(static_cast<std::uint8_t>(claim.metadata ? 1 : 0));
    if (claim.metadata) {
        put(out, *claim.metadata);
    }
    put(out, claim.ranks);
}

void put(WireWriter& out, std::span<const std::int64_t> rows) {
    out.number(length_of(rows.size()));
    out.append(std::as_bytes(rows));
}

void put(WireWriter& out, const CarriedBytes& bytes) {
    out.number(length_of(bytes.size()));
    out.append(bytes);
}

KeyKind kind_of(const TensorKey& key) { return key.call ? KeyKind::call : key.id != 0 ? KeyKind::id : KeyKind::name; }

bool has_joined(const Announcement& announcement) {
    return !announcement.joined.empty() || !announcement.uncounted.empty();
}

/// Nearly all announcements have an id and no optional fields. Such an announcement takes 12 bytes.
void put(WireWriter& out, const Announcement& announcement) {
    const KeyKind kind = kind_of(announcement.key);
    out.number(static_cast<std::uint8_t>(kind));
    out.number(static_cast<std::uint8_t>(announcement.claims.size()));
    out.number(static_cast<std::uint16_t>((announcement.rows.empty() ? 0 : kAnnouncedRows) |
                                          (has_joined(announcement) ? kAnnouncedJoined : 0) |
                                          (announcement.input.empty() ? 0 : kAnnouncedInput)));
    if (kind == KeyKind::name) {
        out.text(announcement.key.name);
    } else {
        out.number(kind == KeyKind::id ? announcement.key.id : *announcement.key.call);
    }
    for (const Claim& claim : announcement.claims) {
        put(out, claim);
    }
    if (!announcement.rows.empty()) {
        out.number(length_of(announcement.rows.size()));
        for (const HostRows& rows : announcement.rows) {
            out.number(rows.host);
            put(out, rows.rows);
        }
    }
    if (has_joined(announcement)) {
        put(out, announcement.joined);
        put(out, announcement.uncounted);
    }
    if (!announcement.input.empty()) {
        put(out, announcement.input);
    }
}

bool has_text(DecisionKind kind) {
    return kind == DecisionKind::disagreed || kind == DecisionKind::lacks_joined || kind == DecisionKind::impossible;
}
bool has_rank(DecisionKind kind) { return kind == DecisionKind::closing || kind == DecisionKind::all_joined; }

std::uint8_t flags_of(const Decision& decision) {
    return static_cast<std::uint8_t>((decision.ends_batch ? kEndsBatch : 0) | (decision.id != 0 ? kHasId : 0) |
                                     (decision.name.empty() ? 0 : kHasName) | (decision.call ? kHasCall : 0) |
                                     (decision.rows.empty() ? 0 : kHasRows) | (decision.metadata ? kHasMetadata : 0) |
                                     (decision.uncounted != 0 ? kHasUncounted : 0) |
                                     (decision.result.empty() ? 0 : kHasResult));
}

void put(WireWriter& out, const Decision& decision) {
    out.number(static_cast<std::uint8_t>(decision.kind));
    out.number(flags_of(decision));
    if (decision.id != 0) {
        out.number(decision.id);
    }
    if (!decision.name.empty()) {
        out.text(decision.name);
    }
    if (decision.call) {
        out.number(*decision.call);
    }
    if (!decision.rows.empty()) {
        put(out, decision.rows);
    }
    if (decision.kind == DecisionKind::call) {
        out.number(decision.operation);
        out.number(decision.bytes);
        if (decision.metadata) {
            put(out, *decision.metadata);
        }
        if (decision.uncounted != 0) {
            out.number(decision.uncounted);
        }
        if (!decision.result.empty()) {
            put(out, decision.result);
        }
    } else if (decision.kind == DecisionKind::offered) {
        if (decision.metadata) {
            put(out, *decision.metadata);
        }
        if (!decision.result.empty()) {
            put(out, decision.result);
        }
    } else if (has_text(decision.kind)) {
        out.text(decision.text);
        if (decision.kind == DecisionKind::impossible) {
            out.number(static_cast<std::int32_t>(decision.code));
        }
    } else if (has_rank(decision.kind)) {
        out.number(decision.rank);
    }
}

void put_ranks(WireWriter& out, const std::vector<std::int32_t>& ranks) {
    out.number(length_of(ranks.size()));
    for (const std::int32_t rank : ranks) {
        out.number(rank);
    }
}

void put(WireWriter& out, const UpMessage& message) {
    out.number(static_cast<std::uint8_t>(MessageKind::up));
    out.number(message.number);
    out.number(length_of(message.releases.size()));
    for (const Release& release : message.releases) {
        out.number(release.id);
        out.number(release.hosts);
    }
    put_ranks(out, message.joined);
    out.number(length_of(message.announcements.size()));
    for (const Announcement& announcement : message.announcements) {
        put(out, announcement);
    }
    put_ranks(out, message.shutting_down);
    out.number(message.settled_hosts);
    out.number(message.closed_hosts);
}

void put(WireWriter& out, const DownMessage& message) {
    out.number(static_cast<std::uint8_t>(MessageKind::down));
    out.number(message.acknowledged);
    out.number(length_of(message.decisions.size()));
    for (const Decision& decision : message.decisions) {
        put(out, decision);
    }
}

void put(WireWriter& out, const AbortMessage& message) {
    out.number(static_cast<std::uint8_t>(MessageKind::abort));
    out.number(message.code);
    out.text(base::printable(message.text, kMostTextBytes));
}

void put(WireWriter& out, const HeartbeatMessage& /*message*/) {
    out.number(static_cast<std::uint8_t>(MessageKind::heartbeat));
}

void put(WireWriter& out, const WithdrawalMessage& message) {
    out.number(static_cast<std::uint8_t>(MessageKind::withdrawal));
    out.number(message.taken);
}

/// Parses a message. Each list gets memory only for the elements that were read, so a false length cannot cause a large
/// allocation.
class Parser {
public:
    Parser(std::span<const std::byte> bytes, std::uint32_t ranks, std::uint32_t hosts)
        : in_(bytes), ranks_(ranks), hosts_(hosts) {}

    Result<TreeMessage> message() {
        TreeMessage message = content();
        if (wrong_.empty() && !in_.complete()) {
            wrong_ = in_.intact() ? "there are bytes behind its end" : "it ends too early, or a text in it is too long";
        }
        if (!wrong_.empty()) {
            return failure(ErrorCode::internal, "a message between hosts is damaged: {}", wrong_);
        }
        return message;
    }

private:
    TreeMessage content() {
        const auto kind = in_.number<std::uint8_t>();
        switch (static_cast<MessageKind>(kind)) {
            case MessageKind::up:
                return up();
            case MessageKind::down:
                return down();
            case MessageKind::abort:
                return abort();
            case MessageKind::heartbeat:
                return HeartbeatMessage{};
            case MessageKind::withdrawal:
                return WithdrawalMessage{in_.number<std::uint64_t>()};
        }
        expect(false, "its kind is {}", kind);
        return HeartbeatMessage{};
    }

    UpMessage up() {
        UpMessage message;
        message.number = in_.number<std::uint64_t>();
        expect(message.number != 0, "its number is 0");
        each([&] { message.releases.push_back(release()); });
        each([&] { message.joined.push_back(rank()); });
        each([&] { message.announcements.push_back(announcement()); });
        each([&] { message.shutting_down.push_back(rank()); });
        message.settled_hosts = in_.number<std::uint32_t>();
        expect(message.settled_hosts <= hosts_, "{} of {} hosts have settled", message.settled_hosts, hosts_);
        message.closed_hosts = in_.number<std::uint32_t>();
        expect(message.closed_hosts <= hosts_, "{} of {} hosts have closed", message.closed_hosts, hosts_);
        return message;
    }

    DownMessage down() {
        DownMessage message;
        message.acknowledged = in_.number<std::uint64_t>();
        each([&] { message.decisions.push_back(decision()); });
        return message;
    }

    AbortMessage abort() {
        AbortMessage message;
        message.code = in_.number<std::int32_t>();
        expect(message.code > 0 && message.code <= static_cast<std::int32_t>(ErrorCode::internal),
               "its error code is {}", message.code);
        message.text = in_.text(kMostTextBytes);
        expect(base::printable(message.text, kMostTextBytes) == message.text,
               "the reason it gives is more than a line");
        return message;
    }

    Release release() {
        Release release;
        release.id = in_.number<std::uint64_t>();
        release.hosts = in_.number<std::uint32_t>();
        expect(release.id != 0 && release.hosts != 0 && release.hosts <= hosts_, "id {} is released by {} of {} hosts",
               release.id, release.hosts, hosts_);
        return release;
    }

    Announcement announcement() {
        Announcement announcement;
        const auto kind = in_.number<std::uint8_t>();
        const auto claims = in_.number<std::uint8_t>();
        const auto flags = in_.number<std::uint16_t>();
        expect(claims <= kMostClaims, "an announcement has {} claims, and {} are the most", claims, kMostClaims);
        expect(flags <= kAllAnnounced, "an announcement has the flags {}", flags);
        announcement.key = key(kind);
        for (unsigned i = 0; i < claims && goes_on(); ++i) {
            announcement.claims.push_back(claim());
        }
        if ((flags & kAnnouncedRows) != 0) {
            std::int64_t before = -1;
            each([&] {
                announcement.rows.push_back(host_rows(before));
                before = announcement.rows.back().host;
            });
            expect(!announcement.rows.empty(),
                   "an announcement says that it has first dimensions, but has those of no host");
        }
        if ((flags & kAnnouncedJoined) != 0) {
            announcement.joined = ranges("who has joined");
            announcement.uncounted = ranges("who is not counted");
            expect(has_joined(announcement), "an announcement says that it has joined ranks, but lists none");
        }
        if ((flags & kAnnouncedInput) != 0) {
            expect((flags & kAnnouncedJoined) == 0 && claims == 0, "an announcement with claims carries an input");
            announcement.input = carried();
        }
        return announcement;
    }

    CarriedBytes carried() {
        const auto count = in_.number<std::uint32_t>();
        expect(count > 0 && count <= kMostCarriedBytes, "a message carries {} bytes of a tensor, and {} are the most",
               count, kMostCarriedBytes);
        if (!goes_on()) {
            return {};
        }
        const std::span<const std::byte> bytes = in_.take(count);
        return {bytes.begin(), bytes.end()};
    }

    TensorKey key(std::uint8_t kind) {
        TensorKey key;
        if (kind == static_cast<std::uint8_t>(KeyKind::id)) {
            key.id = id();
        } else if (kind == static_cast<std::uint8_t>(KeyKind::name)) {
            key.name = name();
        } else {
            expect(kind == static_cast<std::uint8_t>(KeyKind::call), "a tensor is identified in an unknown way ({})",
                   kind);
            key.call = in_.number<std::uint64_t>();
        }
        return key;
    }

    std::uint64_t id() {
        const auto id = in_.number<std::uint64_t>();
        expect(id != 0, "a tensor has the id 0");
        return id;
    }
    std::string name() {
        std::string name = in_.text(RUEDA_MAX_NAME);
        expect(!name.empty(), "a name is empty");
        return name;
    }
    std::int32_t rank() {
        const auto rank = in_.number<std::int32_t>();
        expect(is_rank(rank), "rank {} is not one of {}", rank, ranks_);
        return rank;
    }
    [[nodiscard]] bool is_rank(std::int32_t rank) const {
        return rank >= 0 && static_cast<std::uint32_t>(rank) < ranks_;
    }

    Claim claim() {
        Claim claim;
        const auto has_metadata = in_.number<std::uint8_t>();
        expect(has_metadata <= 1, "a claim has the flags {}", has_metadata);
        if (has_metadata == 1) {
            claim.metadata = metadata();
        }
        claim.ranks = ranges("a claim");
        expect(!claim.ranks.empty(), "a claim is nobody's");
        return claim;
    }

    std::vector<RankRange> ranges(const char* whose) {
        std::vector<RankRange> ranges;
        std::int32_t before = -1;
        each([&] {
            const RankRange range = {in_.number<std::int32_t>(), in_.number<std::int32_t>()};
            expect(range.first > before && range.first <= range.last && is_rank(range.last),
                   "{} has the ranks {} to {} behind {}, of {}", whose, range.first, range.last, before, ranks_);
            before = range.last;
            ranges.push_back(range);
        });
        return ranges;
    }

    Metadata metadata() {
        Metadata metadata;
        metadata.operation = in_.number<std::uint8_t>();
        metadata.dtype = in_.number<std::uint8_t>();
        metadata.reduce_op = in_.number<std::uint8_t>();
        metadata.ndim = in_.number<std::uint8_t>();
        metadata.root = in_.number<std::int32_t>();
        metadata.process_set = in_.number<std::int32_t>();
        metadata.compression = in_.number<std::uint16_t>();
        metadata.root_is_foreign = in_.number<std::uint8_t>();
        metadata.device = in_.number<std::uint8_t>();
        metadata.prescale = std::bit_cast<double>(in_.number<std::uint64_t>());
        metadata.postscale = std::bit_cast<double>(in_.number<std::uint64_t>());
        expect(metadata.ndim <= RUEDA_MAX_DIMENSIONS, "a tensor has {} dimensions", metadata.ndim);
        for (int i = 0; i < metadata.ndim && goes_on(); ++i) {
            metadata.shape[i] = in_.number<std::int64_t>();
        }
        expect(is_plausible(metadata) && (metadata.root_is_foreign != 0 || is_rank(metadata.root)),
               "metadata that no rank means");
        return metadata;
    }

    HostRows host_rows(std::int64_t host_before) {
        HostRows rows;
        rows.host = in_.number<std::uint32_t>();
        expect(rows.host > host_before && rows.host < hosts_, "first dimensions of host {} behind {}, of {}", rows.host,
               host_before, hosts_);
        rows.rows = first_dimensions(0);
        return rows;
    }
    std::vector<std::int64_t> first_dimensions(std::int64_t least) {
        std::vector<std::int64_t> rows;
        each([&] {
            rows.push_back(in_.number<std::int64_t>());
            expect(rows.back() >= least, "a first dimension is {}", rows.back());
        });
        expect(!rows.empty() && rows.size() <= ranks_, "{} first dimensions for {} ranks", rows.size(), ranks_);
        return rows;
    }

    Decision decision() {
        Decision decision;
        const auto kind = in_.number<std::uint8_t>();
        const auto flags = in_.number<std::uint8_t>();
        decision.kind = static_cast<DecisionKind>(kind);
        expect(kind >= static_cast<std::uint8_t>(DecisionKind::call) &&
                   kind <= static_cast<std::uint8_t>(DecisionKind::offered),
               "a decision is of the kind {}", kind);
        expect(may_have(decision.kind, flags), "a decision of the kind {} has the flags {}", kind, flags);
        decision.ends_batch = (flags & kEndsBatch) != 0;
        if ((flags & kHasId) != 0) {
            decision.id = id();
        }
        if ((flags & kHasName) != 0) {
            decision.name = name();
        }
        if ((flags & kHasCall) != 0) {
            decision.call = in_.number<std::uint64_t>();
        }
        if ((flags & kHasRows) != 0) {
            decision.rows = first_dimensions(kJoinedRows);
        }
        rest_of(decision, flags);
        return decision;
    }

    static bool may_have(DecisionKind kind, std::uint8_t flags) {
        constexpr unsigned kKeyFlags = kHasId | kHasName | kHasCall;
        const bool has_id = (flags & kHasId) != 0;
        const bool has_name = (flags & kHasName) != 0;
        const bool has_call = (flags & kHasCall) != 0;
        switch (kind) {
            case DecisionKind::call:
                return has_call ? !has_id && !has_name : has_id;
            case DecisionKind::disagreed:
                return (flags & ~(kKeyFlags | kHasRows)) == 0 && (has_call ? !has_id && !has_name : has_id || has_name);
            case DecisionKind::lacks_joined:
            case DecisionKind::impossible:
                return (flags & ~kKeyFlags) == 0 && (has_call ? !has_id && !has_name : has_id || has_name);
            case DecisionKind::wanted:
                return flags == kHasId || flags == kHasName || flags == kHasCall;
            case DecisionKind::closing:
            case DecisionKind::closed:
            case DecisionKind::all_joined:
                return flags == 0;
            case DecisionKind::forget:
                return flags == kHasId;
            case DecisionKind::offered:
                return (flags & ~kHasResult) == (kHasId | kHasMetadata);
        }
        return false;
    }

    void rest_of(Decision& decision, std::uint8_t flags) {
        if (decision.kind == DecisionKind::call) {
            decision.operation = in_.number<std::uint8_t>();
            decision.bytes = in_.number<std::uint64_t>();
            expect(decision.operation <= static_cast<std::uint8_t>(collectives::kLastOperation),
                   "the operation {} is called", decision.operation);
            const bool variable_rows = has_variable_rows(static_cast<collectives::Operation>(decision.operation));
            expect(decision.rows.size() == (variable_rows ? ranks_ : 0),
                   "the operation {} is called with {} first dimensions", decision.operation, decision.rows.size());
            without_joined(decision, flags);
            if ((flags & kHasResult) != 0) {
                expect(decision.ends_batch && (flags & (kHasMetadata | kHasUncounted)) == 0 &&
                           decision.operation == static_cast<std::uint8_t>(collectives::Operation::allreduce),
                       "a call of the operation {} with the flags {} has a result", decision.operation, flags);
                decision.result = carried();
                expect(decision.result.size() == decision.bytes, "a tensor of {} bytes has a result of {}",
                       decision.bytes, decision.result.size());
            }
        } else if (decision.kind == DecisionKind::offered) {
            decision.metadata = metadata();
            expect(!has_variable_rows(static_cast<collectives::Operation>(decision.metadata->operation)),
                   "the operation {} is offered without its first dimensions", decision.metadata->operation);
            if ((flags & kHasResult) != 0 && goes_on()) {  // the size of metadata that are not plausible has no meaning
                decision.result = carried();
                const std::uint64_t bytes = bytes_of(*decision.metadata);
                expect(decision.result.size() == bytes, "a tensor of {} bytes is offered with an input of {}", bytes,
                       decision.result.size());
            }
        } else if (has_text(decision.kind)) {
            decision.text = in_.text(kMostTextBytes);
            expect(!decision.text.empty(), "a disagreement says nothing");
            expect(
                std::all_of(decision.rows.begin(), decision.rows.end(), [](std::int64_t count) { return count > 0; }),
                "a disagreement is about a group without members");
            if (decision.kind == DecisionKind::impossible) {
                const auto code = in_.number<std::int32_t>();
                decision.code = static_cast<ErrorCode>(code);
                expect(is_refusal(decision.code), "a refusal has the code {}", code);
            }
        } else if (has_rank(decision.kind)) {
            decision.rank = rank();
        }
    }

    /// Parses those optional fields of a call that are needed if some ranks have joined.
    void without_joined(Decision& decision, std::uint8_t flags) {
        if ((flags & kHasMetadata) != 0) {
            decision.metadata = metadata();
            expect(decision.metadata->operation == decision.operation,
                   "the operation {} is called with the metadata of {}", decision.operation,
                   decision.metadata->operation);
        }
        if ((flags & kHasUncounted) != 0) {
            decision.uncounted = in_.number<std::uint32_t>();
            expect(decision.uncounted != 0 && decision.uncounted < ranks_, "an average counts all of {} ranks but {}",
                   ranks_, decision.uncounted);
        }
        const bool lacks = std::any_of(decision.rows.begin(), decision.rows.end(),
                                       [](std::int64_t rows) { return rows == kJoinedRows; });
        expect(!lacks || goes_on_without_joined(static_cast<collectives::Operation>(decision.operation)),
               "the operation {} is called without some ranks", decision.operation);
    }

    template <class Element>
    void each(Element element) {
        const auto count = in_.number<std::uint32_t>();
        for (std::uint32_t i = 0; i < count && goes_on(); ++i) {
            element();
        }
    }
    [[nodiscard]] bool goes_on() const { return wrong_.empty() && in_.intact(); }

    /// Records an error if `holds` is false. Keeps only the first error, because one missing byte causes further
    /// errors.
    template <class... Args>
    void expect(bool holds, fmt::format_string<Args...> text, Args&&... args) {
        if (!holds && goes_on()) {
            wrong_ = fmt::format(text, std::forward<Args>(args)...);
        }
    }

    WireReader in_;
    std::uint32_t ranks_;
    std::uint32_t hosts_;
    std::string wrong_;
};

std::size_t encoded_bytes(const std::optional<Metadata>& metadata) {
    constexpr std::size_t kMetadataHead = offsetof(Metadata, shape);
    return metadata ? kMetadataHead + sizeof(std::int64_t) * static_cast<std::size_t>(metadata->ndim) : 0;
}

std::size_t encoded_bytes(const std::vector<RankRange>& ranges) {
    return kLengthBytes + sizeof(RankRange) * ranges.size();
}

std::size_t encoded_bytes(const Claim& claim) { return 1 + encoded_bytes(claim.metadata) + encoded_bytes(claim.ranks); }

std::size_t encoded_bytes(std::span<const std::int64_t> rows) { return kLengthBytes + rows.size_bytes(); }

std::size_t encoded_bytes(const CarriedBytes& bytes) { return bytes.empty() ? 0 : kLengthBytes + bytes.size(); }

}  // namespace

bool accepts(const UpMessage& message, const Decision& offer) {
    if (message.announcements.size() != 1 || !message.releases.empty() || !message.joined.empty() ||
        !message.shutting_down.empty() || message.settled_hosts != 0 || message.closed_hosts != 0) {
        return false;
    }
    const Announcement& announced = message.announcements.front();
    return announced.key.id == offer.id && announced.claims.empty() && announced.rows.empty() &&
           !has_joined(announced) && announced.input.size() == offer.result.size();
}

std::size_t most_message_bytes(std::uint32_t ranks) {
    // The longest part of a message is an announcement. An announcement has at most a name and kMostClaims claims; a
    // claim without its ranks takes less than 200 bytes. Each rank adds at most 8 bytes of rank ranges. A rank that is
    // alone on its host also adds 16 bytes of first dimensions.
    constexpr std::size_t kLongestHead = 32 * 1024;
    constexpr std::size_t kPerRank = 24;
    constexpr std::size_t kLeast = 64 * 1024;
    return std::max(kLeast, kLongestHead + kPerRank * ranks);
}

std::size_t empty_message_bytes() { return kUpHeadBytes; }

std::size_t encoded_bytes(const Announcement& announcement) {
    std::size_t bytes = 4;
    bytes += kind_of(announcement.key) == KeyKind::name ? kLengthBytes + announcement.key.name.size() : kNumberBytes;
    for (const Claim& claim : announcement.claims) {
        bytes += encoded_bytes(claim);
    }
    if (!announcement.rows.empty()) {
        bytes += kLengthBytes;
        for (const HostRows& rows : announcement.rows) {
            bytes += sizeof(rows.host) + encoded_bytes(rows.rows);
        }
    }
    if (has_joined(announcement)) {
        bytes += encoded_bytes(announcement.joined) + encoded_bytes(announcement.uncounted);
    }
    bytes += encoded_bytes(announcement.input);
    return bytes;
}

std::size_t encoded_bytes(const Decision& decision) {
    std::size_t bytes = 2;
    bytes += decision.id != 0 ? kNumberBytes : 0;
    bytes += decision.name.empty() ? 0 : kLengthBytes + decision.name.size();
    bytes += decision.call ? kNumberBytes : 0;
    bytes += decision.rows.empty() ? 0 : encoded_bytes(decision.rows);
    bytes += decision.kind == DecisionKind::call ? 1 + kNumberBytes : 0;
    bytes += encoded_bytes(decision.metadata) + (decision.uncounted != 0 ? sizeof(decision.uncounted) : 0);
    bytes += encoded_bytes(decision.result);
    bytes += has_text(decision.kind) ? kLengthBytes + decision.text.size() : 0;
    bytes += decision.kind == DecisionKind::impossible ? sizeof(std::int32_t) : 0;
    bytes += has_rank(decision.kind) ? sizeof(decision.rank) : 0;
    return bytes;
}

std::vector<std::byte> encode(const TreeMessage& message) {
    WireWriter out;
    std::visit([&out](const auto& content) { put(out, content); }, message);
    return std::move(out).take();
}

Result<TreeMessage> parse_tree_message(std::span<const std::byte> bytes, std::uint32_t ranks, std::uint32_t hosts) {
    return Parser(bytes, ranks, hosts).message();
}

}  // namespace rueda::core
