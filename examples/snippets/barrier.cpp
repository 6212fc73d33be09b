// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>

int main() {
    rueda::init();
    if (rueda::rank() == 0) {
        const rueda::Busy busy("preparing the data");  // a stall report about this rank shows this text
        // … something that only one rank does …
    }
    rueda::begin_step(0);  // ruedarun reports this step after a restart
    rueda::barrier();      // returns when all ranks have called it
    rueda::shutdown();
}
