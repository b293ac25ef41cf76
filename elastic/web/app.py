"""`/` for people, `/healthz` and `/api/status` for programs. Reads the service, never acts."""

from dataclasses import asdict
from pathlib import Path

import jinja2
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse

from elastic.plan_text import render
from elastic.service import Service, figures

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
)


def make_app(service: Service) -> FastAPI:
    """The page of one service."""
    app = FastAPI(title="Elastic capacity controller", docs_url=None, redoc_url=None)

    @app.get("/healthz")
    def healthz() -> JSONResponse:
        healthy = service.is_healthy()
        return JSONResponse(
            {"ok": healthy, "trouble": service.trouble, "tick": service.controller.state.tick},
            status_code=200 if healthy else 503,
        )

    @app.get("/api/status")
    def status() -> JSONResponse:
        record = service.record
        if record is None:
            return JSONResponse({"at": None})
        spend = service.controller.state.spend
        return JSONResponse(
            {
                "at": record.snapshot.at.isoformat(),
                **asdict(figures(record)),
                "usd_today": round(spend.usd_day, 2),
                "usd_this_month": round(spend.usd_month, 2),
                "plan": render(record.plan),
            }
        )

    @app.get("/", response_class=HTMLResponse)
    def page() -> str:
        record = service.record
        return _TEMPLATES.get_template("status.html").render(
            record=record,
            now=figures(record) if record else None,
            spend=service.controller.state.spend,
            plan=render(record.plan) if record else "",
            lines=list(service.lines),
            trouble=service.trouble,
        )

    return app
