# needs: gm
# version: gm version
# does: sharpens and scales an image, OpenMP
prepare() { gm convert -size 1600x1200 gradient:red-blue "$SHARED/in.ppm"; }
run() { $RUN gm convert "$SHARED/in.ppm" -sharpen 0x4 -resize 200% "$WORK/out.ppm"; }
answer() { sha256sum <"$WORK/out.ppm"; }
