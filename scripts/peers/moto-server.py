#!/usr/bin/env python3
"""An S3 server in RAM, for tests: moto, with one request at a time. With several at once, moto loses races of conditional puts.

usage: scripts/peers/moto-server.py PORT    on 127.0.0.1; needs PyPI's moto[server]"""

import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

application, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()


def one_at_a_time(environment, start_response):
    with turn:
        return list(application(environment, start_response))


run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
