"""Figures of the pulse in MLflow: `rankscope.profile("runs/a").add(MLflow(run_id))`; one request a second at most."""

from __future__ import annotations

from typing import Any, Final

from rankscope.collector.integrations.scalars import Rows, Scalars

MOST: Final = 1000  # metrics that MLflow takes in one request


class MLflow(Scalars):
    """Logs into the run with this id, at this tracking URI (None: MLflow's present one), and leaves it open."""

    name = "mlflow"

    def __init__(self, run_id: str, tracking_uri: str | None = None, every: int = 10) -> None:
        super().__init__(every)
        self._run_id, self._uri = run_id, tracking_uri
        self._client: Any = None

    def write(self, rows: Rows) -> None:
        """At the time at which the step began."""
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        if self._client is None:
            self._client = MlflowClient(self._uri)
        metrics = [
            Metric(name, value, begin_ns // 1_000_000, step)
            for step, begin_ns, values in rows
            for name, value in values.items()
        ]
        for first in range(0, len(metrics), MOST):
            self._client.log_batch(self._run_id, metrics=metrics[first : first + MOST])
