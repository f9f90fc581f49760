# title: GPU memory over a step, by what holds it
# needs: scenario
# shows: allocated bytes of each holder over the step in which the peak is, stacked; the peak; and what there is
set xlabel sprintf('time in step %d, %s', step, unit)
set ylabel 'allocated, GiB'
set xrange [0 : span]
top = (room < 1.6 * peak ? room : peak) * 1.22
set yrange [0 : top]
set key outside right top reverse Left width -2 samplen 2 invert
# sums of the first k columns
sum_to(k) = (k == 0 ? 0 : sum [i = 2 : k + 1] column(i))
do for [i = 1 : phases] {
  at = value(sprintf('phase%d', i))
  set arrow from at, 0 to at, top nohead dt 3 lw 1 lc rgb '#606060' front
  set label value(sprintf('phase_name%d', i)) at at, top * (i % 2 ? 0.985 : 0.955) offset 0.3, 0 font ',10' front
}
if (room < 1.6 * peak) {
  set arrow from 0, room to span, room nohead lw 2 lc rgb '#a50f15' dt 2 front
  set label 'what PyTorch can have' at span * 0.01, room offset 0, 0.5 font ',10' tc rgb '#a50f15' front
}
set label sprintf('%s %.2f GiB', oom ? 'out of memory at' : 'peak', peak) at peak_time, peak point pt 7 ps 0.8 lc rgb 'black' \
  offset 0, 0.8 center font ',12' front
plot for [i = 1 : categories] data using 1:(sum_to(i - 1)):(sum_to(i)) with filledcurves fs solid border lc rgb '#202020' \
  lw 0.4 fc rgb fill_colour[i] title value(sprintf('name%d', i))
