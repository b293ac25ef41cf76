#!/usr/bin/env python3
"""The agent of a rented node: hears when the cloud takes the machine, and ends the machine when nobody else does.

Standard library only, Python 3.6 or newer: it runs on whatever the image has. Installed by the node's user data.

- Every few seconds it asks the instance metadata for an interruption notice and a rebalance recommendation; on a notice
  it warns the jobs and drains the node, once, each command with its own time limit.
- The dead-man switch: when the controller's heartbeat is older than its limit and no job runs, and at the hard lease in
  any case, it powers the node off. What it cannot find out (do jobs run?) is unknown, and unknown is not idle.

One JSON line per event on stdout. Settings: see SETTINGS; the file given with --settings overrides them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone

SETTINGS = {
    "metadata_url": "http://169.254.169.254",
    "poll_s": 5.0,  # AWS's advice: every 5 seconds
    "lease_poll_s": 60.0,
    "heartbeat_file": "",  # its content as ISO time or seconds, or else when it was last changed
    "heartbeat_command": "",  # prints an ISO time or seconds since 1970
    "heartbeat_limit_s": 1800.0,
    "jobs_command": "squeue --noheader --states=running,completing --nodelist=$(hostname -s) --format=%i",
    "lease_s": 86400.0,  # counted from the start, as long as no tag says otherwise
    "warn_command": "",
    "drain_command": "",
    "rebalance_command": "",
    "power_off_command": "systemctl poweroff",
    "command_limit_s": 60.0,
}
ENDS_AT = "/latest/meta-data/tags/instance/elastic:ends-at"
NOTICE = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
SCHEDULED = "/latest/meta-data/events/maintenance/scheduled"
TOKEN_S, TIMEOUT_S = 21600, 2.0
LONGEST_PAUSE_S = 300.0  # between two lines about metadata that does not answer


def say(event, **values):
    """One line for the journal."""
    values["event"] = event
    values["at"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    print(json.dumps(values, sort_keys=True), flush=True)


def instant_s(text):
    """Seconds since 1970 of an ISO time or a number; None for anything else."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        pass
    for form in ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"):
        try:
            fixed = text[:-1] + "+0000" if text.endswith("Z") else text
            if len(fixed) > 3 and fixed[-3] == ":":
                fixed = fixed[:-3] + fixed[-2:]
            return datetime.strptime(fixed, form).timestamp()
        except ValueError:
            continue
    return None


class Metadata(object):
    """The instance metadata service, version 2 only."""

    def __init__(self, url):
        self.url, self.token, self.token_until = url.rstrip("/"), "", 0.0
        self.quiet_until, self.pause_s = 0.0, 5.0

    def get(self, path):
        """A document; None if there is none; raises OSError when the service does not answer."""
        try:
            return self._ask(path)
        except urllib.error.HTTPError as trouble:
            if trouble.code == 401:
                self.token = ""
                return self._ask(path)
            if trouble.code == 404:
                return None
            raise

    def _ask(self, path):
        if not self.token or time.monotonic() >= self.token_until:
            asked = urllib.request.Request(self.url + "/latest/api/token", method="PUT")
            asked.add_header("X-aws-ec2-metadata-token-ttl-seconds", str(TOKEN_S))
            self.token = urllib.request.urlopen(asked, timeout=TIMEOUT_S).read().decode()
            self.token_until = time.monotonic() + TOKEN_S / 2
        asked = urllib.request.Request(self.url + path)
        asked.add_header("X-aws-ec2-metadata-token", self.token)
        try:
            return urllib.request.urlopen(asked, timeout=TIMEOUT_S).read().decode()
        except urllib.error.HTTPError as trouble:
            if trouble.code == 404:
                return None
            raise

    def look(self, path):
        """Like `get`, but trouble is said at growing pauses and told as None."""
        try:
            found = self.get(path)
            self.pause_s = 5.0
            return found
        except (OSError, ValueError) as trouble:
            if time.monotonic() >= self.quiet_until:
                say("metadata_unreachable", path=path, trouble=str(trouble))
                self.quiet_until = time.monotonic() + self.pause_s
                self.pause_s = min(LONGEST_PAUSE_S, self.pause_s * 2)
            return None


