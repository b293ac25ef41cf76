"""What is wrong with a history file, where, and what to do about it. The only error this room lets out."""


class HistoryError(Exception):
    """A history that cannot be read. `line` counts from 1, None when the trouble is not in one line."""

    def __init__(
        self, problem: str, *, path: str = "", line: int | None = None, field: str = "", advice: str = ""
    ) -> None:
        self.problem, self.path, self.line, self.field, self.advice = problem, path, line, field, advice
        place = ", ".join(
            part
            for part in (path, f"line {line}" if line is not None else "", f"field {field}" if field else "")
            if part
        )
        text = f"{place}: {problem}" if place else problem
        super().__init__(f"{text}. {advice}" if advice else text)
