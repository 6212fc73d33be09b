// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdlib>
#include <rueda/data/agree.hpp>
#include <rueda/data/hash.hpp>
#include <rueda/data/pipeline.hpp>
#include <rueda/rueda.hpp>
#include <string>
#include <vector>

// Turns texts into numbers: the column "page" by hashing, the column "colour" by a vocabulary that grows.
int main() {
    namespace data = rueda::data;
    rueda::init();
    std::string rows = "page,colour\n";
    for (int i = 0; i < 60; ++i) {
        rows += "page-" + std::to_string(i) + (i % 3 == 0 ? ",red\n" : i % 2 == 0 ? ",green\n" : ",blue\n");
    }
    data::PipelineOptions options;
    options.sources = data::memory("rows", rows);
    options.format = data::Csv{{{"page", rueda::DType::uint8}, {"colour", rueda::DType::uint8}}};
    options.batch = 10;
    options.rank = rueda::rank();
    options.size = rueda::size();
    options.epochs = 2;
    options.maps = {data::hash_columns({"page"}, {.buckets = 1000})};  // in the pipeline's threads
    data::Pipeline pipeline(options);

    data::Vocabulary colours(std::vector<std::string>(), {.most_terms = 10, .grows = true});
    std::vector<double> unknown(2);  // samples whose colour has no id of its own, in each epoch
    data::Batch batch;
    for (double& number : unknown) {
        while (pipeline.next(batch)) {
            colours.look_up_and_count(batch.column("colour"), batch.counted());  // in the order of the batches
            for (const std::int64_t id : batch.values<std::int64_t>("colour")) {
                number += id == 10 ? 1 : 0;
            }
        }
        data::agree(colours);  // all ranks now have the same terms: blue, green and red, each 20 times
    }
    rueda::allreduce("unknown", unknown, {.op = rueda::ReduceOp::sum});
    rueda::shutdown();
    const bool same = colours.size() == 3 && colours.term(0) == "blue" && colours.term(2) == "red";
    return same && unknown == std::vector<double>{60, 0} ? EXIT_SUCCESS : EXIT_FAILURE;
}
