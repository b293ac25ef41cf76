"""An AWS on loopback as a process of its own: moto behind our layer.

`python -m providers.sim.aws.server --port 0` tells its URL as one line of JSON; it ends on SIGTERM, or when its
standard input closes.
"""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from typing import NoReturn

from werkzeug.serving import make_server

from providers.clock import SystemClock
from providers.sim.aws.layer import AwsLayer


def main() -> NoReturn:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    asked = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", asked.port, AwsLayer(SystemClock().now), threaded=True)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()  # the parent is gone when this ends
    os._exit(0)  # at once: to take moto's memory apart takes seconds


if __name__ == "__main__":
    main()
