# title: What ran when: streams and links over a step
# needs: scenario
# shows: a bar for each stretch in which a stream, a link or the host was at work; dark: on the critical path
set xlabel sprintf('time in step %d, %s', step, unit)
set xrange [0 : span]
set yrange [tracks - 0.4 : -1.0]
unset ytics
unset grid
set border 1
set lmargin 20
set key at screen 0.98, 0.03 right bottom horizontal samplen 2
set bmargin 5.5
do for [i = 1 : tracks] {
  set label value(sprintf('track%d', i)) at graph 0, first i - 1 right offset -1, 0 font ',12'
}
do for [i = 1 : phases] {
  at = value(sprintf('phase%d', i))
  set arrow from at, -0.6 to at, tracks - 0.4 nohead dt 3 lw 1 lc rgb '#606060' back
  set label value(sprintf('phase_name%d', i)) at at, (i % 2 ? -0.85 : -0.65) offset 0.3, 0 font ',10'
}
plot data using ($4 == 0 ? 0.5 * ($1 + $2) : NaN):3:(0.5 * ($2 - $1)):(0.34) with boxxyerror fs solid noborder \
    fc rgb '#9ecae1' notitle, \
  '' using ($4 == 1 ? 0.5 * ($1 + $2) : NaN):3:(0.5 * ($2 - $1)):(0.34) with boxxyerror fs solid noborder \
    fc rgb '#08306b' notitle, \
  NaN with boxes fs solid fc rgb '#08306b' title 'critical path', NaN with boxes fs solid fc rgb '#9ecae1' title 'other'
