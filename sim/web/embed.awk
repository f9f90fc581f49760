# embed.awk: files as strings of a C program: zs_page_file () finds them by their base name.
# SPDX-License-Identifier: MIT
BEGIN {
  print "/* page-text.c: made by embed.awk. */"
  print "#include \"config.h\"\n\n#include \"sim/web/page.h\"\n\n#include <string.h>\n"
  print "static const struct { const char *name, *text; } FILES[] = {"
}
FNR == 1 {
  if (NR > 1) print "  },"
  name = FILENAME
  sub(/.*\//, "", name)
  print "  { \"" name "\","
}
{
  gsub(/\\/, "\\\\\\\\")
  gsub(/"/, "\\\"")
  gsub(/\?/, "\\?")
  print "    \"" $0 "\\n\""
}
END {
  print "  },\n};\n"
  print "const char *\nzs_page_file (const char *name)\n{"
  print "  for (size_t i = 0; i < G_N_ELEMENTS (FILES); i++)"
  print "    if (strcmp (FILES[i].name, name) == 0)\n      return FILES[i].text;"
  print "  g_assert_not_reached ();\n}"
}
