// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/hosts/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

constexpr int kMostSlots = 65536;

/// The maximum length of a name in the domain name system.
constexpr std::size_t kLongestName = 255;

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Whether mpirun and ssh accept the text as the name of a host. They would treat a name that begins with '-' as an
/// option.
bool is_host_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongestName && (is_alphanumeric(name.front()) || name.front() == '_') &&
           std::all_of(name.begin(), name.end(),
                       [](char c) { return is_alphanumeric(c) || c == '.' || c == '-' || c == '_'; });
}

bool is_ipv6_address(std::string_view text) {
    return text.find(':') != std::string_view::npos && std::all_of(text.begin(), text.end(), [](char c) {
               return is_alphanumeric(c) || c == ':' || c == '.' || c == '%';
           });
}

std::optional<int> parse_slots(std::string_view text) {
    const std::optional<int> slots = base::parse_integer<int>(text);
    return slots && *slots >= 1 && *slots <= kMostSlots ? slots : std::nullopt;
}

/// Reads "name", "name:2", "[fe80::1]" or "[fe80::1]:2". Returns nothing for any other text.
std::optional<Host> parse_host(std::string_view text) {
    Host host;
    std::string_view rest;
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos || !is_ipv6_address(text.substr(1, end - 1))) {
            return std::nullopt;
        }
        host.name = text.substr(1, end - 1);
        rest = text.substr(end + 1);
    } else {
        host.name = text.substr(0, text.find(':'));
        rest = text.substr(host.name.size());
        if (!is_host_name(host.name)) {
            return std::nullopt;
        }
    }
    if (rest.empty()) {
        return host;
    }
    const std::optional<int> slots = rest.front() == ':' ? parse_slots(rest.substr(1)) : std::nullopt;
    host.slots = slots.value_or(0);
    return slots ? std::optional(host) : std::nullopt;
}

/// Adds a host. If the list already contains this host, its slots are added to those in the list.
Status add_host(std::vector<Host>& hosts, const Host& host) {
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& other) { return other.name == host.name; });
    if (known == hosts.end()) {
        if (hosts.size() >= kMostHosts) {
            return failure(ErrorCode::invalid_argument, "there are more than {} hosts", kMostHosts);
        }
        hosts.push_back(host);
        return {};
    }
    // A line without a number of slots counts as one slot, as in launchers that accept only lists of names.
    known->slots = std::min(kMostSlots, std::max(1, known->slots) + std::max(1, host.slots));
    known->max_slots = std::max(known->max_slots, host.max_slots);
    return {};
}

/// Splits one line of a host file into words, without the comment. "slots = 2" is one word.
std::vector<std::string> words_of_line(std::string_view line) {
    std::vector<std::string> words;
    line = line.substr(0, line.find('#'));
    bool joins = false;
    while (!(line = trimmed(line)).empty()) {
        const std::string_view word = line.substr(0, line.find_first_of(" \t"));
        line.remove_prefix(word.size());
        if (!words.empty() && (joins || word.front() == '=')) {
            words.back() += word;
        } else {
            words.emplace_back(word);
        }
        joins = word.back() == '=';
    }
    return words;
}

/// A keyword after a host's name, and what ruedarun does with it.
struct HostKey {
    enum class Kind { slots, most, user, ignored };
    std::string_view name;
    Kind kind = Kind::ignored;
    std::string_view reason{};  ///< why the word is ignored
};

/// All keywords. Some are older names: Open MPI used "cpu" and "count" for slots.
constexpr std::array<HostKey, 13> kHostKeys = {{
    {"slots", HostKey::Kind::slots},
    {"cpu", HostKey::Kind::slots},
    {"count", HostKey::Kind::slots},
    {"max_slots", HostKey::Kind::most},
    {"max-slots", HostKey::Kind::most},
    {"slots_max", HostKey::Kind::most},
    {"slots-max", HostKey::Kind::most},
    {"user", HostKey::Kind::user},
    {"username", HostKey::Kind::user},
    {"user_name", HostKey::Kind::user},
    {"user-name", HostKey::Kind::user},
    {"binding", HostKey::Kind::ignored, "ruedarun leaves ranks unbound; --mpi-args can ask mpirun to bind them"},
    {"ifname", HostKey::Kind::ignored, "--network-interfaces names the networks to use"},
}};

