// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_inquiry.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.hpp"
#include "collectives/wire.hpp"
#include "core/diagnostics/awaited_message.hpp"
#include "core/diagnostics/seconds.hpp"
#include "rueda/rueda.h"

namespace rueda::core {

using collectives::Transport;
using collectives::WireReader;
using collectives::WireWriter;

namespace {

/// How long the root waits for the hosts' accounts (what each host knows about its pending tensors).
constexpr std::int64_t kAnswerNs = 3 * kSecond / 2;
/// How long the root waits for accounts that must contain stacks. This is longer than a host waits for the stacks of
/// its ranks, which is 2.5 s at most.
constexpr std::int64_t kStacksAnswerNs = 4 * kSecond;
/// The length of the longest text of a stack, in bytes.
constexpr std::size_t kStackBytes = 4096;
/// The maximum number of tensors in an account. A report prints no more than this.
constexpr std::size_t kMostTensors = 64;
constexpr std::size_t kMostWaits = 8;
constexpr std::size_t kLongestWords = 128;
/// The length of the longest reason in a record message, in bytes. The reason is the summary of a report: one line,
/// which may name many ranks.
constexpr std::size_t kLongestReasonToRecord = 4096;
/// The maximum number of call sites in a tensor's entry, for the ranks of one host.
constexpr std::size_t kMostSites = 4;
/// How many bytes of a message the tensors of an account may take. The rest of the message is reserved for the entries
/// of the host's ranks. It is enough for the largest number of ranks that a host may have.
constexpr std::size_t kTensorBytes = kMostStallMessageBytes / 3;

std::int64_t milliseconds(double seconds) { return std::llround(seconds * 1e3); }

void write_ranks(WireWriter& writer, const std::vector<std::int32_t>& ranks) {
    writer.number(static_cast<std::uint32_t>(ranks.size()));
    for (const std::int32_t rank : ranks) {
        writer.number(rank);
    }
}

std::vector<std::int32_t> read_ranks(WireReader& reader, std::uint32_t ranks, bool& plausible) {
    std::vector<std::int32_t> read;
    const auto count = reader.number<std::uint32_t>();
    plausible = plausible && reader.intact() && count <= ranks;
    for (std::uint32_t i = 0; plausible && i < count; ++i) {
        read.push_back(reader.number<std::int32_t>());
        plausible = reader.intact() && read.back() >= 0 && read.back() < static_cast<std::int32_t>(ranks);
    }
    return read;
}

void write_tensor(WireWriter& writer, const StallReport::Tensor& tensor) {
    writer.text(tensor.name);
    writer.number(tensor.call);
    writer.number(milliseconds(tensor.seconds));
    write_ranks(writer, tensor.ready);
    write_ranks(writer, tensor.unfinished);
    write_ranks(writer, tensor.unread);
    write_ranks(writer, tensor.unseen);
    const std::size_t sites = std::min(tensor.sites.size(), kMostSites);
    writer.number(static_cast<std::uint32_t>(sites));
    for (std::size_t i = 0; i < sites; ++i) {
        writer.text(std::string_view(tensor.sites[i].site).substr(0, kSiteBytes));
        write_ranks(writer, tensor.sites[i].ranks);
    }
}

StallReport::Tensor read_tensor(WireReader& reader, std::uint32_t ranks, bool& plausible) {
    StallReport::Tensor tensor;
    tensor.name = reader.text(RUEDA_MAX_NAME);
    tensor.call = reader.number<std::uint64_t>();
    tensor.seconds = static_cast<double>(reader.number<std::int64_t>()) / 1e3;
    plausible = plausible && reader.intact() && tensor.seconds >= 0;
    tensor.ready = read_ranks(reader, ranks, plausible);
    tensor.unfinished = read_ranks(reader, ranks, plausible);
    tensor.unread = read_ranks(reader, ranks, plausible);
    tensor.unseen = read_ranks(reader, ranks, plausible);
    const auto sites = reader.number<std::uint32_t>();
    plausible = plausible && reader.intact() && sites <= kMostSites;
    for (std::uint32_t i = 0; plausible && i < sites; ++i) {
        const std::string site = base::printable(reader.text(kSiteBytes));
        tensor.sites.push_back({site, read_ranks(reader, ranks, plausible)});
        plausible = plausible && !site.empty() && !tensor.sites.back().ranks.empty();
    }
    return tensor;
}

void write_rank(WireWriter& writer, const StallReport::Rank& rank) {
    writer.number(rank.rank);
    writer.number(rank.pid);
    writer.text(base::shortened(rank.process_state, kLongestWords));
    writer.text(base::shortened(rank.busy, kLongestWords));
    writer.number(rank.unnamed);
    writer.number(milliseconds(rank.silent_seconds));
    writer.text(base::shortened(rank.host, kLongestWords));
    writer.number(rank.step);
    writer.number(milliseconds(rank.busy_seconds));
    writer.number(static_cast<std::uint8_t>(rank.finished ? 1 : 0));
    if (rank.finished) {
        writer.text(rank.finished->name);
        writer.number(rank.finished->call);
        writer.number(milliseconds(rank.finished->seconds));
    }
    writer.number(static_cast<std::uint32_t>(std::min(rank.waits_in.size(), kMostWaits)));
    for (std::size_t i = 0; i < std::min(rank.waits_in.size(), kMostWaits); ++i) {
        writer.text(rank.waits_in[i].name);
        writer.number(rank.waits_in[i].call);
        writer.number(milliseconds(rank.waits_in[i].seconds));
        const auto& message = rank.waits_in[i].message;
        writer.number(message ? MessageWord::of(*message) : std::uint64_t{0});
        const auto& sites = rank.waits_in[i].sites;
        writer.text(sites.empty() ? std::string_view() : std::string_view(sites.front().site).substr(0, kSiteBytes));
    }
}

StallReport::Rank read_rank(WireReader& reader, std::uint32_t ranks, bool& plausible) {
    StallReport::Rank rank;
    rank.rank = reader.number<std::int32_t>();
    rank.pid = reader.number<std::int32_t>();
    rank.process_state = base::printable(reader.text(kLongestWords));
    rank.busy = base::printable(reader.text(kLongestWords));
    rank.unnamed = reader.number<std::uint64_t>();
    rank.silent_seconds = static_cast<double>(reader.number<std::int64_t>()) / 1e3;
    rank.host = base::printable(reader.text(kLongestWords));
    rank.step = reader.number<std::int64_t>();
    rank.busy_seconds = static_cast<double>(reader.number<std::int64_t>()) / 1e3;
    const auto has_finished = reader.number<std::uint8_t>();
    plausible = plausible && reader.intact() && has_finished <= 1;
    if (plausible && has_finished == 1) {
        StallReport::Tensor& finished = rank.finished.emplace(StallReport::Tensor{});
        finished.name = reader.text(RUEDA_MAX_NAME);
        finished.call = reader.number<std::uint64_t>();
        finished.seconds = static_cast<double>(reader.number<std::int64_t>()) / 1e3;
    }
    const auto waits = reader.number<std::uint32_t>();
    plausible = plausible && reader.intact() && rank.rank >= 0 && rank.rank < static_cast<std::int32_t>(ranks) &&
                waits <= kMostWaits;
    for (std::uint32_t i = 0; plausible && i < waits; ++i) {
        StallReport::Tensor& tensor = rank.waits_in.emplace_back();
        tensor.name = reader.text(RUEDA_MAX_NAME);
        tensor.call = reader.number<std::uint64_t>();
        tensor.seconds = static_cast<double>(reader.number<std::int64_t>()) / 1e3;
        tensor.message = MessageWord::message(reader.number<std::uint64_t>());
        add_site(tensor.sites, base::printable(reader.text(kSiteBytes)), rank.rank);
        plausible = reader.intact();
    }
    return rank;
}

void write_stack(WireWriter& writer, const StallReport::Rank& rank) {
    writer.number(rank.rank);
    writer.text(base::shortened(rank.stack, kStackBytes));
}

/// Reads the stack of one of the ranks in `described`.
void read_stack(WireReader& reader, std::vector<StallReport::Rank>& described, bool& plausible) {
    const auto number = reader.number<std::int32_t>();
    std::string stack = base::printable_lines(reader.text(kStackBytes));
    const auto rank = std::find_if(described.begin(), described.end(),
                                   [number](const StallReport::Rank& one) { return one.rank == number; });
    plausible = reader.intact() && rank != described.end() && rank->stack.empty() && !stack.empty();
    if (plausible) {
        rank->stack = std::move(stack);
    }
}

void append(std::vector<std::int32_t>& ranks, const std::vector<std::int32_t>& more) {
    ranks.insert(ranks.end(), more.begin(), more.end());
}

/// Writes a count and then that many of `items`: at most `most` items, and only as many as fit into `bytes` bytes.
/// Returns the count.
template <class Items, class Write>
std::size_t write_some(WireWriter& writer, const Items& items, std::size_t most, std::size_t bytes, Write&& write) {
    std::vector<collectives::Bytes> written;
    for (std::size_t i = 0; i < std::min(items.size(), most); ++i) {
        WireWriter one;
        write(one, items[i]);
        collectives::Bytes encoded = std::move(one).take();
        if (encoded.size() > bytes) {
            break;
        }
        bytes -= encoded.size();
        written.push_back(std::move(encoded));
    }
    writer.number(static_cast<std::uint32_t>(written.size()));
    for (const collectives::Bytes& one : written) {
        writer.append(one);
    }
    return written.size();
}

/// The key by which all hosts sort the tensors in their accounts. All lists therefore begin with the same tensors, even
/// if the ends of some lists were cut off.
using Key = std::pair<std::string, std::uint64_t>;
Key key_of(const StallReport::Tensor& tensor) {
    // Messages (sends and receives) of several ranks may have the same text, so the rank that waits is a part of the
    // key.
    return tensor.message && !tensor.ready.empty()
               ? Key(tensor.name, static_cast<std::uint64_t>(tensor.ready.front()) + 1)
               : Key(tensor.name, tensor.call);
}

std::vector<StallReport::Tensor> in_order(std::vector<StallReport::Tensor> tensors) {
    std::sort(tensors.begin(), tensors.end(),
              [](const StallReport::Tensor& a, const StallReport::Tensor& b) { return key_of(a) < key_of(b); });
    return tensors;
}

/// The sends and receives of all hosts that have been pending for a long time.
std::vector<StallReport::Tensor> late_messages(std::span<const HostAccount> accounts,
                                               std::span<const std::int32_t> host_of) {
    std::vector<std::int32_t> all;
    for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
        if (host_of[rank] >= 0) {
            all.push_back(static_cast<std::int32_t>(rank));
        }
    }
    std::vector<StallReport::Tensor> late;
    for (const HostAccount& account : accounts) {
        for (const StallReport::Rank& rank : account.ranks) {
            for (const StallReport::Tensor& waits_in : rank.waits_in) {
                const bool is_plausible =
                    waits_in.message && waits_in.message->peer < static_cast<std::int32_t>(host_of.size());
                if (is_plausible && waits_in.message->is_late) {
                    late.push_back(with_sides(waits_in, rank.rank, all));
                }
            }
        }
    }
    return late;
}

/// Returns the key of the last tensor whose state is known for all hosts. If the end of a host's account was cut off,
/// the host's state is not known for the tensors behind the cut. Returns nothing if no account was cut off.
std::optional<Key> last_known(std::span<const HostAccount> accounts) {
    std::optional<Key> last;
    for (const HostAccount& account : accounts) {
        if (account.cut) {
            const Key key = account.tensors.empty() ? Key() : key_of(account.tensors.back());
            last = last ? std::min(*last, key) : key;
        }
    }
    return last;
}

}  // namespace

