# package: python3-numpy
# needs: python3 /usr/lib/python3/dist-packages/numpy
# version: /usr/bin/python3 -c 'import numpy; print(numpy.__version__)'
# does: multiplies matrices by OpenBLAS, 4 threads
run() { OPENBLAS_NUM_THREADS=4 $RUN /usr/bin/python3 -c 'import numpy as n
a = n.arange(1000 * 1000, dtype=float).reshape(1000, 1000) % 17
for _ in range(12): a = (a @ a) % 17
print(a.sum())'; }
