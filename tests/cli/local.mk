# SPDX-License-Identifier: MIT
CLI_TESTS = \
  tests/cli/as-people-write.sh \
  tests/cli/calibrate.sh \
  tests/cli/advise.sh \
  tests/cli/broken-input.sh \
  tests/cli/collective.sh \
  tests/cli/consistent.sh \
  tests/cli/explain.sh \
  tests/cli/lengths.sh \
  tests/cli/liger.sh \
  tests/cli/compare.sh \
  tests/cli/options.sh \
  tests/cli/check.sh \
  tests/cli/plot.sh \
  tests/cli/readme.sh \
  tests/cli/replay.sh \
  tests/cli/report.sh \
  tests/cli/streams.sh \
  tests/cli/sweep.sh \
  tests/cli/topology.sh
TESTS += $(CLI_TESTS)
EXTRA_DIST += $(CLI_TESTS) tests/cli/consistent.py