std::vector<std::byte> encode(const StallMessage& message) {
    WireWriter writer;
    writer.number(static_cast<std::uint8_t>(message.kind));
    writer.number(message.inquiry);
    if (message.kind == StallMessageKind::account) {
        constexpr std::size_t kHeads = 64;
        writer.number(message.account.host);
        const bool all = write_some(writer, in_order(message.account.tensors), kMostTensors, kTensorBytes,
                                    write_tensor) == message.account.tensors.size();
        writer.number(static_cast<std::uint8_t>(all && !message.account.cut ? 0 : 1));
        const std::size_t described = write_some(writer, message.account.ranks, ~std::size_t{0},
                                                 kMostStallMessageBytes - kTensorBytes - kHeads, write_rank);
        // The stacks come last, and use the bytes that are left in the message.
        std::vector<StallReport::Rank> stacks(message.account.ranks.begin(),
                                              message.account.ranks.begin() + static_cast<std::ptrdiff_t>(described));
        std::erase_if(stacks, [](const StallReport::Rank& rank) { return rank.stack.empty(); });
        write_some(writer, stacks, ~std::size_t{0}, kMostStallMessageBytes - writer.size() - sizeof(std::uint32_t),
                   write_stack);
    } else if (message.kind == StallMessageKind::question) {
        write_ranks(writer, message.stacks_of);
    } else if (message.kind == StallMessageKind::record) {
        writer.text(base::shortened(message.reason, kLongestReasonToRecord));
    }
    return std::move(writer).take();
}

