# package: python3-sklearn
# needs: python3 /usr/lib/python3/dist-packages/sklearn
# version: /usr/bin/python3 -c 'import sklearn; print(sklearn.__version__)'
# does: a random forest and k-means with 4 threads
run() { OPENBLAS_NUM_THREADS=4 $RUN /usr/bin/python3 -W ignore -c '
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.cluster import KMeans
x, y = make_classification(4000, 30, random_state=1)
forest = RandomForestClassifier(80, n_jobs=4, random_state=1).fit(x, y)
print(forest.score(x, y), sorted(map(int, __import__("numpy").bincount(KMeans(8, n_init=3, random_state=1).fit(x).labels_))))'; }
