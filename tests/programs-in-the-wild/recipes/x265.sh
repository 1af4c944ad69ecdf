# version: x265 --version 2>&1
# needs: x265 ffmpeg
# does: encodes 60 frames with its thread pool
prepare() { ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=size=640x360:rate=30 -frames:v 60 -pix_fmt yuv420p -y "$SHARED/in.y4m"; }
run() { $RUN x265 --log-level none --no-progress --preset fast --pools 4 --input "$SHARED/in.y4m" -o "$WORK/out.hevc"; }
answer() { sha256sum <"$WORK/out.hevc"; }
