/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
#include <rueda/rueda.h>
#include <stdio.h>
#include <string.h>

static int fail(const char* what) {
    fprintf(stderr, "%s: %s\n", what, rueda_last_error());
    return 1;
}

int main(void) {
    double value = 21.0;
    const int64_t shape[1] = {1};
    const rueda_tensor tensor = {&value, shape, 1, RUEDA_FLOAT64};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.postscale = 2.0;
    if (strcmp(rueda_version(), RUEDA_VERSION) != 0) {
        return fail(rueda_version());
    }
    if (rueda_init() != RUEDA_OK || rueda_allreduce("value", &tensor, &tensor, &options) != RUEDA_OK ||
        rueda_shutdown() != RUEDA_OK) {
        return fail("rueda");
    }
    return value == 42.0 ? 0 : fail("the value is not 42");
}
