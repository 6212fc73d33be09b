// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/elastic.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "rueda/elastic.h"

namespace rueda::training {

namespace {

/// Leaves the job and joins the next one. If another rank has died meanwhile, the survivors meet without it.
void meet_again() {
    try {
        shutdown();
    } catch (const Aborted&) {
        if (rueda_is_elastic() == 0) {
            throw;
        }
    }
    init();
}

}  // namespace

Elastic::Elastic(std::vector<NamedTensor> tensors) : tensors_(std::move(tensors)), saved_(tensors_.size()) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const std::int64_t elements = tensors_[i].tensor.shape().elements();
        if (elements < 0) {
            throw InvalidArgument("Elastic: tensor '" + tensors_[i].name + "' has a shape of negative extents");
        }
        saved_[i].resize(static_cast<std::size_t>(elements) * size_of(tensors_[i].tensor.dtype()));
    }
    save();
}

void Elastic::save() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (!saved_[i].empty()) {
            std::memcpy(saved_[i].data(), tensors_[i].tensor.data(), saved_[i].size());
        }
    }
}

void Elastic::restore() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (!saved_[i].empty()) {
            std::memcpy(tensors_[i].tensor.data(), saved_[i].data(), saved_[i].size());
        }
    }
}

void Elastic::commit() {
    save();
    check_slots();
}

void Elastic::check_slots() const {
    std::array<std::int32_t, 1> changes{};
    detail::check(rueda_take_slot_changes(changes.data()));
    // Ranks learn of a change at different times, so all act on what rank 0 knows.
    broadcast("rueda.elastic.slot_changes", changes, /*root=*/0);
    if (changes[0] != 0) {
        throw SlotsChanged(changes[0] == RUEDA_SLOTS_REMOVED);
    }
}

/// Gives all ranks the values of rank 0, unless no rank needs them. All ranks must agree on this: a rank that has seen
/// only that ranks leave may meet a rank that has restored a commit.
void Elastic::share(bool skip) {
    std::array<std::int32_t, 1> asks = {skip ? 0 : 1};
    allreduce("rueda.elastic.asks_for_values", asks, {.op = ReduceOp::max});
    if (asks[0] != 0) {
        broadcast_parameters(tensors_);
        save();
    }
}

void Elastic::run(const std::function<void()>& train) {
    bool skip = false;
    for (;;) {
        try {
            share(skip);
            train();
            barrier();  // a rank may still fail in its last steps, and then the others must be here
            return;
        } catch (const Aborted&) {
            if (rueda_is_elastic() == 0) {
                throw;
            }
            restore();
            skip = false;
        } catch (const SlotsChanged& change) {
            skip = change.only_removed();
        }
        meet_again();
        for (const std::function<void()>& callback : callbacks_) {
            callback();
        }
    }
}

}  // namespace rueda::training
