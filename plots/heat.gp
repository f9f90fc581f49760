# title: A result of a sweep over two axes
# needs: sweep
# shows: a cell for each pair of values, lighter is more, with its number; hatched cells run out of memory
set xlabel x_label
set ylabel y_label
set xrange [-0.5 : x_ticks - 0.5]
set yrange [-0.5 : y_ticks - 0.5]
set xtics () scale 0
set ytics () scale 0
unset grid
do for [i = 0 : x_ticks - 1] { set xtics add (value(sprintf('x_tick%d', i)) i) }
do for [i = 0 : y_ticks - 1] { set ytics add (value(sprintf('y_tick%d', i)) i) }
if (x_ticks > 8) { set xtics rotate by -35 }
# small differences stay small in the picture: the range is a tenth of the largest value or more
if (most - least < 0.1 * most) { least = 0.9 * most }
set cbrange [least : (most > least ? most : least + 1)]
set label over at screen 0.02, 0.03 font ',11' tc rgb '#606060'
set cblabel value_label
set palette defined (0 '#08306b', 0.35 '#2171b5', 0.7 '#9ecae1', 1 '#f7fbff')
middle = least + 0.55 * (most - least)
small = (x_ticks > 12 || y_ticks > 16)
number(v) = small ? '' : (v >= 1000 ? sprintf('%.0f', v) : v >= 10 ? sprintf('%.1f', v) : sprintf('%.3g', v))
plot data using ($4 == 1 ? $1 : NaN):2:(0.5):(0.5):3 with boxxyerror fs solid border lc rgb 'white' lw 0.5 \
    fc palette notitle, \
  data using ($4 == 0 ? $1 : NaN):2:(0.5):(0.5) with boxxyerror fs pattern 4 border lc rgb '#404040' \
    fc rgb '#404040' notitle, \
  data using ($4 == 1 && $3 < middle ? $1 : NaN):2:(number($3)) with labels font ',11' tc rgb 'white' notitle, \
  data using ($4 == 1 && $3 >= middle ? $1 : NaN):2:(number($3)) with labels font ',11' tc rgb 'black' notitle
