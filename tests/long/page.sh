#!/bin/bash
# The page in headless Chromium at 400 and 1,600 pixels, light and dark, beside the JSON; a Prometheus that scrapes the metrics.
. "$(dirname "$0")/lib.sh"
exec "$(dirname "$0")/../../scripts/test-page"
