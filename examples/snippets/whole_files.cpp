// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <rueda/data/pipeline.hpp>
#include <rueda/rueda.hpp>
#include <stdexcept>
#include <string>
#include <vector>

// Reads images in the simple format PGM. A real program calls the library of its image format here.
void decode(const rueda::data::FileBytes& file, const rueda::data::SampleRow& row) {
    constexpr std::size_t kPixels = 4 * 4;
    const std::string head = "P5 4 4 255\n";
    if (file.bytes.size() != head.size() + kPixels || std::memcmp(file.bytes.data(), head.data(), head.size()) != 0) {
        throw std::runtime_error("it is no PGM image of 4 x 4 pixels");
    }
    std::memcpy(row.values<std::uint8_t>("image").data(), file.bytes.data() + head.size(), kPixels);
    // The name of the folder is the label of the image.
    row.values<float>("label")[0] = file.name.find("/dark/") == std::string_view::npos ? 1.0F : 0.0F;
}

int main() {
    namespace data = rueda::data;
    rueda::init();
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("rueda-files-snippet-" + std::to_string(rueda::size()));
    if (rueda::rank() == 0) {
        for (int i = 0; i < 20; ++i) {
            const std::filesystem::path part = folder / (i % 2 == 0 ? "dark" : "bright");
            std::filesystem::create_directories(part);
            std::ofstream(part / (std::to_string(i) + ".pgm")) << "P5 4 4 255\n"
                                                               << std::string(16, i % 2 == 0 ? 9 : 99);
        }
    }
    rueda::barrier();

    data::PipelineOptions options;
    options.sources = data::files((folder / "*" / "*.pgm").string());
    options.format = data::WholeFiles{{{"image", rueda::DType::uint8, 16}, {"label"}}, decode};
    options.batch = 4;
    options.rank = rueda::rank();
    options.size = rueda::size();
    options.shuffle = 20;
    options.epochs = 1;
    data::Pipeline pipeline(options);

    data::Batch batch;
    std::vector<double> sums(2);  // of samples and labels
    bool right = true;
    while (pipeline.next(batch)) {
        const auto images = batch.values<std::uint8_t>("image");
        const auto labels = batch.values<float>("label");
        for (std::size_t i = 0; i < labels.size(); ++i) {
            right = right && images[16 * i] == (labels[i] == 0 ? 9 : 99);
            sums[0] += 1;
            sums[1] += static_cast<double>(labels[i]);
        }
    }
    rueda::allreduce("sums", sums, {.op = rueda::ReduceOp::sum});
    if (rueda::rank() == 0) {
        std::filesystem::remove_all(folder);
    }
    rueda::shutdown();
    return right && sums[0] == 20 && sums[1] == 10 ? EXIT_SUCCESS : EXIT_FAILURE;
}
