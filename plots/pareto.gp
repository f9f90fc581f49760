# title: Memory against speed
# needs: sweep
# shows: each configuration that fits, and the front of those that no other beats in both
set xlabel 'GPU memory at the peak, with CUDA and NCCL, GiB'
set ylabel 'tokens/s per GPU'
set key bottom right box lc rgb '#d8d8d8' opaque
set offsets graph 0.05, graph 0.05, graph 0.08, graph 0.05
plot data index 0 using 1:2 with points pt 6 ps 0.7 lc rgb '#6baed6' title sprintf('%d configurations that fit', fit), \
  data index 1 using 1:2 with steps lw 2 lc rgb '#08306b' notitle, \
  data index 1 using 1:2 with points pt 7 ps 1 lc rgb '#08306b' title 'front', \
  NaN with lines lc rgb 'white' title (oom > 0 ? sprintf('(%d run out of memory)', oom) : '')
