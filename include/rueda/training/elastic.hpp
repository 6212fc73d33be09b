// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Lets a training go on in the surviving processes after a rank has died, and lets new ranks join it:
///
///     rueda::training::Elastic elastic(tensors);
///     elastic.run([&] {
///         for (; step < 1000; ++step) { … elastic.commit(); }
///     });
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "rueda/training/parameters.hpp"

namespace rueda::training {

class ElasticValues;

/// commit() and check_slots() throw this on all ranks when ranks will join or leave the job. Elastic::run() catches it.
/// It is no rueda::Error, so a program that catches rueda::Error does not catch it by mistake.
class SlotsChanged : public std::runtime_error {
public:
    explicit SlotsChanged(bool only_removed)
        : std::runtime_error("the slots of the elastic job have changed"), only_removed_(only_removed) {}
    /// Whether ranks only leave the job, and no rank joins. In this case all ranks already have the same values.
    [[nodiscard]] bool only_removed() const noexcept { return only_removed_; }

private:
    bool only_removed_;
};

/// Has the values of an elastic training, and the loop that repeats the training after a change of the ranks
/// (docs/elastic.md). Use this class in jobs that ruedarun started with --min-np, --max-np or --host-discovery-script.
/// In any other job, run() calls the training once, and an Aborted error ends the training.
///
/// Threads: one thread at a time may use an object.
class RUEDA_API Elastic {
public:
    /// `tensors` are all values that the training changes, in the memory of the CPU: the model, the state of the
    /// optimizer, random numbers and counters, for example {"step", std::span(&step, 1)}. The values must be the same
    /// on all ranks, and the tensors must exist as long as the object. Their present values are the first commit. Call
    /// the constructor after rueda::init().
    explicit Elastic(std::vector<NamedTensor> tensors);
    ~Elastic();
    Elastic(const Elastic&) = delete;
    Elastic& operator=(const Elastic&) = delete;

    /// Adds a function that run() calls on all ranks after each change of the ranks, for example to adapt the learning
    /// rate to the new number of ranks.
    void on_reset(std::function<void()> callback);

    /// Calls `train` until it returns on all ranks. Before each call, all ranks get the values of rank 0. If the job is
    /// aborted, the surviving ranks restore their last commit and continue without the rank that has died. If
    /// SlotsChanged was thrown, the ranks continue with their present values.
    ///
    /// Everything that belongs to the job must be made inside `train`: objects of TensorSlot, process sets and handles.
    /// These objects are invalid after a change of the ranks. Memory of rueda::allocate() stays valid, but after a
    /// change it no longer makes operations faster.
    ///
    /// Throws what `train` throws, except SlotsChanged. Throws Aborted if the job is not elastic, if ruedarun does
    /// not take this process into the next generation, or if all ranks that had the values have died.
    void run(const std::function<void()>& train);

    /// Saves the present values in memory, and then calls check_slots(). All ranks must call commit() together.
    void commit();
    /// Throws SlotsChanged on all ranks if ruedarun has told rank 0 that ranks will join or leave the job. All ranks
    /// must call check_slots() together. It sends 4 bytes.
    void check_slots() const;
    /// Sets the values to those of the last commit.
    void restore();

private:
    std::unique_ptr<ElasticValues> values_;
};

}  // namespace rueda::training
