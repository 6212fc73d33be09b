// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/elastic.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "rueda/elastic.h"

namespace rueda::training {

namespace {

/// Leaves the job and joins its next generation. If another rank has died meanwhile, the next generation begins without
/// that rank.
void rejoin() {
    try {
        shutdown();
    } catch (const Aborted&) {
        if (rueda_is_elastic() == 0) {
            throw;
        }
    }
    init();
}

/// Whether this process has shared the values of a training with the other ranks. Relaxed order suffices: the flag
/// orders no other data, and a program runs only one elastic training at a time.
std::atomic<bool> has_shared_values{false};

/// Returns whether this process has the values of the training. A process of the first generation has the initial
/// values. A process that joined later has none until it gets them from the other ranks.
bool has_values() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): only init() changes it
    const char* const generation = std::getenv("RUEDARUN_FIRST_GENERATION");
    return generation == nullptr || std::string_view(generation) == "0" ||
           has_shared_values.load(std::memory_order_relaxed);
}

}  // namespace

/// The values of the training and their last commit.
class ElasticValues {
public:
    explicit ElasticValues(std::vector<NamedTensor> tensors);

    void save();
    void restore();
    /// Copies the values of rank 0 to all ranks. If `skip` is true on all ranks, copies nothing.
    void share(bool skip);
    /// Throws Aborted if rank 0 has no values.
    void check() const;

    std::vector<std::function<void()>> callbacks;

private:
    std::vector<NamedTensor> tensors_;
    std::vector<std::vector<std::byte>> saved_;
};

ElasticValues::ElasticValues(std::vector<NamedTensor> tensors) : tensors_(std::move(tensors)), saved_(tensors_.size()) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const std::int64_t elements = tensors_[i].tensor.shape().elements();
        if (elements < 0) {
            throw InvalidArgument("Elastic: tensor '" + tensors_[i].name +
                                  "' has a shape with a negative extent; expected extents of at least 0");
        }
        saved_[i].resize(static_cast<std::size_t>(elements) * size_of(tensors_[i].tensor.dtype()));
    }
    save();
}

void ElasticValues::save() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (!saved_[i].empty()) {
            std::memcpy(saved_[i].data(), tensors_[i].tensor.data(), saved_[i].size());
        }
    }
}

void ElasticValues::restore() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (!saved_[i].empty()) {
            std::memcpy(tensors_[i].tensor.data(), saved_[i].data(), saved_[i].size());
        }
    }
}

/// Survivors get the lowest ranks. So if rank 0 has no values, no rank has them: all ranks that had them died before
/// they could send them. Without this error, the training would begin anew, and nobody would notice.
void ElasticValues::check() const {
    if (rank() == 0 && !has_values()) {
        throw Aborted(
            "Elastic: all ranks that had the values of the training have died before this new rank got the values; "
            "start the job again, from a checkpoint if there is one");
    }
}

/// The copy is made if at least one rank asks for it. If ranks have only left the job, a rank need not ask. But another
/// rank may have restored a commit, and then it needs the copy.
void ElasticValues::share(bool skip) {
    std::array<std::int32_t, 1> asks = {skip ? 0 : 1};
    allreduce("rueda.elastic.asks_for_values", asks, {.op = ReduceOp::max});
    if (asks[0] != 0) {
        broadcast_parameters(tensors_);
        save();
    }
    has_shared_values.store(true, std::memory_order_relaxed);
}

Elastic::Elastic(std::vector<NamedTensor> tensors) : values_(std::make_unique<ElasticValues>(std::move(tensors))) {}

Elastic::~Elastic() = default;

void Elastic::on_reset(std::function<void()> callback) { values_->callbacks.push_back(std::move(callback)); }

void Elastic::restore() { values_->restore(); }

void Elastic::commit() {
    values_->save();
    check_slots();
}

void Elastic::check_slots() const {
    std::array<std::int32_t, 1> changes{};
    detail::check(rueda_take_slot_changes(changes.data()));
    // Ranks learn of a change of slots at different times. So all ranks use rank 0's knowledge.
    broadcast("rueda.elastic.slot_changes", changes, /*root=*/0);
    if (changes[0] != 0) {
        throw SlotsChanged(changes[0] == RUEDA_SLOTS_REMOVED);
    }
}

void Elastic::run(const std::function<void()>& train) {
    bool skip = false;
    bool is_reset = false;
    bool needs_restore = false;
    for (;;) {
        if (is_reset) {
            rejoin();
        }
        if (std::exchange(needs_restore, false)) {
            // The values are restored only after rejoin(). Before that, a slow rank might still write to tensors in
            // shared memory.
            values_->restore();
        }
        values_->check();
        try {
            if (std::exchange(is_reset, true)) {
                for (const std::function<void()>& callback : values_->callbacks) {
                    callback();
                }
            }
            values_->share(skip);
            train();
            barrier();  // another rank may fail in its last steps, and then needs this rank in the next generation
            return;
        } catch (const Aborted&) {
            if (rueda_is_elastic() == 0) {
                throw;
            }
            needs_restore = true;
            skip = false;
        } catch (const SlotsChanged& change) {
            skip = change.only_removed();
        }
    }
}

}  // namespace rueda::training