class Agent(object):
    """The loop's state."""

    def __init__(self, settings, dry_run=False):
        self.settings, self.dry_run = settings, dry_run
        self.metadata = Metadata(settings["metadata_url"])
        self.done = set()
        self.started = time.monotonic()
        self.beat = None  # the newest heartbeat as told
        self.beat_seen = self.started  # when it changed, by the monotonic clock: a clock that jumps changes nothing
        self.lease_end = self.started + settings["lease_s"]  # by the monotonic clock
        self.lease_text, self.lease_looked = "", None
        self.is_off = False

    def step(self):
        """One look at everything."""
        self.notices()
        self.lease()
        self.heartbeat()
        now = time.monotonic()
        if now >= self.lease_end:
            self.power_off("the hard lease has ended")
        elif now - self.beat_seen > self.settings["heartbeat_limit_s"]:
            jobs = self.jobs()
            if jobs == "":
                self.power_off("no heartbeat of the controller for %d s and no job" % (now - self.beat_seen))
            else:
                say("heartbeat_old", age_s=round(now - self.beat_seen), jobs=jobs if jobs else "unknown")

    def notices(self):
        for path, name in ((NOTICE, "interruption"), (SCHEDULED, "scheduled"), (REBALANCE, "rebalance")):
            text = self.metadata.look(path)
            if not text or text.strip() in ("", "[]") or (path, text) in self.done:
                continue
            self.done.add((path, text))
            say(name, notice=text.strip()[:500])
            if name == "rebalance":
                self.run("rebalance_command")
            elif name == "interruption":
                self.run("warn_command")
                self.run("drain_command")

    def lease(self):
        """The controller moves the end of the lease by a tag; the last one seen holds."""
        now = time.monotonic()
        if self.lease_looked is not None and now - self.lease_looked < self.settings["lease_poll_s"]:
            return
        self.lease_looked = now
        text = (self.metadata.look(ENDS_AT) or "").strip()
        if not text or text == self.lease_text:
            return
        ends = instant_s(text)
        if ends is None:
            say("lease_unreadable", text=text[:100])
            return
        self.lease_text = text
        self.lease_end = now + ends - time.time()
        say("lease", ends_at=text)

    def heartbeat(self):
        """A heartbeat counts from when this node sees it change."""
        found = None
        name = self.settings["heartbeat_file"]
        if name:
            try:
                with open(name) as file:
                    found = instant_s(file.read(100))
                if found is None:
                    found = os.stat(name).st_mtime
            except (OSError, UnicodeDecodeError):
                found = None
        elif self.settings["heartbeat_command"]:
            code, said = self.call(self.settings["heartbeat_command"])
            found = instant_s(said) if code == 0 else None
        if found is not None and found != self.beat:
            self.beat, self.beat_seen = found, time.monotonic()

    def jobs(self):
        """Names of running jobs, '' for none, None if that cannot be found out."""
        code, said = self.call(self.settings["jobs_command"])
        return said.strip() if code == 0 else None

    def run(self, key):
        """A command of the settings, if there is one."""
        if self.settings[key]:
            code, said = self.call(self.settings[key])
            say(key, code=code, said=said.strip()[:500])

    def call(self, command):
        """(exit code, output); None for a command that could not run or took too long."""
        if self.dry_run:
            say("dry_run", command=command)
            return None, ""
        try:
            done = subprocess.run(
                command,
                shell=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self.settings["command_limit_s"],
                universal_newlines=True,
            )
            return done.returncode, done.stdout
        except (OSError, subprocess.SubprocessError) as trouble:
            say("command_failed", command=command, trouble=str(trouble))
            return None, ""

    def power_off(self, why):
        if not self.is_off:
            say("power_off", why=why)
        self.is_off = True
        self.call(self.settings["power_off_command"])


def read_settings(path):
    """The defaults with what the file says; what is wrong is said, and its default holds."""
    settings = dict(SETTINGS)
    try:
        with open(path) as file:
            given = json.load(file)
        if not isinstance(given, dict):
            raise ValueError("it must hold one JSON object")
    except (OSError, ValueError) as trouble:
        say("settings_unreadable", file=path, trouble=str(trouble))
        return settings
    for key, value in given.items():
        known = SETTINGS.get(key)
        if known is None:
            say("setting_unknown", key=key)
        elif isinstance(known, float):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and value > 0:
                settings[key] = float(value)
            else:
                say("setting_wrong", key=key, wanted="a number above 0")
        elif isinstance(value, str):
            settings[key] = value
        else:
            say("setting_wrong", key=key, wanted="text")
    return settings


def main():
    parser = argparse.ArgumentParser(description="Agent of a rented node: notices, drain, dead-man switch.")
    parser.add_argument("--settings", default="/etc/elastic-node.json")
    parser.add_argument("--once", action="store_true", help="one look, then end")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run, run nothing")
    asked = parser.parse_args()
    agent = Agent(read_settings(asked.settings), dry_run=asked.dry_run)
    say("started", poll_s=agent.settings["poll_s"], lease_s=agent.settings["lease_s"])
    while True:
        agent.step()
        if asked.once:
            return 0
        time.sleep(agent.settings["poll_s"])


if __name__ == "__main__":
    sys.exit(main())
