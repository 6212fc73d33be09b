// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/security/message_codes.hpp"

#include <array>

namespace rueda::base {

std::string MessageCodes::next(std::string_view header, std::string_view payload) {
    std::array<char, 8> number{};
    for (std::size_t i = 0; i < number.size(); ++i) {
        number[i] = static_cast<char>(number_ >> 8 * i & 0xFFU);
    }
    ++number_;
    HmacSha256 code = keyed_;
    code.add({number.data(), number.size()});
    code.add(header);  // contains the length of the payload, so the boundary between the two is clear
    code.add(payload);
    return std::string(bytes_of(code.finish()).substr(0, kBytes));
}

}  // namespace rueda::base
