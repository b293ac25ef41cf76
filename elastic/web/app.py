"""`/` for people, `/healthz`, `/metrics` and `/api/status` for programs. Reads the service, never acts."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

from elastic.codec import plan_to_dict
from elastic.figures import figures
from elastic.plan_text import render
from elastic.service import Service
from elastic.web.chart import demand_chart
from elastic.web.view import page_view

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def make_app(service: Service) -> FastAPI:
    """The page of one service."""
    app = FastAPI(title="Elastic capacity controller", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    def healthz() -> JSONResponse:
        health = service.health()
        body = {**asdict(health), "tick": service.controller.state.tick}
        return JSONResponse(body, status_code=200 if health.ok else 503)

    @app.get("/metrics")
    def metrics() -> PlainTextResponse:
        return PlainTextResponse(service.metrics.render(), media_type="text/plain; version=0.0.4")

    @app.get("/api/status")
    def status() -> JSONResponse:
        return JSONResponse(_status(service))

    @app.get("/", response_class=HTMLResponse)
    def page() -> str:
        view = page_view(service)
        return _TEMPLATES.get_template("status.html").render(view=view, chart=demand_chart(list(service.books.points)))

    return app


def _status(service: Service) -> dict[str, Any]:
    record, state = service.record, service.controller.state
    if record is None:
        return {"at": None, "health": asdict(service.health())}
    now = asdict(figures(record))
    now["at"] = record.snapshot.at.isoformat()
    return {
        **now,
        "tick": record.tick,
        "policy_hash": record.plan.policy_hash,
        "usd_today": round(state.spend.usd_day, 2),
        "usd_this_month": round(state.spend.usd_month, 2),
        "health": asdict(service.health()),
        "plan": plan_to_dict(record.plan),
        "plan_text": render(record.plan, zone=service.policy().time_zone),
    }
