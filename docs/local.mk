# SPDX-License-Identifier: MIT
# The OPTIONS of the manual page come from the option table (docs/options.scd; a test holds it against
# the program; `zerosim --print-options-manual` prints it).
# All pages: tests read them, and run what they show.
EXTRA_DIST += docs/zerosim.1.scd docs/options.scd docs/figures \
  docs/buckets.md \
  docs/cases.md \
  docs/decisions.md \
  docs/folklore.md \
  docs/folklore.zh.md \
  docs/json.md \
  docs/lengths.md \
  docs/links-measured.md \
  docs/links.md \
  docs/memory.md \
  docs/speed.md \
  docs/studies.md \
  docs/time.md \
  docs/validation.md
if HAVE_SCDOC
man1_MANS += docs/zerosim.1
CLEANFILES += docs/zerosim.1
docs/zerosim.1: docs/zerosim.1.scd docs/options.scd
	$(AM_V_GEN)$(MKDIR_P) docs && $(AWK) -v options=$(srcdir)/docs/options.scd \
	  '/^@OPTIONS@$$/ { while ((getline line < options) > 0) print line; next } { print }' \
	  $(srcdir)/docs/zerosim.1.scd | $(SCDOC) >$@.tmp && mv $@.tmp $@
endif
