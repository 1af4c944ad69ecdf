# needs: povray
# version: povray --version 2>&1
# does: renders a scene with 4 threads
prepare() { printf '#version 3.7; global_settings { assumed_gamma 1 } camera { location <0,2,-5> look_at 0 } light_source { <5,9,-9> rgb 1 } plane { y,-1 pigment { checker rgb 1 rgb 0.2 } } #declare I=0; #while (I<40) sphere { <3*sin(I),sin(I*1.7),3*cos(I)>,0.4 pigment { rgb <0.3,0.6,0.9> } finish { reflection 0.4 phong 1 } } #declare I=I+1; #end\n' >"$SHARED/a.pov"; }
run() { $RUN povray +I"$SHARED/a.pov" +O"$WORK/a.png" +W640 +H480 +A0.2 +WT4 -D -GA >/dev/null 2>&1; }
answer() { convert "$WORK/a.png" rgb:- | sha256sum; }
