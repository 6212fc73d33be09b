// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

/// Functions that read fields of a JSON file that another process wrote. They throw Damage if a field is missing or has
/// an unexpected type. Only .cpp files should include this header, because it includes the whole JSON library.
namespace rueda::base::json_fields {

using Json = nlohmann::json;

/// The exception that the functions of this header throw. `text` says what is wrong with the file.
struct Damage {
    std::string text;
};

/// Returns the field `key` of `object`. Returns null if there is no such field.
inline const Json* find(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() ? &*found : nullptr;
}

inline const Json& member_of(const Json& object, const char* key) {
    const Json* const value = find(object, key);
    if (value == nullptr) {
        throw Damage{fmt::format("'{}' is missing", key)};
    }
    return *value;
}

template <class T>
T number_of(const Json& value, const char* key) {
    constexpr auto kLeast = std::numeric_limits<T>::min();
    constexpr auto kMost = std::numeric_limits<T>::max();
    if (value.is_number_unsigned()) {
        if (const auto number = value.get<std::uint64_t>(); std::cmp_less_equal(number, kMost)) {
            return static_cast<T>(number);
        }
    } else if (value.is_number_integer()) {
        if (const auto number = value.get<std::int64_t>();
            std::cmp_greater_equal(number, kLeast) && std::cmp_less_equal(number, kMost)) {
            return static_cast<T>(number);
        }
    }
    throw Damage{fmt::format("'{}' is not a number between {} and {}", key, kLeast, kMost)};
}

/// Returns the value as a time in nanoseconds. Values above kMostNs are refused, so that sums and differences of two
/// times do not overflow.
inline std::int64_t time_of(const Json& value, const char* key) {
    constexpr std::int64_t kMostNs = std::int64_t{1} << 61;  // 73 years
    const auto time = number_of<std::int64_t>(value, key);
    if (time <= -kMostNs || time >= kMostNs) {
        throw Damage{fmt::format("'{}' is not a time", key)};
    }
    return time;
}

template <class T>
void read(const Json& object, const char* key, T& into) {
    const Json& value = member_of(object, key);
    if constexpr (std::is_same_v<T, std::string>) {
        if (!value.is_string()) {
            throw Damage{fmt::format("'{}' is not a text", key)};
        }
        into = value.get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
        if (!value.is_boolean()) {
            throw Damage{fmt::format("'{}' is neither true nor false", key)};
        }
        into = value.get<bool>();
    } else {
        into = number_of<T>(value, key);
    }
}
/// Reads a field that may be missing. `into` stays empty if the field is missing.
template <class T>
void read(const Json& object, const char* key, std::optional<T>& into) {
    if (find(object, key) != nullptr) {
        read(object, key, into.emplace());
    }
}
inline void read_ns(const Json& object, const char* key, std::int64_t& into) {
    into = time_of(member_of(object, key), key);
}
/// Reads a time field that may be missing. `into` stays empty if the field is missing.
inline void read_ns(const Json& object, const char* key, std::optional<std::int64_t>& into) {
    if (find(object, key) != nullptr) {
        read_ns(object, key, into.emplace());
    }
}

inline const Json& array_of(const Json& object, const char* key) {
    const Json* const value = find(object, key);
    if (value == nullptr || !value->is_array()) {
        throw Damage{fmt::format("'{}' is not a list", key)};
    }
    return *value;
}

inline const Json& object_of(const Json& object, const char* key) {
    const Json& value = member_of(object, key);
    if (!value.is_object()) {
        throw Damage{fmt::format("'{}' is not an object", key)};
    }
    return value;
}

}  // namespace rueda::base::json_fields
