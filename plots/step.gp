# title: Where a step's time goes
# needs: scenarios
# shows: the parts of the steady step one after another, for one scenario or several below each other
array part[6] = ['compute', 'waiting for other GPUs', 'waiting for offload', 'optimizer', 'waiting for Python', 'the step']
array part_colour[6] = ['#08306b', '#fdae6b', '#a63603', '#6baed6', '#d9d9d9', '#525252']
set xlabel sprintf('time, %s', unit)
set xrange [0 : span * 1.18]
set yrange [7 * results - 0.5 : -1.2]
set grid xtics noytics lc rgb '#d8d8d8' lt 1 lw 0.5
unset ytics
set border 1
set lmargin 24
do for [r = 1 : results] {
  if (results > 1) { set label value(sprintf('name%d', r)) at graph 0, first 7 * (r - 1) - 0.75 font ',12' }
  do for [i = 1 : 6] {
    set label part[i] at graph 0, first 7 * (r - 1) + i - 1 right offset -1, 0 font ',12'
  }
}
plot for [r = 1 : results] for [i = 1 : 6] data index r - 1 every ::(i - 1)::(i - 1) \
    using (0.5 * ($2 + $3)):($1 + 7 * (r - 1)):(0.5 * ($3 - $2)):(0.36) with boxxyerror fs solid border lc rgb '#202020' \
    lw 0.5 fc rgb part_colour[i] notitle, \
  for [r = 1 : results] data index r - 1 using 3:($1 + 7 * (r - 1)):($4 >= 99.5 ? sprintf(' %.3g %s', $3, unit) \
    : sprintf(' %.3g %s, %.0f %%', $3 - $2, unit, $4)) with labels left font ',11' notitle
