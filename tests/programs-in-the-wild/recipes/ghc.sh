# needs: ghc
# version: ghc --version
# does: compiles a threaded program and runs it with 4 capabilities
# seconds: 180
prepare() { cat >"$SHARED/a.hs" <<'END'
import Control.Concurrent
import Control.Monad
main :: IO ()
main = do { vs <- forM [1 .. 8000 :: Int] (\n -> do { v <- newEmptyMVar; _ <- forkIO (putMVar v $! sum [x * n `mod` 7 | x <- [1 .. 40000 :: Int]]); return v }); xs <- mapM takeMVar vs; print (sum xs) }
END
cd "$SHARED" && ghc -v0 -O -threaded -rtsopts a.hs -o a; }
run() { $RUN "$SHARED/a" +RTS -N4; }
