#!/usr/bin/env python3
"""The agent of a rented node: hears when the cloud takes the machine, and ends the machine when nobody else does.

Standard library only, Python 3.6 or newer, one JSON line per event on stdout; what it does: deploy/node/README.md.
Ages are of the monotonic clock, which begins at boot, and the lease ends by the clock of the metadata service: a wall
clock that jumps switches nothing off. What cannot be found out (do jobs run?) is unknown, and unknown is not idle.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
import traceback
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

SETTINGS = {
    "metadata_url": "http://169.254.169.254",
    "poll_s": 5.0,  # notices; AWS's advice: every 5 seconds
    "check_s": 60.0,  # lease, heartbeat, scheduled events
    "heartbeat_file": "",  # its content as ISO time or seconds since 1970, or else when it was last written
    "heartbeat_command": "",  # prints an ISO time or seconds since 1970
    "heartbeat_limit_s": 1800.0,
    "jobs_command": "",  # prints the running jobs, nothing if there are none; no command: unknown
    "lease_s": 86400.0,  # from boot, as long as no tag says otherwise
    "lease_warn_s": 600.0,  # jobs are warned and the node is drained this long before the lease ends
    "warn_command": "",
    "warn_limit_s": 20.0,  # two minutes are left after a notice: 20 for this, 90 for the drain
    "drain_command": "",
    "drain_limit_s": 90.0,
    "rebalance_command": "",
    "scheduled_command": "",
    "power_off_command": "systemctl poweroff",
    "command_limit_s": 30.0,  # of every other command
    "memory_file": "/run/elastic-node.json",  # of this boot: what a restarted agent must not forget
}
LONGEST_S, LAST_INSTANT_S = 1e8, 1e11  # three years, and the year 5138: what is beyond is a mistake
ENDS_AT = "/latest/meta-data/tags/instance/elastic:ends-at"
NOTICE = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
SCHEDULED = "/latest/meta-data/events/maintenance/scheduled"
TOKEN_S, TIMEOUT_S, FIRST_PAUSE_S, LONGEST_PAUSE_S = 21600, 2.0, 5.0, 300.0  # pauses: between lines about its silence
SAID_LETTERS = 500  # of what a command or a notice says, in a line
PROXY_FREE = build_opener(ProxyHandler({}))


def say(event, **values):
    """One line for the journal. A journal that went away is no reason to end."""
    values["event"] = event
    values["at"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with suppress(OSError):
        os.write(1, (json.dumps(values, sort_keys=True) + "\n").encode())  # whole, beside the other thread's


def instant_s(text):
    """Seconds since 1970 of an ISO time or a number; None for anything else."""
    with suppress(ValueError):
        return float(text) if abs(float(text)) < LAST_INSTANT_S else None
    with suppress(ValueError):  # Python 3.6 does not read +01:00
        text = re.sub(r"\.\d+", "", text.strip().replace("Z", "+00:00"))
        return datetime.strptime(re.sub(r":(\d\d)$", r"\1", text), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    return None


def called(command, limit_s):
    """(exit code, output, complaints) of a shell command; the code is None if it could not run or took too long. All
    that it started ends with it, and what cannot even be ended (a dead file server) is left behind."""
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], start_new_session=True, universal_newlines=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as trouble:
        return None, "", str(trouble)
    with suppress(subprocess.TimeoutExpired):
        said, complaints = process.communicate(timeout=limit_s)
        return process.returncode, said.strip(), complaints.strip()
    with suppress(OSError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=1.0)
    return None, "", "took more than %g s" % limit_s


class Metadata(object):
    """The instance metadata service, version 2 only. One for each thread."""

    def __init__(self, url):
        self.url, self.token, self.token_until = url.rstrip("/"), "", 0.0
        self.next_line, self.pause_s = 0.0, FIRST_PAUSE_S
        self.clock_s = None  # seconds since 1970 by the service's own clock, at the last answer

    def look(self, path):
        """A document, '' if there is none, None if the service does not answer: said at growing pauses."""
        try:
            text = self._asked(path)
        except (OSError, HTTPException, ValueError) as trouble:
            now = time.monotonic()
            if now >= self.next_line:
                say("metadata_silent", path=path, trouble=str(trouble))
                self.next_line, self.pause_s = now + self.pause_s, min(LONGEST_PAUSE_S, self.pause_s * 2)
            return None
        self.next_line, self.pause_s = 0.0, FIRST_PAUSE_S
        return text.strip()

    def _asked(self, path):
        try:
            return self._with_token(path)
        except HTTPError as trouble:
            if trouble.code == 401:  # the token was refused: a new one at the next look
                self.token = ""
            if trouble.code == 404:
                return ""
            raise

    def _with_token(self, path):
        if not self.token or time.monotonic() >= self.token_until:
            wish = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
            self.token = self._answer("/latest/api/token", wish, "PUT")
            self.token_until = time.monotonic() + TOKEN_S / 2
        return self._answer(path, {"X-aws-ec2-metadata-token": self.token}, "GET")

    def _answer(self, path, headers, method):
        with PROXY_FREE.open(Request(self.url + path, headers=headers, method=method), timeout=TIMEOUT_S) as answer:
            self.clock_s = None
            with suppress(TypeError, ValueError, IndexError):
                self.clock_s = parsedate_to_datetime(answer.headers["Date"]).timestamp()
            return answer.read().decode("utf-8", "replace")


class Memory(object):
    """What must outlive a restart of the agent, for this boot: its times are of the monotonic clock."""

    def __init__(self, path):
        self.path, self.lock, self.values = path, threading.Lock(), {}
        with suppress(OSError, ValueError), open(path) as file:
            found = json.load(file)
            self.values = found if isinstance(found, dict) else {}

    def put(self, **values):
        """Remember, also on disk; a disk that is full costs only what a restart would forget."""
        with self.lock:
            self.values.update(values)
            try:
                with open(self.path + ".new", "w") as file:
                    json.dump(self.values, file)
                os.replace(self.path + ".new", self.path)
            except OSError as trouble:
                say("memory_not_kept", file=self.path, trouble=str(trouble))


class Part(object):
    """What both parts do: ask the metadata service, and run the commands of the settings."""

    def __init__(self, settings, memory, dry_run):
        self.settings, self.memory, self.dry_run = settings, memory, dry_run
        self.metadata = Metadata(settings["metadata_url"])

    def act(self, key):
        """Run a command that changes something, if there is one; in a dry run only say it."""
        command, limit_s = self.settings[key], self.settings.get(key.replace("_command", "_limit_s"))
        if command and self.dry_run:
            say(key, dry_run=command)
        elif command:
            code, said, complaints = called(command, limit_s or self.settings["command_limit_s"])
            say(key, code=code, said=said[:SAID_LETTERS], complaints=complaints[:SAID_LETTERS])

    def read(self, command):
        """The output of a command that only reads; None if it failed."""
        code, said, complaints = called(command, self.settings["command_limit_s"])
        if code != 0:
            say("command_failed", command=command, code=code, complaints=complaints[:SAID_LETTERS])
        return said if code == 0 else None


class Notices(Part):
    """What the cloud announces, each once: an interruption warns the jobs and drains the node."""

    scheduled_next = 0.0

    def step(self):
        """One look."""
        self._single(NOTICE, "interruption", ("warn_command", "drain_command"))
        self._single(REBALANCE, "rebalance", ("rebalance_command",))
        if time.monotonic() >= self.scheduled_next:
            self.scheduled_next = time.monotonic() + self.settings["check_s"]
            self._scheduled()

    def _single(self, path, name, keys):
        text = self.metadata.look(path)
        if text is None or _action(text) == self.memory.values.get(name, ""):
            return
        self.memory.put(**{name: _action(text)})
        if text:
            say(name, notice=text[:SAID_LETTERS])
            for command in keys:
                self.act(command)

    def _scheduled(self):
        text = self.metadata.look(SCHEDULED)
        ids = _event_ids(text)
        if set(ids) - set(self.memory.values.get("scheduled", [])):
            self.memory.put(scheduled=ids)
            say("scheduled", notice=text[:SAID_LETTERS])
            self.act("scheduled_command")


def _action(text):
    """What a notice is about. Its time is left out: one notice whose time moves is still one notice."""
    found = re.search(r'"action"\s*:\s*"([^"]+)"', text)
    return found.group(1) if found else text and "noticed"


def _event_ids(text):
    """The ids of the scheduled events that are still to come."""
    try:
        return sorted(str(e["EventId"]) for e in json.loads(text or "[]") if e.get("State", "active") == "active")
    except (ValueError, TypeError, KeyError, AttributeError):
        return [text]


class DeadManSwitch(Part):
    """Powers the node off: at the end of its lease in any case, and when the heartbeat is old and no job runs."""

    idle_looks = 0

    def step(self):
        """One look at the lease and at the heartbeat."""
        self._renew()
        left_s = self.memory.values.get("lease_end", self.settings["lease_s"]) - time.monotonic()
        if left_s <= 0:
            say("power_off", why="the hard lease has ended")
            self.act("power_off_command")
            return
        if left_s <= self.settings["lease_warn_s"]:
            self._warn_of_end(left_s)
        if self.settings["heartbeat_command"]:
            self._heartbeat()

    def _renew(self):
        """The controller moves the end of the lease by a tag; the last one seen holds."""
        text = self.metadata.look(ENDS_AT)
        ends_s = instant_s(text) if text else None
        if ends_s is not None:
            if text != self.memory.values.get("lease"):
                say("lease", ends_at=text)
            cloud_now_s = time.time() if self.metadata.clock_s is None else self.metadata.clock_s
            self.memory.put(lease=text, lease_end=time.monotonic() + ends_s - cloud_now_s)
        elif text:
            say("lease_unreadable", text=text[:SAID_LETTERS])

    def _warn_of_end(self, left_s):
        lease = self.memory.values.get("lease", "")
        if self.memory.values.get("warned_of") != lease:
            self.memory.put(warned_of=lease)
            say("lease_ends", left_s=round(left_s))
            self.act("warn_command")
            self.act("drain_command")

    def _heartbeat(self):
        """Its age counts from when this node saw it change; from boot if it never saw one."""
        lines = (self.read(self.settings["heartbeat_command"]) or "").split("\n")
        beat = instant_s(lines[0]) or instant_s(lines[-1])
        if beat is not None and beat != self.memory.values.get("beat"):
            self.memory.put(beat=beat, beat_seen=time.monotonic())
        age_s = time.monotonic() - self.memory.values.get("beat_seen", 0.0)
        if age_s <= self.settings["heartbeat_limit_s"]:
            self.idle_looks = 0
            return
        jobs = self.read(self.settings["jobs_command"]) if self.settings["jobs_command"] else None
        say("heartbeat_old", age_s=round(age_s), jobs="unknown" if jobs is None else jobs[:SAID_LETTERS])
        self.idle_looks = self.idle_looks + 1 if jobs == "" else 0
        if self.idle_looks == 1:  # nothing new may start; the next look tells whether something just did
            self.act("drain_command")
        elif self.idle_looks > 1:
            say("power_off", why="no heartbeat of the controller for %d s and no job" % age_s)
            self.act("power_off_command")


def read_settings(path):
    """The defaults with what the file says; what is wrong is said, and its default holds."""
    settings = dict(SETTINGS)
    try:
        with open(path) as file:
            given = json.load(file)
        if not isinstance(given, dict):
            raise ValueError("it must hold one JSON object")
    except (OSError, ValueError) as trouble:
        say("settings_unreadable", file=path, trouble=str(trouble), now="the lease holds, the heartbeat is not watched")
        return settings
    for key, value in given.items():
        wanted = SETTINGS.get(key)
        if isinstance(wanted, str) and isinstance(value, str):
            settings[key] = value
        elif isinstance(wanted, float) and type(value) in (int, float) and 0 < value < LONGEST_S:
            settings[key] = float(value)
        else:
            kinds = {str: "text", float: "a number of seconds above 0"}
            right = kinds.get(type(wanted), "one of " + ", ".join(sorted(SETTINGS)))
            say("setting_wrong", file=path, key=key, wanted=right, now=wanted)
    if settings["heartbeat_file"]:  # read by a process of its own: a file server that hangs must not hang the agent
        name = shlex.quote(settings["heartbeat_file"])
        settings["heartbeat_command"] = "head -c 100 -- %s && echo && stat -c %%Y -- %s" % (name, name)
    return settings


def forever(part, pause_s):
    """Step after step. An end that nobody foresaw ends the whole agent: its service starts it again."""
    try:
        while True:
            part.step()
            time.sleep(pause_s)
    finally:
        traceback.print_exc()
        os._exit(1)


def main():
    """Start both parts, each in a thread: a slow answer to one does not delay the other."""
    parser = argparse.ArgumentParser(description="Agent of a rented node: notices, drain, dead-man switch.")
    parser.add_argument("--settings", default="/etc/elastic-node.json")
    parser.add_argument("--metadata-url", help="instead of the settings' one")
    parser.add_argument("--interval", type=float, help="seconds between looks, instead of poll_s and check_s")
    parser.add_argument("--once", action="store_true", help="one look, then end")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run, change nothing")
    asked = parser.parse_args()
    settings = read_settings(asked.settings)
    given = {"metadata_url": asked.metadata_url, "poll_s": asked.interval, "check_s": asked.interval}
    settings.update((key, value) for key, value in given.items() if value)
    shared = (settings, Memory(settings["memory_file"]), asked.dry_run)
    switch, notices = DeadManSwitch(*shared), Notices(*shared)
    say("started", lease_s=settings["lease_s"], watches_heartbeat=bool(settings["heartbeat_command"]))
    if asked.once:
        notices.step()
        switch.step()
        return
    threading.Thread(target=forever, args=(notices, settings["poll_s"]), daemon=True).start()
    forever(switch, settings["check_s"])


if __name__ == "__main__":
    main()
