// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rueda::training {

/// The step's number and the arguments of begin_step().
struct StepNumbers {
    std::int64_t number = 0;
    double rate = 0.0;
    double previous_rate = 0.0;  ///< the rate of the previous step; in the first step, the same as `rate`
    double factor = 1.0;
};

/// The memory of one parameter. `first` and `second` are the rule's state; a rule that has less state ignores them.
struct UpdateMemory {
    float* values;
    const float* gradient;
    float* first;
    float* second;
    std::size_t count;
};

// Each struct below has the numbers of one step, which are the same for all elements. They are computed in float64 and
// rounded once. The gradient is first multiplied by `factor`.

/// The numbers of SGD. UpdateMemory::first is the momentum u; if it is null, there is no momentum.
struct SgdUpdate {
    float factor;
    float rate;
    float momentum;
    float undamped;  ///< 1 − dampening; 1 in the first step
    float decay;
    bool nesterov;
};

/// The numbers of Adam and AdamW. UpdateMemory::first and second are the moments m and v.
struct AdamUpdate {
    float factor;
    float rate;         ///< η / (1 − β₁ᵗ)
    float first_share;  ///< 1 − β₁
    float beta2;
    float second_share;       ///< 1 − β₂
    float second_correction;  ///< 1 / √(1 − β₂ᵗ)
    float epsilon;
    float decay;   ///< Adam: λ
    float shrink;  ///< AdamW: 1 − η λ; otherwise 1
};

/// The numbers of Adagrad. UpdateMemory::first is the sum of squares n.
struct AdagradUpdate {
    float factor;
    float rate;
    float epsilon;
    float decay;
};

/// The numbers of FTRL. UpdateMemory::first is z, and UpdateMemory::second is the sum of squares n.
struct FtrlUpdate {
    float factor;
    float inverse_rate;    ///< 1 / η
    float inverse_change;  ///< 1 / η of this step minus 1 / η of the previous step; exactly 0 if η is the same
    float beta;
    float l1;
    float l2;
};

/// The numbers of LAMB. UpdateMemory::first and second are the moments m and v.
struct LambUpdate {
    float factor;
    double rate;        ///< η; the kernel multiplies it by the ratio of the norms in float64
    float first_share;  ///< 1 − β₁
    float beta2;
    float second_share;       ///< 1 − β₂
    float first_correction;   ///< 1 / (1 − β₁ᵗ)
    float second_correction;  ///< 1 / √(1 − β₂ᵗ)
    float epsilon;
    float decay;
    bool adapts;  ///< whether the rate is multiplied by the ratio of the norms
};

void update_elements(const SgdUpdate& update, const UpdateMemory& memory);
void update_elements(const AdamUpdate& update, const UpdateMemory& memory);
void update_elements(const AdagradUpdate& update, const UpdateMemory& memory);
void update_elements(const FtrlUpdate& update, const UpdateMemory& memory);
void update_elements(const LambUpdate& update, const UpdateMemory& memory);

/// Returns the sum of the squares, computed in float64 in eight lanes. The sum cannot overflow, because the largest
/// square is about 1.2e77. So the result is infinite or NaN if, and only if, one of the values is.
[[nodiscard]] double sum_of_squares(std::span<const float> values);

}  // namespace rueda::training
