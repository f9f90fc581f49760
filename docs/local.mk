# SPDX-License-Identifier: MIT
# The OPTIONS of the manual page come from the option table (docs/options.scd; a test holds it against
# the program; `zerosim --print-options-manual` prints it).
EXTRA_DIST += docs/zerosim.1.scd docs/options.scd docs/links.md
EXTRA_DIST += docs/zerosim.1.scd docs/options.scd docs/lengths.md docs/studies.md docs/buckets.md docs/figures
if HAVE_SCDOC
man1_MANS += docs/zerosim.1
CLEANFILES += docs/zerosim.1
docs/zerosim.1: docs/zerosim.1.scd docs/options.scd
	$(AM_V_GEN)$(MKDIR_P) docs && $(AWK) -v options=$(srcdir)/docs/options.scd \
	  '/^@OPTIONS@$$/ { while ((getline line < options) > 0) print line; next } { print }' \
	  $(srcdir)/docs/zerosim.1.scd | $(SCDOC) >$@.tmp && mv $@.tmp $@
endif
