// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>

int main() {
    rueda::init();
    if (rueda::rank() == 0) {
        const rueda::Busy busy("preparing the data");  // what a stall report would say about this rank
        // … something that only one rank does …
    }
    rueda::begin_step(0);  // of the training loop: what a restart by ruedarun repeats
    rueda::barrier();      // no rank goes on before all have come here
    rueda::shutdown();
}
