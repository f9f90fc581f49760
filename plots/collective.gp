# title: Bandwidth of collectives over their size
# needs: collective
# shows: bus bandwidth as nccl-tests defines it, a line for each operation
set xlabel 'bytes'
set ylabel 'bus bandwidth, GB/s'
set logscale x 2
set format x '%.0b %BB'
set key top left reverse Left samplen 3
set yrange [0 : *]
plot for [i = 1 : results] data index i - 1 using 1:2 with linespoints lw 2 lc rgb line_colour[i] dt dash[i] \
  pt point[i] ps 0.7 title value(sprintf('name%d', i))
