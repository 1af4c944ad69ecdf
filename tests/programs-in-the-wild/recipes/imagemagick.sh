# package: imagemagick
# needs: convert
# version: convert --version
# does: blurs and scales an image, OpenMP
prepare() { convert -size 1600x1200 plasma:red-blue -seed 7 "$SHARED/in.png"; }
run() { $RUN convert "$SHARED/in.png" -blur 0x6 -resize 150% -unsharp 0x2 "$WORK/out.ppm"; }
answer() { sha256sum <"$WORK/out.ppm"; }
