"""The documented API: it fails at no request, and answers as documented."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)

from helpers.served import serving

_CHECKS = (
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
_EXAMPLES = 25
_JOBS = ("run_039", "payloads", "many_scalars", "odd_values")


@pytest.mark.slow
def test_every_endpoint_answers_as_documented(stored_url: str) -> None:
    with serving(stored_url, allow_remarks=True) as client:
        (base_dir,) = client.get("/api/v1/base-dirs").json()["base_dirs"]
        tags = client.get(f"/api/v1/jobs/{base_dir['key']}/payloads/tags").json()["tags"]
        _ask_everything(client, base_dir["key"], tags)


def _ask_everything(client: httpx.Client, key: str, tags: dict[str, list[str]]) -> None:
    schema = schemathesis.openapi.from_url(f"{client.base_url}/api/v1/openapi.json")
    asked = set()
    for operation in schema.exclude(path="/api/v1/events").get_all_operations():  # a stream has no end
        found = operation.ok()  # type: ignore[union-attr]

        @settings(
            max_examples=_EXAMPLES,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
            deadline=None,
        )
        @given(
            case=found.as_strategy(), real=st.booleans(), job=st.sampled_from(_JOBS), number=st.integers(0, 3)
        )
        def ask(case: Any, real: bool, job: str, number: int) -> None:
            if real:
                _make_real(case, key, job, tags, number)
            case.call_and_validate(checks=_CHECKS)

        ask()
        asked.add(found.path)
    assert {"/api/v1/jobs", "/api/v1/series", "/api/v1/payload/{base}/{name}"} <= asked


def _make_real(case: Any, key: str, job: str, tags: dict[str, list[str]], number: int) -> None:
    """Ask for what is there, where a case would ask for what is most likely not."""
    if "name" in case.path_parameters:
        case.path_parameters.update(base=key, name=job)
    if "plugin" in (case.query or {}):
        plugin = sorted(tags)[number % len(tags)]
        case.path_parameters["name"] = "payloads"
        case.query.update(plugin=plugin, tag=tags[plugin][0])
        if "step" in case.query:
            case.query["step"] = number
    elif "base" in (case.query or {}):
        case.query["base"] = key
