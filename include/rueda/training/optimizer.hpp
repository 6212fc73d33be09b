// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Optimizers for float32 parameters on the CPU. Each optimizer is a SIMD kernel that reads and writes parameters,
/// gradients and state once. So the speed of the memory limits the update of a large model. (LAMB needs two passes,
/// because it needs norms.)
///
/// The results have the same bits on every CPU. Except for LAMB, an element's result depends only on this element, so
/// the bits stay the same if a tensor is divided into several tensors. An optimizer does not communicate: if all ranks
/// have equal parameters, equal state and equal (reduced) gradients, then all ranks have equal results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/training/parameters.hpp"

namespace rueda::training {

/// A tensor that an optimizer updates, and its gradient. Both belong to the caller and have the same number of
/// elements. The name is the same on every rank, and appears in checkpoints and messages.
struct Parameter {
    std::string name;
    std::span<float> values;
    std::span<float> gradient;
    /// Whether weight decay applies. This is usually false for biases and for the parameters of normalisation. LAMB
    /// also does not adapt the rate of a tensor whose `decays` is false (as in the implementation of its authors for
    /// BERT).
    bool decays = true;
};

// In the comments below, w is the parameter, g its gradient, η the learning rate, and t = 1, 2, … the number of the
// step. A weight decay λ of Sgd, Adam and Adagrad is added to the gradient first: g ← g + λ w.

/// Stochastic gradient descent: u ← momentum · u + (1 − dampening) · g; w ← w − η u. With nesterov, w ← w − η (g +
/// momentum · u). The first step sets u to g. This is the definition of torch.optim.SGD, with the momentum of Sutskever
/// et al. 2013 ("On the importance of initialization and momentum in deep learning", section 2).
///
/// u does not contain η. A change of the learning rate therefore needs no momentum correction (Goyal et al. 2017,
/// arXiv:1706.02677, section 3, equation 9).
struct Sgd {
    double momentum = 0.0;   ///< 0 ≤ momentum < 1; with 0, no state is kept
    double dampening = 0.0;  ///< 0 ≤ dampening ≤ 1
    bool nesterov = false;   ///< needs momentum > 0 and dampening = 0
    double weight_decay = 0.0;
};

/// Kingma and Ba 2015 (arXiv:1412.6980, algorithm 1), as torch.optim.Adam computes it: m ← m + (1 − β₁)(g − m);
/// v ← β₂ v + (1 − β₂) g²; w ← w − η / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε).
struct Adam {
    double beta1 = 0.9;
    double beta2 = 0.999;
    /// ε: at least 1.2e-38, the smallest normal float32. The same limit applies to the ε of AdamW, Adagrad and Lamb.
    double epsilon = 1e-8;
    double weight_decay = 0.0;
};

/// Adam with decoupled weight decay: w ← (1 − η λ) w, then Adam's step without weight decay (Loshchilov and Hutter
/// 2019, arXiv:1711.05101, algorithm 2).
struct AdamW {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
};

/// Duchi, Hazan and Singer 2011 (JMLR 12, figure 1), as torch.optim.Adagrad computes it: n ← n + g²;
/// w ← w − η / (1 + (t − 1) · rate_decay) · g / (√n + ε).
struct Adagrad {
    double rate_decay = 0.0;
    double initial_accumulator = 0.0;  ///< the sum of squares n before the first step
    double epsilon = 1e-10;            ///< ε; may be 0 if initial_accumulator is above 0
    double weight_decay = 0.0;
};

/// FTRL-Proximal with one learning rate per coordinate (McMahan et al. 2013, "Ad Click Prediction: a View from the
/// Trenches", algorithm 1): σ = (√(n + g²) − √n) / η; z ← z + g − σ w; n ← n + g²; then w = 0 if |z| ≤ l1, otherwise
/// w = −(z − sign(z) l1) / ((beta + √n) / η + l2). Many weights become exactly 0 if l1 > 0.
///
/// σ is the change of (beta + √n) / η in one step. The paper's η is constant. If the learning rate changes from η' to
/// η, this change is σ = (beta + √(n + g²)) / η − (beta + √n) / η'. For a constant rate this is the paper's σ. If l1
/// and l2 are 0 and the weights begin with 0, each step is then w ← w − η g / (beta + √n). This also holds after a
/// warm-up or a decay of the rate. The state contains the rate of the last step.
///
/// The algorithm computes w from z and n alone. So initial weights that are not 0 have an effect only through σ in the
/// first step. The weights should therefore begin with 0, as in the paper. η must be above 0.
struct Ftrl {
    double beta = 1.0;
    double l1 = 0.0;
    double l2 = 0.0;
    double initial_accumulator = 0.0;  ///< the sum of squares n before the first step; beta + √n must be above 0
};

/// You et al. 2020 (arXiv:1904.00962, algorithm 2) with φ(x) = x: r = m̂ / (√v̂ + ε) with Adam's m̂ and v̂;
/// u = r + λ w; w ← w − η · ‖w‖ / ‖u‖ · u. The norms are those of the whole tensor, and are computed in float64. The
/// ratio is 1 if a norm is 0.
struct Lamb {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-6;
    double weight_decay = 0.01;
};

using OptimizerRule = std::variant<Sgd, Adam, AdamW, Adagrad, Ftrl, Lamb>;

/// Returns "sgd", "adam", "adamw", "adagrad", "ftrl" or "lamb".
[[nodiscard]] RUEDA_API std::string_view name_of(const OptimizerRule& rule) noexcept;

/// Updates parameters by a rule, and keeps the rule's state: for each parameter, up to two tensors of the parameter's
/// size. Threads: the object starts no threads. One thread at a time may call its functions; update() calls for
/// different parameters may run at the same time.
class RUEDA_API Optimizer {
public:
    /// Allocates the state. Throws InvalidArgument if an option of the rule is out of its range, if two parameters have
    /// the same name, or if a parameter's values and gradient have different lengths. The message names the option or
    /// the parameter, the value and the allowed values.
    Optimizer(const OptimizerRule& rule, std::vector<Parameter> parameters);
    Optimizer(Optimizer&& other) noexcept;
    Optimizer& operator=(Optimizer&& other) noexcept;
    ~Optimizer();

