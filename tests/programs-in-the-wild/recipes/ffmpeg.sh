# version: ffmpeg -version
# does: encodes 300 frames by libx264, 4 threads
run() { $RUN ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=size=1280x720:rate=30 -frames:v 300 -c:v libx264 -preset veryfast -threads 4 -bitexact -y "$WORK/out.mkv"; }
answer() { ffmpeg -nostdin -loglevel error -i "$WORK/out.mkv" -f framemd5 - | sha256sum; }
