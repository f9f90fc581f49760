# SPDX-License-Identifier: MIT
TESTS += tests/cli/options.sh tests/cli/replay.sh tests/cli/topology.sh tests/cli/collective.sh
EXTRA_DIST += tests/cli/options.sh tests/cli/replay.sh tests/cli/topology.sh tests/cli/collective.sh