Result<StallMessage> parse_stall_message(std::span<const std::byte> bytes, std::uint32_t ranks, std::uint32_t hosts) {
    WireReader reader(bytes);
    StallMessage message;
    message.kind = static_cast<StallMessageKind>(reader.number<std::uint8_t>());
    message.inquiry = reader.number<std::uint32_t>();
    bool plausible = message.kind >= StallMessageKind::notice && message.kind <= StallMessageKind::record;
    if (plausible && message.kind == StallMessageKind::account) {
        message.account.host = reader.number<std::uint32_t>();
        const auto tensors = reader.number<std::uint32_t>();
        plausible = reader.intact() && message.account.host < hosts && tensors <= kMostTensors;
        for (std::uint32_t i = 0; plausible && i < tensors; ++i) {
            message.account.tensors.push_back(read_tensor(reader, ranks, plausible));
        }
        const auto cut = reader.number<std::uint8_t>();
        message.account.cut = cut != 0;
        plausible = plausible && cut <= 1;
        const auto described = reader.number<std::uint32_t>();
        plausible = plausible && reader.intact() && described <= ranks;
        for (std::uint32_t i = 0; plausible && i < described; ++i) {
            message.account.ranks.push_back(read_rank(reader, ranks, plausible));
        }
        const auto stacks = reader.number<std::uint32_t>();
        plausible = plausible && reader.intact() && stacks <= described;
        for (std::uint32_t i = 0; plausible && i < stacks; ++i) {
            read_stack(reader, message.account.ranks, plausible);
        }
    } else if (plausible && message.kind == StallMessageKind::question) {
        message.stacks_of = read_ranks(reader, ranks, plausible);
    } else if (plausible && message.kind == StallMessageKind::record) {
        message.reason = base::printable(reader.text(kLongestReasonToRecord));
    }
    if (!plausible || !reader.complete()) {
        return failure(ErrorCode::internal,
                       "a leader sent {} bytes about stalled tensors that no working leader "
                       "writes",
                       bytes.size());
    }
    return message;
}

