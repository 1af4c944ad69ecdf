# package: nodejs
# needs: node
# version: node --version
# does: 4 worker_threads, promises and the thread pool
prepare() { cat >"$SHARED/a.js" <<'END'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads'), crypto = require('crypto');
if (!isMainThread) { let h = workerData; for (let i = 0; i < 60000; i++) h = crypto.createHash('sha256').update(h).digest('hex'); parentPort.postMessage(h); }
else { const all = [0, 1, 2, 3].map(n => new Promise(done => new Worker(__filename, { workerData: 'w' + n }).on('message', done)));
  const pool = [...Array(32).keys()].map(n => new Promise(done => crypto.pbkdf2('p' + n, 's', 3000, 32, 'sha512', (e, k) => done(k.toString('hex')))));
  Promise.all([...all, ...pool]).then(v => console.log(crypto.createHash('sha256').update(v.join()).digest('hex'))); }
END
}
run() { $RUN "$(command -v node)" "$SHARED/a.js"; }
