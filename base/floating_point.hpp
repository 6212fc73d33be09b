// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace rueda::base {

/// Sets the default floating-point environment (round to nearest, denormals kept, no traps) for the lifetime of the
/// object. The destructor restores the previous environment. Rueda's arithmetic may run on a thread of the training
/// program, and this thread may flush denormals to zero. The bits of Rueda's results must not depend on such settings.
class DefaultFloatingPoint {
public:
#if defined(__x86_64__)
    DefaultFloatingPoint() : saved_(_mm_getcsr()) {
        if ((saved_ & ~kFlags) != kDefault) {
            _mm_setcsr(kDefault);
        }
    }
    ~DefaultFloatingPoint() {
        if ((saved_ & ~kFlags) != kDefault) {
            _mm_setcsr(saved_);
        }
    }
#else
    DefaultFloatingPoint() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloatingPoint() { std::fesetenv(&saved_); }
#endif
    DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
    DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

private:
#if defined(__x86_64__)
    // the default of the register MXCSR: all exceptions are masked, no other bit is 1 (Intel SDM vol. 1, 10.2.3)
    static constexpr unsigned kDefault = 0x1F80;
    static constexpr unsigned kFlags = 0x3F;  // the sticky exception flags, which do not influence results
    unsigned saved_;
#else
    std::fenv_t saved_{};
#endif
};

}  // namespace rueda::base
