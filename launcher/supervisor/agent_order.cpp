// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/agent_order.hpp"

#include <cstddef>

#include "base/numbers.hpp"

namespace rueda::launcher {

namespace {

constexpr std::string_view kOrderVersion = "rueda-agent 2";
constexpr std::string_view kOrderEnd = "end";

void add_part(std::string& text, std::string_view part) {
    text += part;
    text += '\0';
}

/// Takes the parts of an order one after another. After an error, is_intact() is false and all parts are empty.
class OrderReader {
public:
    explicit OrderReader(std::string_view text) : rest_(text) {}

    std::string_view part() {
        const std::size_t end = rest_.find('\0');
        is_intact_ = is_intact_ && end != std::string_view::npos;
        if (!is_intact_) {
            return {};
        }
        const std::string_view part = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        return part;
    }
    int number() {
        const std::optional<int> value = base::parse_integer<int>(part());
        is_intact_ = is_intact_ && value && *value >= 0;
        return is_intact_ ? *value : 0;
    }
    /// Takes the part with the value of a variable, and returns the value. The part begins with '='. If the part is
    /// empty, returns nothing, which means that the variable must be removed.
    std::optional<std::string> value() {
        const std::string_view text = part();
        is_intact_ = is_intact_ && (text.empty() || text.front() == '=');
        return text.empty() || !is_intact_ ? std::nullopt : std::optional(std::string(text.substr(1)));
    }
    void expect(std::string_view text) { is_intact_ = part() == text && is_intact_; }
    [[nodiscard]] bool is_intact() const { return is_intact_; }
    [[nodiscard]] bool is_at_end() const { return is_intact_ && rest_.empty(); }

private:
    std::string_view rest_;
    bool is_intact_ = true;
};

}  // namespace

std::string encode_order(const AgentOrder& order) {
    std::string text;
    add_part(text, kOrderVersion);
    add_part(text, order.folder);
    add_part(text, std::to_string(order.first_rank));
    add_part(text, std::to_string(order.ranks));
    add_part(text, std::to_string(order.local_ranks));
    add_part(text, std::to_string(order.arguments.size()));
    for (const std::string& argument : order.arguments) {
        add_part(text, argument);
    }
    add_part(text, std::to_string(order.variables.size()));
    for (const EnvironmentChange& change : order.variables) {
        add_part(text, change.name);
        add_part(text, change.value ? "=" + *change.value : "");  // an empty part means that the variable must be
                                                                  // removed
    }
    add_part(text, kOrderEnd);
    return text;
}

std::optional<AgentOrder> parse_order(std::string_view text) {
    OrderReader reader(text);
    AgentOrder order;
    reader.expect(kOrderVersion);
    order.folder = reader.part();
    order.first_rank = reader.number();
    order.ranks = reader.number();
    order.local_ranks = reader.number();
    for (int left = reader.number(); left > 0 && reader.is_intact(); --left) {
        order.arguments.emplace_back(reader.part());
    }
    for (int left = reader.number(); left > 0 && reader.is_intact(); --left) {
        EnvironmentChange change;
        change.name = reader.part();
        change.value = reader.value();
        order.variables.push_back(std::move(change));
    }
    reader.expect(kOrderEnd);
    return reader.is_at_end() ? std::optional(std::move(order)) : std::nullopt;
}

}  // namespace rueda::launcher
