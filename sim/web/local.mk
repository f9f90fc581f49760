# SPDX-License-Identifier: MIT
# The page is written in files of its own and compiled in: each becomes a string of page-text.c.
ZS_PAGE_FILES = \
  sim/web/page.html \
  sim/web/page.css \
  sim/web/data.js \
  sim/web/words.js \
  sim/web/timeline.js \
  sim/web/memory.js \
  sim/web/topology.js \
  sim/web/panels.js \
  sim/web/live.js \
  sim/web/page.js
EXTRA_DIST += $(ZS_PAGE_FILES) sim/web/embed.awk
libzerosim_core_la_SOURCES += \
  sim/web/controls.c \
  sim/web/controls.h \
  sim/web/page.c \
  sim/web/page.h \
  sim/web/serve.c \
  sim/web/serve.h \
  sim/web/tree.c \
  sim/web/tree.h
nodist_libzerosim_core_la_SOURCES = sim/web/page-text.c
MOSTLYCLEANFILES += sim/web/page-text.c
sim/web/page-text.c: $(ZS_PAGE_FILES) sim/web/embed.awk sim/web/local.mk
	$(AM_V_GEN)$(MKDIR_P) sim/web && (cd $(abs_srcdir) && LC_ALL=C $(AWK) -f sim/web/embed.awk $(ZS_PAGE_FILES)) >$@.tmp && mv $@.tmp $@
