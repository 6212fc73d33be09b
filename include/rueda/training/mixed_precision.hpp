// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Mixed precision as in Micikevicius et al. 2018 (arXiv:1710.03740): the model computes with 16-bit weights and
/// gradients, and the ranks exchange 16-bit gradients. The optimizer updates float32 copies of the weights, the master
/// weights (section 3.1). A loss scale keeps small float16 gradients from becoming 0 (section 3.2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/optimizer.hpp"
#include "rueda/training/parameters.hpp"

namespace rueda::training {

struct LossScaleOptions {
    double initial = 65536.0;             ///< the scale at the beginning; finite and ≥ `least`
    double growth = 2.0;                  ///< finite and ≥ 1
    double backoff = 0.5;                 ///< 0 < backoff < 1
    std::int64_t growth_interval = 2000;  ///< number of finite steps in a row after which the scale grows; ≥ 1
    double least = 1.0;                   ///< the smallest scale; finite and > 0
};

/// A dynamic loss scale: it is multiplied by `backoff` after a step whose gradients are not finite, and by `growth`
/// after `growth_interval` finite steps in a row (the behaviour of torch.amp.GradScaler). In each step:
///
///     compute the gradients of scale() × loss, and reduce them
///     const double factor = scale.gradient_factor();   // before keep_step(), which may change the scale
///     if (scale.keep_step(finite)) { optimizer.step(rate, factor); }
///
/// Threads: one thread at a time may use an object.
class RUEDA_API LossScale {
public:
    /// Throws InvalidArgument if an option is out of its range; the message names the option.
    explicit LossScale(const LossScaleOptions& options = {});

    [[nodiscard]] double scale() const noexcept { return state_[kScale]; }
    /// Returns 1 / scale().
    [[nodiscard]] double gradient_factor() const noexcept { return 1.0 / state_[kScale]; }
    /// Changes the scale after the gradients of a step were computed. Returns whether to make the step: true if
    /// `gradients_are_finite` is true on all members of `set`. Collective: all members must call this function, and all
    /// get the same result. So either all members make the step or none of them does, even if their gradients differ.
    [[nodiscard]] bool keep_step(bool gradients_are_finite, ProcessSet set = world());
    /// Returns how many steps keep_step() has refused.
    [[nodiscard]] std::int64_t skipped() const noexcept { return static_cast<std::int64_t>(state_[kSkipped]); }
    /// Returns the state, "loss_scale", for checkpoints. The view is valid until the object is moved or destroyed.
    [[nodiscard]] NamedTensor state();

private:
    enum Entry : std::size_t { kScale, kFinite, kSkipped, kEntries };

    LossScaleOptions options_;
    std::array<double, kEntries> state_{};
};

/// A tensor of a 16-bit model: the weights with which the model computes, and their gradient. The elements are the bits
/// of float16 or bfloat16. Both spans belong to the caller and have the same length.
struct HalfParameter {
    std::string name;
    std::span<std::uint16_t> values;
    std::span<std::uint16_t> gradient;
    bool decays = true;  ///< as Parameter::decays
};

/// Float32 copies of a 16-bit model, for an optimizer. In each step: reduce gradients(), call take_gradients(), let the
/// optimizer update parameters(), call publish(). Threads: one thread at a time may call its functions.
class RUEDA_API MasterWeights {
public:
    /// Copies the 16-bit values to the master weights. Throws InvalidArgument unless `dtype` is float16 or bfloat16 and
    /// each parameter has as many gradients as values.
    MasterWeights(DType dtype, std::vector<HalfParameter> model);
    MasterWeights(MasterWeights&& other) noexcept;
    MasterWeights& operator=(MasterWeights&& other) noexcept;
    ~MasterWeights();

    /// Returns the master weights and their float32 gradients, for Optimizer and gradient_norm(). The memory is valid
    /// as long as the object lives, also after it is moved.
    [[nodiscard]] std::span<const Parameter> parameters() const noexcept;
    /// Returns the 16-bit gradients as tensors for allreduce(). Sums of 16-bit tensors are computed in float32 within a
    /// host.
    [[nodiscard]] std::vector<NamedTensor> gradients() const;
    /// Converts the 16-bit gradients to the float32 gradients, without loss. Returns whether all of them are finite.
    [[nodiscard]] bool take_gradients();
    /// Writes the master weights to the 16-bit values, rounded to the nearest value (ties to even).
    void publish();
    /// Returns the master weights as tensors "master.<name>" for checkpoints. After restoring them, call publish().
    [[nodiscard]] std::vector<NamedTensor> state() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rueda::training
