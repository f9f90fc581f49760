# SPDX-License-Identifier: MIT
TESTS += tests/cli/options.sh tests/cli/replay.sh
EXTRA_DIST += tests/cli/options.sh tests/cli/replay.sh
