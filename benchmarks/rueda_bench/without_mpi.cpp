// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Replaces mpi_candidates.cpp in builds without MPI. The table then has only Rueda's rows.
#include "candidate.hpp"
#include "rueda/rueda.hpp"

namespace rueda::bench {

void add_mpi_candidates(std::vector<std::unique_ptr<Candidate>>& /*candidates*/, const Job& /*job*/) {}
void line_up() { rueda::barrier(); }
std::string mpi_description() { return "none"; }
void begin_mpi(int* /*argc*/, char*** /*argv*/) {}
void end_mpi() {}

}  // namespace rueda::bench
