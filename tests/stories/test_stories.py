"""Stories: a small world and a clock script, and every decision as a person would read it. `NAME.txt` beside a story is
what it told last; `STORIES=rewrite pytest tests/stories` writes them anew, to be read before they are committed."""

import os
from difflib import unified_diff

import pytest

from tests.stories.teller import stories, tell


@pytest.mark.parametrize("story", stories(), ids=lambda path: path.stem)
def test_the_story_is_told_as_before(story):
    told, kept = tell(story), story.with_suffix(".txt")
    if os.environ.get("STORIES") == "rewrite":
        kept.write_text(told)
    before = kept.read_text() if kept.exists() else ""
    diff = unified_diff(before.splitlines(), told.splitlines(), f"{kept.name} as kept", "as told now", lineterm="", n=2)
    assert told == before, "\n".join(["the story changed; if that is meant: STORIES=rewrite", *diff])


def test_every_kept_text_has_its_story():
    texts = {path.stem for path in stories()[0].parent.glob("*.txt")}
    assert texts == {path.stem for path in stories()}
    assert len(texts) >= 8
