"""How many examples, and which: the same ones every time, or others with HYPOTHESIS_SEARCH=1.

HYPOTHESIS_SEARCH=20 multiplies their number too. A search makes a failing example smaller, which takes
minutes with a lake per example; other runs show the first one as it is.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

SEARCH = int(os.environ.get("HYPOTHESIS_SEARCH") or 0)


def number(of_examples: int) -> settings:
    """Return the settings of a property that is run on so many examples."""
    return settings(
        max_examples=of_examples * max(SEARCH, 1),
        derandomize=not SEARCH,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if SEARCH else (Phase.generate,),
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.function_scoped_fixture,
        ],
    )


many = number(40)
some = number(25)
several = number(10)
few = number(6)