StallReport merge(std::span<const HostAccount> accounts, std::span<const std::int32_t> host_of,
                  double warning_seconds) {
    StallReport report;
    report.warning_seconds = warning_seconds;
    std::map<Key, StallReport::Tensor> tensors;
    std::vector<bool> heard(host_of.size(), false);
    for (const HostAccount& account : accounts) {
        for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
            heard[rank] = heard[rank] || host_of[rank] == static_cast<std::int32_t>(account.host);
        }
        for (const StallReport::Tensor& tensor : account.tensors) {
            auto [merged, is_new] = tensors.try_emplace(key_of(tensor), tensor);
            if (!is_new) {
                merged->second.seconds = std::max(merged->second.seconds, tensor.seconds);
                append(merged->second.ready, tensor.ready);
                append(merged->second.unfinished, tensor.unfinished);
                append(merged->second.unread, tensor.unread);
                append(merged->second.unseen, tensor.unseen);
                for (const SiteOfRanks& site : tensor.sites) {
                    for (const std::int32_t rank : site.ranks) {
                        add_site(merged->second.sites, site.site, rank);
                    }
                }
            }
        }
        for (const StallReport::Rank& rank : account.ranks) {
            report.started[rank.unnamed].push_back(rank.rank);
            report.steps[rank.step].push_back(rank.rank);
        }
    }
    for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
        if (!heard[rank] && host_of[rank] >= 0) {
            report.unheard.push_back(static_cast<std::int32_t>(rank));
        }
    }
    const std::optional<Key> last = last_known(accounts);
    std::vector<bool> awaited_somewhere(host_of.size(), false);
    for (auto& [key, tensor] : tensors) {
        if ((last && key > *last) || tensor.seconds < warning_seconds) {
            continue;
        }
        std::sort(tensor.ready.begin(), tensor.ready.end());
        std::sort(tensor.unfinished.begin(), tensor.unfinished.end());
        std::sort(tensor.unread.begin(), tensor.unread.end());
        std::sort(tensor.unseen.begin(), tensor.unseen.end());
        for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
            const auto one = static_cast<std::int32_t>(rank);
            if (heard[rank] && !std::binary_search(tensor.ready.begin(), tensor.ready.end(), one) &&
                !std::binary_search(tensor.unseen.begin(), tensor.unseen.end(), one)) {
                tensor.missing.push_back(one);
            }
        }
        const std::vector<std::int32_t> awaited = tensor.awaited();
        for (const std::int32_t rank : awaited) {
            awaited_somewhere[static_cast<std::size_t>(rank)] = true;
        }
        if (!awaited.empty() || !report.unheard.empty()) {
            report.tensors.push_back(tensor);
        }
    }
    for (StallReport::Tensor& message : late_messages(accounts, host_of)) {
        for (const std::int32_t rank : message.missing) {
            awaited_somewhere[static_cast<std::size_t>(rank)] = true;
        }
        report.tensors.push_back(std::move(message));
    }
    std::stable_sort(report.tensors.begin(), report.tensors.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    for (const HostAccount& account : accounts) {
        for (const StallReport::Rank& rank : account.ranks) {
            if (awaited_somewhere[static_cast<std::size_t>(rank.rank)]) {
                report.missing_ranks.push_back(rank);
            }
        }
    }
    std::stable_sort(report.missing_ranks.begin(), report.missing_ranks.end(),
                     [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return report;
}

StallInquiry::StallInquiry(const StallSettings& settings, std::uint32_t hosts, std::vector<std::int32_t> host_of,
                           std::optional<Neighbour> parent, std::span<const Neighbour> children,
                           collectives::Transport& transport)
    : hosts_(hosts),
      host_of_(std::move(host_of)),
      has_parent_(parent.has_value()),
      settings_(settings),
      transport_(transport),
      links_(std::make_shared<std::vector<Link>>()),
      schedule_(settings.schedule()) {
    if (parent) {
        links_->push_back({*parent, std::vector<std::byte>(kMostStallMessageBytes), {}, {}, {}, {}});
    }
    for (const Neighbour& child : children) {
        links_->push_back({child, std::vector<std::byte>(kMostStallMessageBytes), {}, {}, {}, {}});
    }
}

Result<std::optional<StallMonitor::Finding>> StallInquiry::turn(std::int64_t now_ns, const Source& source) {
    for (Link& link : *links_) {
        RUEDA_RETURN_IF_FAILED(receive(link, now_ns, source));
    }
    const bool ends_job = ends_job_ns_ != 0 && now_ns >= ends_job_ns_ && !asking_;
    if (settings_.enabled && (now_ns >= next_look_ns_ || ends_job)) {
        next_look_ns_ = now_ns + settings_.look_interval_ns;
        look(now_ns, source);
    }
    if (unanswered_) {
        answer_with_stacks(now_ns, source);
    }
    std::optional<StallMonitor::Finding> finding = conclude(now_ns, source);
    if (!record_because_.empty()) {
        finding.emplace().record_because = std::exchange(record_because_, {});
    }
    for (Link& link : *links_) {
        RUEDA_RETURN_IF_FAILED(send(link));
    }
    return finding;
}

void StallInquiry::abandon() noexcept { collectives::keep_for_good(links_); }

Status StallInquiry::leave() {
    bool in_use = false;
    for (Link& link : *links_) {
        if (const auto receiving = std::exchange(link.receiving, std::nullopt)) {
            const Result<bool> cancelled = transport_.cancel(*receiving);
            RUEDA_RETURN_IF_FAILED(cancelled.status());
            in_use = in_use || !cancelled.value();
        }
        RUEDA_RETURN_IF_FAILED(send(link));
        in_use = in_use || link.sending;
    }
    if (in_use) {
        collectives::keep_for_good(links_);
    }
    return {};
}

Status StallInquiry::receive(Link& link, std::int64_t now_ns, const Source& source) {
    for (;;) {
        if (!link.receiving) {
            const Result<Transport::Ticket> receiving =
                transport_.receive(link.neighbour.rank, Transport::Channel::diagnostics, link.room);
            RUEDA_RETURN_IF_FAILED(receiving.status());
            link.receiving = receiving.value();
        }
        const Result<std::optional<std::size_t>> received = transport_.test(*link.receiving);
        RUEDA_RETURN_IF_FAILED(received.status());
        if (!received.value()) {
            return {};
        }
        link.receiving.reset();
        const auto bytes = std::span<const std::byte>(link.room).first(*received.value());
        const Result<StallMessage> message =
            parse_stall_message(bytes, static_cast<std::uint32_t>(host_of_.size()), hosts_);
        RUEDA_RETURN_IF_FAILED(message.status());
        RUEDA_RETURN_IF_FAILED(take(message.value(), now_ns, source));
    }
}

Status StallInquiry::take(const StallMessage& message, std::int64_t now_ns, const Source& source) {
    if (message.kind == StallMessageKind::question || message.kind == StallMessageKind::record) {
        for (std::size_t child = has_parent_ ? 1 : 0; child < links_->size(); ++child) {
            (*links_)[child].waiting.push_back(encode(message));
        }
    }
    if (message.kind == StallMessageKind::record) {
        record_because_ = has_parent_ ? message.reason : "";
    } else if (message.kind == StallMessageKind::question) {
        if (has_parent_ && message.stacks_of.empty()) {
            links_->front().waiting.push_back(
                encode({StallMessageKind::account, message.inquiry, source.account(now_ns)}));
        } else if (has_parent_) {
            unanswered_ = message;
        }
    } else if (has_parent_) {
        links_->front().waiting.push_back(encode(message));
    } else if (message.kind == StallMessageKind::notice) {
        noticed_ = true;
    } else if (asking_ && message.inquiry == inquiry_) {
        accounts_.push_back(message.account);
    }
    return {};
}

Status StallInquiry::send(Link& link) {
    if (link.sending) {
        const Result<std::optional<std::size_t>> sent = transport_.test(*link.sending);
        RUEDA_RETURN_IF_FAILED(sent.status());
        if (!sent.value()) {
            return {};
        }
        link.sending.reset();
    }
    if (!link.waiting.empty()) {
        link.message = std::move(link.waiting.front());
        link.waiting.pop_front();
        const Result<Transport::Ticket> sending =
            transport_.send(link.neighbour.rank, Transport::Channel::diagnostics, link.message);
        RUEDA_RETURN_IF_FAILED(sending.status());
        link.sending = sending.value();
    }
    return {};
}

/// If an operation has been pending on this host for a long time, the root asks all hosts for their accounts. A leader
/// that is not the root asks the root to do so.
void StallInquiry::look(std::int64_t now_ns, const Source& source) {
    const bool stalled = source.longest_wait(now_ns) >= settings_.warning_seconds;
    if (has_parent_) {
        if (stalled && links_->front().waiting.empty()) {
            links_->front().waiting.push_back(encode({StallMessageKind::notice, 0, {}}));
        }
        return;
    }
    const bool ends_job = ends_job_ns_ != 0 && now_ns >= ends_job_ns_;
    if ((stalled || noticed_ || ends_job) && !asking_) {
        ask(now_ns, source.account(now_ns));
    } else if (!asking_ && now_ns - asked_ns_ > 4 * settings_.look_interval_ns) {
        // no host has sent a notice for some time, so all operations make progress again
        static_cast<void>(schedule_.look({}, now_ns));
    }
    noticed_ = false;
}

void StallInquiry::ask(std::int64_t now_ns, HostAccount own) {
    asking_ = true;
    asked_ns_ = now_ns;
    ++inquiry_;
    accounts_.clear();
    accounts_.push_back(std::move(own));
    for (Link& link : *links_) {
        link.waiting.push_back(encode({StallMessageKind::question, inquiry_, {}}));
    }
}

/// The root calls this when a report is due. Asks the hosts for new accounts. The new accounts also contain the stacks
/// of the ranks that were missing in the first accounts.
void StallInquiry::ask_for_stacks(std::int64_t now_ns, const StallReport& report) {
    asked_ns_ = now_ns;
    asked_for_stacks_ = true;
    ++inquiry_;
    earlier_accounts_ = std::exchange(accounts_, {});
    StallMessage question{StallMessageKind::question, inquiry_, {}};
    for (const StallReport::Rank& rank : report.missing_ranks) {
        question.stacks_of.push_back(rank.rank);
    }
    for (Link& link : *links_) {
        link.waiting.push_back(encode(question));
    }
    unanswered_ = std::move(question);
}

/// The root calls this when it prints a report. Asks the other hosts to write their flight recorders. The root's own
/// host needs no request: the report makes it write its flight recorder.
void StallInquiry::ask_for_records(const StallReport& report) {
    const StallMessage message{
        .kind = StallMessageKind::record, .inquiry = inquiry_, .reason = summarize_stall(report)};
    for (Link& link : *links_) {
        link.waiting.push_back(encode(message));
    }
}

/// If the root has asked for stacks and all stacks of this host have arrived, sends the answer.
void StallInquiry::answer_with_stacks(std::int64_t now_ns, const Source& source) {
    const std::optional<std::vector<StallReport::Rank>> stacks =
        source.stacks ? source.stacks(unanswered_->stacks_of, now_ns) : std::vector<StallReport::Rank>();
    if (!stacks) {
        return;
    }
    HostAccount account = source.account(now_ns);
    for (StallReport::Rank& rank : account.ranks) {
        const auto found = std::find_if(stacks->begin(), stacks->end(),
                                        [&rank](const StallReport::Rank& one) { return one.rank == rank.rank; });
        rank.stack = found != stacks->end() ? found->stack : "";
    }
    if (has_parent_) {
        links_->front().waiting.push_back(
            encode({StallMessageKind::account, unanswered_->inquiry, std::move(account)}));
    } else if (asking_ && unanswered_->inquiry == inquiry_) {
        accounts_.push_back(std::move(account));
    }
    unanswered_.reset();
}

bool StallInquiry::has_to_wait(std::int64_t now_ns) const {
    return accounts_.size() < hosts_ && now_ns - asked_ns_ < (asked_for_stacks_ ? kStacksAnswerNs : kAnswerNs);
}

/// The root calls this repeatedly. Evaluates the accounts once all hosts have answered, or once the time to answer is
/// over.
std::optional<StallMonitor::Finding> StallInquiry::conclude(std::int64_t now_ns, const Source& source) {
    if (!asking_ || has_to_wait(now_ns)) {
        return std::nullopt;
    }
    for (HostAccount& earlier : std::exchange(earlier_accounts_, {})) {
        const bool is_old = std::any_of(accounts_.begin(), accounts_.end(),
                                        [&](const HostAccount& account) { return account.host == earlier.host; });
        if (!is_old) {
            accounts_.push_back(std::move(earlier));
        }
    }
    const auto data = std::make_shared<const StallReport>(merge(accounts_, host_of_, settings_.warning_seconds));
    const StallReport& report = *data;
    const std::vector<PendingTensor> pending = as_pending(report, now_ns);
    // The schedule records which reports were made. `schedule_` is replaced only after the texts of the report were
    // made. If there is no memory for the texts, the report therefore stays due.
    StallSchedule schedule = schedule_;
    const StallSchedule::Due due = schedule.look(pending, now_ns);
    if (due.report && !asked_for_stacks_ && source.stacks && !report.missing_ranks.empty()) {
        ask_for_stacks(now_ns, report);
        return std::nullopt;
    }
    const std::int64_t usual = now_ns + settings_.look_interval_ns;
    const std::int64_t next = schedule.next_look_ns(pending, now_ns, settings_.look_interval_ns);
    std::string text = due.report ? format_stall_report(report) : std::string();
    const bool shuts_down = due.shut_down_for && !report.tensors.empty();
    std::string reason =
        shuts_down ? format_stall_shutdown(report.tensors.front(), settings_.shutdown_seconds, report.started) : "";
    std::string ends_job = reason;
    schedule_ = std::move(schedule);
    asking_ = false;
    asked_for_stacks_ = false;
    ends_job_ns_ = next < usual ? next : 0;
    if (shuts_down) {
        return StallMonitor::Finding{std::move(reason), true, std::move(text), data, std::move(ends_job)};
    }
    if (text.empty()) {
        return std::nullopt;
    }
    // The root asks for the flight recorders here because the job goes on. When a job ends, every rank writes its own
    // flight recorder without a request.
    ask_for_records(report);
    return StallMonitor::Finding{std::move(text), false, {}, data, {}};
}

/// Gives tensors numbers, because the schedule identifies tensors by numbers.
std::vector<PendingTensor> StallInquiry::as_pending(const StallReport& report, std::int64_t now_ns) {
    std::vector<PendingTensor> pending;
    std::erase_if(numbers_, [&](const auto& number) {
        return std::none_of(report.tensors.begin(), report.tensors.end(),
                            [&](const StallReport::Tensor& tensor) { return key_of(tensor) == number.first; });
    });
    for (const StallReport::Tensor& tensor : report.tensors) {
        const Key key = key_of(tensor);
        const auto number = numbers_.try_emplace(key, inquiry_).first->second;
        PendingTensor one;
        // The number of a tensor is the number of the first inquiry that found it stalled. So a tensor that stalls
        // again later has a new number, and counts as a new stall.
        one.id = {number, 0, std::hash<std::string>()(key.first) + key.second};
        one.since_ns = now_ns - nanoseconds(tensor.seconds);
        pending.push_back(std::move(one));
    }
    return pending;
}

}  // namespace rueda::core
