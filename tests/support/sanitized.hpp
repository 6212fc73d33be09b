// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::tests {

/// Whether this test was built with AddressSanitizer, and whether with ThreadSanitizer.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitized = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitized = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitized = false;
#endif

/// Whether this test was built with AddressSanitizer or ThreadSanitizer, which slow some tests down by a factor of 20.
/// So a test of many random or combined cases tries fewer cases if this constant is true. A sanitizer needs each code
/// path only a few times, and the builds without a sanitizer compare the values of all cases.
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

}  // namespace rueda::tests
