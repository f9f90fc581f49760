# commands.awk: the commands of a Markdown document, one a line: number of the line, status, command; and, with
# -v files=FOLDER, the blocks that are files, written there.  SPDX-License-Identifier: MIT
function take (text,   status) {
  status = 0
  if (match (text, /# status [0-9]+[ \t]*$/)) {
    status = substr (text, RSTART + 9) + 0
    text = substr (text, 1, RSTART - 1)
  }
  printf "%d\t%d\t%s\n", begun, status, text
}
/^<!-- not run by the tests/ { skip = 1; next }
/^<!-- file: / { name = $3; next }
/^ *```/ {
  if (inside) {
    if (kind == "file") close (files "/" file)
    inside = 0
    next
  }
  inside = 1
  kind = name != "" ? "file" : skip ? "" : $0 ~ /^ *```sh *$/ ? "sh" : ""
  file = name
  if (kind == "file") printf "" > (files "/" file)
  name = ""; skip = 0; going = ""
  next
}
inside && kind == "file" { print >> (files "/" file); next }
inside && kind == "sh" {
  if (going == "" && $0 !~ /^zerosim /)
    next
  if (going == "")
    begun = NR
  line = going $0
  if (line ~ /\\$/) { going = substr (line, 1, length (line) - 1) " "; next }
  going = ""
  take (line)
  next
}
!inside && $0 !~ /^[ \t]*$/ { skip = 0; name = "" }
