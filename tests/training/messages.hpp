// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "rueda/error.hpp"

namespace rueda::training::test {

/// Returns the text of the exception if `body` throws exactly Expected. Otherwise returns what `body` did instead.
template <class Expected, class Body>
std::string message_of(Body&& body) {
    try {
        body();
    } catch (const Expected& error) {
        return error.what();
    } catch (const Error& error) {
        return std::string("another error, ") + name_of(error.code()) + ": " + error.what();
    }
    return "no error";
}

}  // namespace rueda::training::test
