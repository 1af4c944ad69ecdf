# package: sqlite3
# needs: sqlite3
# version: sqlite3 --version
# does: sorts and joins 300,000 rows with worker threads
run() { $RUN sqlite3 :memory: 'PRAGMA threads=4; CREATE TABLE t(a, b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 300000) INSERT INTO t SELECT x, (x * 7919) % 300007 FROM c; CREATE INDEX i ON t(b); SELECT count(*), sum(t.a * u.b) FROM t JOIN t u ON t.a = u.b; SELECT sum(a) FROM (SELECT a FROM t ORDER BY b LIMIT 1000);'; }
