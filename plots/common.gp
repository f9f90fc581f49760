# Colours, fonts and terminal of all figures.  Colours differ in lightness too, and lines in their dashes and points, so
# that the figures can be read in black and white.
# Set before: output_file, terminal_name (svg or png), data (the table), and the figure's own variables.
set encoding utf8
if (terminal_name eq 'png') {
  set terminal pngcairo size 1200, wide_rows * 24 + 720 font 'DejaVu Sans,15' noenhanced background rgb 'white'
} else {
  set terminal svg size 900, wide_rows * 20 + 500 font 'Helvetica,14' noenhanced background rgb 'white' dynamic fixed butt dashlength 0.6
}
set output output_file
set datafile separator '\t'
set border 3 lc rgb '#404040'
set tics nomirror out
set grid ytics lc rgb '#d8d8d8' lt 1 lw 0.5
set title title_text font ',16'

# dark to light to dark: neighbours in a stack are told apart by lightness
array fill_colour[16] = ['#08306b', '#9ecae1', '#2171b5', '#fdd0a2', '#a63603', '#fdae6b', '#3f007d', '#dadaeb', \
  '#00441b', '#c7e9c0', '#41ab5d', '#f7f7f7', '#525252', '#d9d9d9', '#737373', '#f0f0f0']
array line_colour[8] = ['#08306b', '#d94801', '#238b45', '#6a51a3', '#a50f15', '#525252', '#02818a', '#000000']
array dash[8] = [1, 2, 3, 4, 5, 1, 2, 3]
array point[8] = [7, 5, 9, 11, 13, 6, 4, 8]