    /// Updates all parameters from gradient × `gradient_factor`. The gradients in memory do not change. The factor can
    /// undo a loss scale, clip by a norm, or divide by a number of accumulated batches, without an additional pass over
    /// the memory. Throws InvalidArgument unless `learning_rate` is
    /// finite and ≥ 0 (Ftrl: > 0) and `gradient_factor` is finite; in this case nothing changes.
    void step(double learning_rate, double gradient_factor = 1.0);

    /// Begins a step whose parameters are updated one by one with update(), for example each parameter as soon as its
    /// gradient is reduced. step() is begin_step() and then update() for all parameters. Throws like step().
    void begin_step(double learning_rate, double gradient_factor = 1.0);
    /// Updates parameter `index` in the step that begin_step() began. Call it once per step for each parameter. Throws
    /// InvalidArgument if there is no such parameter or no step has begun.
    void update(std::size_t index);

    [[nodiscard]] std::span<const Parameter> parameters() const noexcept;
    /// Returns the number of steps so far. A restored checkpoint restores it too.
    [[nodiscard]] std::int64_t steps() const noexcept;

    /// Returns the state: the number of steps, "optimizer.<rule>.steps", and the state of each parameter, for example
    /// "optimizer.adam.first_moment.<name>". Ftrl also has "optimizer.ftrl.rate", the learning rate of the last step.
    /// Pass these tensors, together with the tensors of the model, to save_checkpoint(), restore_checkpoint() and
    /// broadcast_parameters(). The views are valid as long as the object lives, also after it is moved. A checkpoint of
    /// another rule has other names and is therefore refused.
    [[nodiscard]] std::vector<NamedTensor> state();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rueda::training
