// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <filesystem>
#include <rueda/rueda.hpp>
#include <rueda/training/checkpoint_manager.hpp>
#include <string>
#include <vector>

// Each rank holds some rows of a table, and saves and restores only these rows.
int main(int argc, char** argv) {
    namespace training = rueda::training;
    const std::filesystem::path folder = std::string(argc > 1 ? argv[1] : "table") + ".parts";
    rueda::init();
    bool right = false;
    {
        constexpr std::int64_t kRows = 1000;
        constexpr std::int64_t kColumns = 8;
        const training::Range rows = training::shard(kRows, rueda::rank(), rueda::size());
        std::vector<float> table(static_cast<std::size_t>(rows.size() * kColumns), 1.5F);
        const rueda::TensorView mine(table.data(), rueda::DType::float32, {rows.size(), kColumns});
        const std::vector<training::TensorPart> parts = {{"table", mine, rows, kRows}};

        training::CheckpointManager manager({.folder = folder});
        manager.save_parts(parts, {.step = 1});
        manager.wait();
        rueda::barrier();  // rank 0 completes the checkpoint, and the other ranks wait for rank 0

        std::fill(table.begin(), table.end(), 0.0F);
        const auto restored = manager.restore_parts(parts);
        right =
            restored && restored->step == 1 && std::count(table.begin(), table.end(), 1.5F) == rows.size() * kColumns;
    }
    rueda::shutdown();
    return right ? 0 : 1;
}