Status refuse_user(std::string_view user, std::string_view host) {
    return failure(
        ErrorCode::invalid_argument,
        "found the user {} of {}; mpirun gets no names of users from ruedarun: write 'User' for that host into "
        "~/.ssh/config and leave it out here",
        base::quote(user), base::quote(host));
}

Status read_host_word(Host& host, std::string_view word, std::vector<HostKey>& ignored) {
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const auto* const known =
        std::find_if(kHostKeys.begin(), kHostKeys.end(), [key](const HostKey& one) { return one.name == key; });
    if (equals == std::string_view::npos || known == kHostKeys.end()) {
        return failure(ErrorCode::invalid_argument, "found {}; expected slots=N or max_slots=N behind the host's name",
                       base::quote(word));
    }
    if (known->kind == HostKey::Kind::user) {
        return refuse_user(word.substr(equals + 1), host.name);
    }
    if (known->kind == HostKey::Kind::ignored) {
        ignored.push_back(*known);
        return {};
    }
    const std::optional<int> value = parse_slots(word.substr(equals + 1));
    if (!value) {
        return failure(ErrorCode::invalid_argument,
                       "found {}; expected a number from 1 to {} behind {}=", base::quote(word), kMostSlots, key);
    }
    (known->kind == HostKey::Kind::slots ? host.slots : host.max_slots) = *value;
    return {};
}

Result<Host> read_host_line(const std::vector<std::string>& words, std::vector<HostKey>& ignored) {
    if (const std::size_t at = words.front().find('@'); at != std::string::npos && at != 0) {
        return refuse_user(words.front().substr(0, at), words.front().substr(at + 1));
    }
    const std::optional<Host> named = parse_host(words.front());
    if (!named) {
        return failure(ErrorCode::invalid_argument, "found {}; expected the name of a host, or name:N",
                       base::quote(words.front()));
    }
    Host host = *named;
    for (std::size_t i = 1; i < words.size(); ++i) {
        RUEDA_RETURN_IF_FAILED(read_host_word(host, words[i], ignored));
    }
    if (host.max_slots != 0 && host.max_slots < host.slots) {
        return failure(ErrorCode::invalid_argument, "max_slots is {} and slots is {}; expected at least as many",
                       host.max_slots, host.slots);
    }
    return host;
}

/// Splits the text at those commas that are not inside brackets.
std::vector<std::string_view> split_list(std::string_view text) {
    std::vector<std::string_view> items;
    std::size_t begin = 0;
    bool inside = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i == text.size() || (text[i] == ',' && !inside)) {
            items.push_back(text.substr(begin, i - begin));
            begin = i + 1;
        } else if (text[i] == '[' || text[i] == ']') {
            inside = text[i] == '[';
        }
    }
    return items;
}

Status wrong_names(std::string_view text) {
    return failure(ErrorCode::invalid_argument, "{} is no list of hosts; expected one such as n[01-03,7],m2",
                   base::quote(text));
}

/// Appends each number of a range such as "01-03" to each of the names in `beginnings`, and adds the results to
/// `names`. Each number is written with as many digits as the first number of the range.
bool append_range(std::string_view range, const std::vector<std::string>& beginnings, std::vector<std::string>& names) {
    const std::size_t dash = range.find('-');
    const std::string_view low_text = range.substr(0, dash);
    const auto low = base::parse_integer<unsigned>(low_text);
    const auto high = dash == std::string_view::npos ? low : base::parse_integer<unsigned>(range.substr(dash + 1));
    if (!low || !high || *high < *low || *high - *low >= kMostHosts || low_text.size() > 16) {
        return false;
    }
    for (const std::string& beginning : beginnings) {
        for (unsigned number = *low; number <= *high && names.size() <= kMostHosts; ++number) {
            names.push_back(fmt::format("{}{:0{}}", beginning, number, low_text.size()));
        }
    }
    return names.size() <= kMostHosts;
}

/// Expands one item of Slurm's list. Several brackets are combined: "r[1-2]n[1-2]" stands for four names. The names are
/// in the same order as in Slurm: the number of the last bracket changes fastest.
bool expand_item(std::string_view item, std::vector<std::string>& names) {
    std::vector<std::string> heads = {""};
    while (!item.empty()) {
        const std::size_t open = item.find('[');
        for (std::string& head : heads) {
            head += item.substr(0, open);
        }
        if (heads.front().size() > kLongestName) {
            return false;
        }
        if (open == std::string_view::npos) {
            break;
        }
        const std::size_t close = item.find(']', open);
        if (close == std::string_view::npos) {
            return false;
        }
        std::vector<std::string> longer;
        for (const std::string& head : heads) {
            for (const std::string_view range : split_list(item.substr(open + 1, close - open - 1))) {
                if (!append_range(range, {head}, longer)) {
                    return false;
                }
            }
        }
        heads = std::move(longer);
        item.remove_prefix(close + 1);
    }
    names.insert(names.end(), heads.begin(), heads.end());
    return names.size() <= kMostHosts;
}

}  // namespace

