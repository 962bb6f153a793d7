"""Times scikit-learn on the rows that main.go makes, one job a line of standard input.

Answers each job with a line of JSON: what was made of the rows (check), then for each
"run" the seconds of the wall clock and of the processors.
"""
import json
import sys
import time

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import OneHotEncoder


def mix(x):
    """The hash of main.go: 32 bits, exact in 64."""
    h = x.astype(np.int64) * 2654435761 % 4294967296
    h = (h ^ (h >> 15)) * 1540483477 % 4294967296
    return h ^ (h >> 13)


def responses(n):
    return (mix(np.arange(n)) % 3 == 0).astype(np.int64)


def lists(n, k, p, distinct=False):
    """n rows of k features of p; distinct checks the sum of each row's distinct ones."""
    at = mix(np.arange(n * k)) % p
    x = sp.csr_matrix((np.ones(n * k), at, np.arange(0, n * k + 1, k)), shape=(n, p))
    x.sum_duplicates()
    check = int((x.indices if distinct else at).sum())
    y = responses(n)
    return check, lambda: SGDClassifier(loss="log_loss").partial_fit(x, y, classes=[0, 1])


def columns(n):
    """A struct of three texts and two numbers, as Python has it."""
    i = np.arange(n)
    at = [mix(i + 1) % 200, mix(i + 2) % 200, mix(i + 3) % 24]
    texts = np.stack([np.array([c + str(v) for v in range(200)], dtype=object)[a] for c, a in zip("abc", at)], axis=1)
    return sum(int(a.sum()) for a in at), texts, np.stack([np.sin(i), np.cos(i)], axis=1)


def struct(n):
    check, texts, numbers = columns(n)
    y = responses(n)

    def run():
        x = sp.hstack([OneHotEncoder().fit_transform(texts), numbers], format="csr")
        SGDClassifier(loss="log_loss").partial_fit(x, y, classes=[0, 1])

    return check, run


def predict(n):
    check, texts, numbers = columns(n)
    hot = OneHotEncoder(handle_unknown="ignore").fit(texts)
    model = SGDClassifier(loss="log_loss").partial_fit(sp.hstack([hot.transform(texts), numbers], format="csr"), responses(n), classes=[0, 1])
    return check, lambda: model.predict_proba(sp.hstack([hot.transform(texts), numbers], format="csr"))[:, 1].sum()


def dense(n, d):
    x = np.sin(np.arange(n)[:, None] * np.arange(1, d + 1)[None, :])
    y = responses(n)
    return int(y.sum()), lambda: LogisticRegression(solver="newton-cholesky").fit(x, y)


makers = {"lists": lists, "struct": struct, "predict": predict, "dense": dense}


def answer(**what):
    print(json.dumps(what), flush=True)


answer(python=sys.version.split()[0], sklearn=sklearn.__version__, numpy=np.__version__)
run = None
for line in sys.stdin:
    command, *arguments = json.loads(line)
    if command == "run":
        wall, processors = time.perf_counter(), time.process_time()
        run()
        answer(wall=time.perf_counter() - wall, processors=time.process_time() - processors)
    else:
        run = None  # frees the rows before the next ones are made
        check, run = makers[command](*arguments)
        answer(check=check)
