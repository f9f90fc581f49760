# title: A result of a sweep along one axis
# needs: sweep
# shows: a line for each value of a second axis; crosses at the foot are configurations that run out of memory
set xlabel x_label
set ylabel value_label
set key at screen 0.5, 0.02 center bottom horizontal reverse Left samplen 3 maxrows 4
set bmargin (results > 4 ? 8 : 6.5)
set label over at graph 0.01, 0.02 font ',11' tc rgb '#606060'
margin = (logarithmic ? (x_most / x_least) ** 0.04 : 0.04 * (x_most > x_least ? x_most - x_least : 1))
set xrange [logarithmic ? x_least / margin : x_least - margin : logarithmic ? x_most * margin : x_most + margin]
if (logarithmic) { set logscale x; set format x '%.0e' }
if (numeric && logarithmic && x_ticks <= 12) {
  set xtics ()
  do for [i = 0 : x_ticks - 1] { set xtics add (value(sprintf('x_tick%d', i)) value(sprintf('x_value%d', i))) }
}
if (!numeric) { set xtics () ; do for [i = 0 : x_ticks - 1] { set xtics add (value(sprintf('x_tick%d', i)) i) } }
stats data using ($3 == 1 ? $2 : NaN) nooutput
# small differences stay small in the picture: the range is a fifth of the largest value or more
low = (exists('STATS_min') ? STATS_min : 0)
high = (exists('STATS_max') ? STATS_max : 1)
if (high - low < 0.2 * high) { low = 0.8 * high }
foot = low - 0.02 * (high - low)
set yrange [low - 0.08 * (high - low) : high + 0.05 * (high - low)]
plot for [i = 1 : results] data index i - 1 using 1:($3 == 1 ? $2 : NaN) with linespoints lw 2 lc rgb line_colour[i] \
    dt dash[i] pt point[i] ps 0.9 title value(sprintf('name%d', i)), \
  data using 1:($3 == 0 ? foot : NaN) with points pt 2 ps 1 lw 2 lc rgb 'black' \
    title (STATS_invalid > 0 ? 'out of memory' : '')