Result<std::vector<Host>> parse_host_option(std::string_view text) {
    std::vector<Host> hosts;
    for (const std::string_view item : split_list(text)) {
        if (const std::size_t at = item.find('@'); at != std::string_view::npos) {
            const Status refused = refuse_user(trimmed(item.substr(0, at)), trimmed(item.substr(at + 1)));
            return failure(refused.code(), "-H has {}: {}", base::quote(item), refused.message());
        }
        const std::optional<Host> host = parse_host(trimmed(item));
        const bool is_number =
            host && std::all_of(host->name.begin(), host->name.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!host || is_number) {
            return failure(ErrorCode::invalid_argument,
                           "-H has {}; expected hosts with their number of processes, such as -H a:2,b:2",
                           base::quote(item));
        }
        RUEDA_RETURN_IF_FAILED(add_host(hosts, *host));
    }
    return hosts;
}

Result<std::vector<Host>> parse_host_file(std::string_view text, const std::string& file,
                                          std::vector<std::string>* notes) {
    std::vector<Host> hosts;
    std::set<std::string_view> noted;
    int number = 0;
    while (!text.empty()) {
        const std::string_view line = take_until(text, '\n');
        ++number;
        const std::vector<std::string> words = words_of_line(line);
        if (words.empty()) {
            continue;
        }
        std::vector<HostKey> ignored;
        const Result<Host> host = read_host_line(words, ignored);
        const Status added = host.is_ok() ? add_host(hosts, host.value()) : host.status();
        if (!added.is_ok()) {
            return failure(ErrorCode::invalid_argument, "{}:{}: {}", base::printable(file), number, added.message());
        }
        for (const HostKey& key : ignored) {
            if (noted.insert(key.name).second && notes != nullptr) {
                notes->push_back(
                    fmt::format("{}:{}: {}= is ignored: {}", base::printable(file), number, key.name, key.reason));
            }
        }
    }
    if (hosts.empty()) {
        return failure(ErrorCode::invalid_argument, "{}: no host is in it; expected lines such as 'a slots=2'",
                       base::printable(file));
    }
    return hosts;
}

Result<std::vector<std::string>> expand_slurm_names(std::string_view text) {
    std::vector<std::string> names;
    for (const std::string_view item : split_list(text)) {
        if (!expand_item(item, names)) {
            return wrong_names(text);
        }
    }
    if (!std::all_of(names.begin(), names.end(), is_host_name)) {
        return wrong_names(text);
    }
    return names;
}

Result<std::vector<int>> expand_slurm_counts(std::string_view text) {
    std::vector<int> counts;
    for (const std::string_view item : split_list(text)) {
        const std::size_t open = item.find("(x");
        const std::optional<int> count = parse_slots(item.substr(0, open));
        std::optional<int> times = 1;
        if (open != std::string_view::npos) {
            times = item.ends_with(')') ? parse_slots(item.substr(open + 2, item.size() - open - 3)) : std::nullopt;
        }
        if (!count || !times || counts.size() + static_cast<std::size_t>(*times) > kMostHosts) {
            return failure(ErrorCode::invalid_argument, "{} is no list of numbers; expected one such as 2(x3),1",
                           base::quote(text));
        }
        counts.insert(counts.end(), static_cast<std::size_t>(*times), *count);
    }
    return counts;
}

std::string format_hosts(const std::vector<Host>& hosts) {
    constexpr std::size_t kShown = 8;
    std::string text;
    for (std::size_t i = 0; i < hosts.size() && i < kShown; ++i) {
        text += text.empty() ? "" : ", ";
        text += hosts[i].slots == 0 ? hosts[i].name : fmt::format("{}:{}", hosts[i].name, hosts[i].slots);
    }
    return hosts.size() <= kShown ? text : fmt::format("{} and {} more", text, hosts.size() - kShown);
}

}  // namespace rueda::launcher
