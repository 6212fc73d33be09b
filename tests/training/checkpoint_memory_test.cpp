// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Completes a checkpoint, and makes a different allocation fail each time.
#include <catch2/catch.hpp>
#include <filesystem>

#include "rueda/checkpoints.h"
#include "tests/core/runtime/failing_memory.hpp"
#include "tests/support/folder.hpp"
#include "tests/training/saved_values.hpp"

namespace rueda::training {
namespace {

constexpr std::uint64_t kAll = std::uint64_t{1} << 32;

/// Completes the checkpoint of step 3. The first `successes` allocations work, and the next one fails. Old checkpoints
/// are kept, because std::filesystem::remove_all() ends the process if no memory is left. Returns the number of
/// allocations.
std::uint64_t complete_third(std::uint64_t successes) {
    const tests::Folder store;
    REQUIRE(test::save_in_store(store.path(), 1, 0, 2).is_ok());
    REQUIRE(test::save_in_store(store.path(), 2, 0, 2).is_ok());
    test::SavedValues values;
    values.set(3);
    const std::filesystem::path folder = begin_checkpoint(store.path(), 3).value();
    REQUIRE(write_part(folder, as_whole_parts(values.model()), 3, 0, 1).is_ok());
    const std::string text = store.path().string();
    const std::string name = folder.filename().string();
    rueda_snapshot snapshot = RUEDA_SNAPSHOT_INIT;
    snapshot.folder = text.c_str();
    snapshot.step = 3;
    snapshot.max_to_keep = 3;
    char* pruning_failure = nullptr;
    std::uint64_t allocations = 0;
    int status = RUEDA_OK;
    {
        const tests::FailingAllocation failing(successes);
        status = rueda_checkpoint_complete(&snapshot, name.c_str(), &pruning_failure);
        allocations = failing.has_failed() ? successes : failing.allocations();
    }
    const bool was_pruned = pruning_failure == nullptr;
    rueda_checkpoint_free_text(pruning_failure);
    CHECK(status == RUEDA_OK);  // if this were an error, the caller would remove the complete checkpoint
    CHECK((was_pruned || successes != kAll));
    const Result<StoreListing> listing = list_store(store.path());
    REQUIRE(listing.is_ok());
    REQUIRE_FALSE(listing.value().complete.empty());
    CHECK(listing.value().complete.front().step == 3);
    return allocations;
}

TEST_CASE("a complete checkpoint is no failure if the memory for looking at older ones is used up",
          "[checkpoint_faults]") {
    const std::uint64_t allocations = complete_third(kAll);
    REQUIRE(allocations > 100);
    for (std::uint64_t successes = allocations - 20; successes < allocations; ++successes) {
        INFO("after " << successes << " of " << allocations << " allocations");
        complete_third(successes);
    }
}

}  // namespace
}  // namespace rueda::training
