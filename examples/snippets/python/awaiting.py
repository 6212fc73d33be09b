# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import asyncio

import numpy as np
import rueda


async def main() -> None:
    handle = rueda.allreduce_async(np.ones(1000), "gradient", rueda.Sum)
    other_work = asyncio.sleep(0.01, "done")  # runs while the event loop awaits the handle
    gradient, state = await asyncio.gather(handle, other_work)
    assert gradient[0] == rueda.size() and state == "done"


rueda.init()
asyncio.run(main())
