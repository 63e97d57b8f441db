"""Metrics for Prometheus.

In: a function that measures a store. Out: a collector for a registry, or an HTTP endpoint of this process. Promises: if
the Prometheus client of the extra `[web]` is missing, a ConfigError says what to install.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lineage_store.errors import ConfigError

if TYPE_CHECKING:
    from lineage_store.operations.health import Measures
    from lineage_store.operations.monitoring import StoreCollector


@contextmanager
def metrics_at(port: int, measure: Callable[[], Measures]) -> Iterator[None]:
    """Serve metrics at a port of this host for the length of the block; 0: do nothing. Raises ConfigError."""
    if not port:
        yield
        return
    _require_client()
    from lineage_store.operations.monitoring import exposed

    with exposed(port, measure):
        yield


def collector(measure: Callable[[], Measures]) -> StoreCollector:
    """Return a collector for a registry of prometheus_client; `measure` is `store.measures`. Raises ConfigError."""
    _require_client()
    from lineage_store.operations.monitoring import StoreCollector

    return StoreCollector(measure)


def _require_client() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"Metrics need a package that cannot be imported: {error}.",
            hint="Run: pip install 'lineage-store[web]'",
        ) from error
