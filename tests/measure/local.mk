# SPDX-License-Identifier: MIT
# Run on machines with GPUs; its parts that need none are tested here.
TESTS += tests/measure/measure.sh
EXTRA_DIST += \
  tests/measure/README.md \
  tests/measure/collectives.py \
  tests/measure/contention.py \
  tests/measure/copies.py \
  tests/measure/footprint.py \
  tests/measure/host-speed.py \
  tests/measure/power.py \
  tests/measure/machine.py \
  tests/measure/measure.py \
  tests/measure/measure.sh \
  tests/measure/occupied.py \
  tests/measure/offload-copies.py \
  tests/measure/rows.py \
  tests/measure/steps.py \
  tests/measure/streams.py \
  tests/measure/take-apart.py \
  tests/measure/test-measure.py \
  tests/measure/timing.py \
  tests/measure/workers.py
