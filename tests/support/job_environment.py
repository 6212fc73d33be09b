# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The environment for jobs that a test starts."""

import os


def job_environment(keep=()):
    """Returns this process's environment without the variables of a launcher that started the test, because they must not
    reach the jobs of the test. `keep` names variables that stay.
    """
    prefixes = ("OMPI_", "PMIX_", "PRTE_", "RUEDA_", "HOROVOD_")
    return {name: value for name, value in os.environ.items() if name in keep or not name.startswith(prefixes)}
