# needs: sbcl
# version: sbcl --version
# does: 8 threads and a mutex
run() { $RUN sbcl --noinform --no-sysinit --no-userinit --disable-debugger --eval '(let* ((n 0) (m (sb-thread:make-mutex)) (ts (loop for i below 8 collect (let ((i i)) (sb-thread:make-thread (lambda () (dotimes (j 100000) (sb-thread:with-mutex (m) (incf n (mod (* i j) 7)))))))))) (mapc (function sb-thread:join-thread) ts) (print n) (terpri))' --quit; }
