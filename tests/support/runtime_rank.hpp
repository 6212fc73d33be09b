// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/settings/config.hpp"
#include "core/pending/completion.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"
#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// The settings of ranks whose recordings a test inspects.
inline base::Config runtime_rank_settings() {
    base::Config config;
    config.resident_limit_bytes = 2 * base::kMiB;
    config.log_level = base::LogLevel::off;
    return config;
}

/// A rank with a Runtime and a tensor of eight floats, for tests of what the runtime records. The constructor is a
/// collective call.
class RuntimeRank {
public:
    explicit RuntimeRank(RankContext& context, const base::Config& config = runtime_rank_settings())
        : context_(context) {
        auto plane = context.open_control_plane();
        plane.status().throw_if_failed();
        auto runtime = core::Runtime::create(config, std::move(plane).value());
        runtime.status().throw_if_failed();
        runtime_ = std::move(runtime).value();
    }
    [[nodiscard]] core::Runtime& runtime() { return *runtime_; }
    Status allreduce(const std::string& name) {
        core::Completion completion;
        const rueda_tensor tensor = this->tensor();
        return runtime_->run(runtime_->world(), nullptr, name,
                             {.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor}, options_,
                             completion);
    }
    void start(const std::string& name, core::Completion& completion) {
        const rueda_tensor tensor = this->tensor();
        runtime_
            ->start(runtime_->world(), nullptr, name,
                    {.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor}, options_,
                    completion)
            .throw_if_failed();
    }
    /// Waits until all ranks have entered this phase.
    void meet(const std::string& phase) {
        context_.phase(phase);
        for (int rank = 0; rank < context_.size(); ++rank) {
            context_.wait_for_phase(rank, phase);
        }
    }

private:
    [[nodiscard]] rueda_tensor tensor() {
        return {values_.data(), shape_.data(), 1, static_cast<std::int32_t>(DType::float32)};
    }
    RankContext& context_;
    std::array<float, 8> values_{};
    std::array<std::int64_t, 1> shape_{8};
    rueda_options options_ = RUEDA_OPTIONS_INIT;
    std::unique_ptr<core::Runtime> runtime_;
};

}  // namespace rueda::tests
