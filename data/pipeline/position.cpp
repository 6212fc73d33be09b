// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "base/text.hpp"
#include "rueda/data/pipeline.hpp"
#include "rueda/error.hpp"

namespace rueda::data {

namespace {

/// Removes `label` and the number behind it from the beginning of the text. Returns false if they are not there.
template <class Number>
bool take_number(std::string_view& text, std::string_view label, int base, Number& number) {
    if (!text.starts_with(label)) {
        return false;
    }
    text.remove_prefix(label.size());
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (error != std::errc()) {
        return false;
    }
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    return true;
}

}  // namespace

std::string Position::to_text() const { return fmt::format("epoch {} step {} options {:x}", epoch, step, fingerprint); }

Position Position::from_text(std::string_view text) {
    Position position;
    std::string_view rest = text;
    const bool is_valid = take_number(rest, "epoch ", 10, position.epoch) &&
                          take_number(rest, " step ", 10, position.step) &&
                          take_number(rest, " options ", 16, position.fingerprint) && rest.empty() &&
                          position.epoch >= 0 && position.step >= 0;
    if (!is_valid) {
        throw InvalidArgument(
            fmt::format("reading a position: found {}, expected a text like 'epoch 1 step 20 options 1a2b'; use what "
                        "Position::to_text() returned",
                        base::quote(text)));
    }
    return position;
}

}  // namespace rueda::data
