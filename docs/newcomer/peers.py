"""Cross-validated predictions of scikit-learn on the rows that peers.go writes.

peers.py FOLDER TASK reads FOLDER/rows.csv, columns i, fold, y, and features named n:NAME
(numbers) or c:NAME (levels), e:NAME (an exposure); or, beside i, fold and y alone,
FOLDER/entries.csv with i, feature, value. It writes FOLDER/predictions.csv, a column for
each model and a line for each row, and prints the versions.
"""
import csv
import sys
import warnings

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, PoissonRegressor
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler

warnings.filterwarnings("ignore")


def columns(folder):
    with open(folder + "/rows.csv", newline="") as f:
        rows = csv.reader(f)
        names = next(rows)
        return names, list(zip(*rows))


def numbers(texts):
    return np.array([float(t) if t else np.nan for t in texts])


def table(names, data, train):
    """Numbers centred and scaled with their mean where they are missing and an indicator
    of that, levels one-hot: all as the rows of train have it."""
    parts = []
    for name, texts in zip(names, data):
        if name.startswith("n:"):
            x = numbers(texts)
            gone = np.isnan(x)
            seen = x[train & ~gone]
            x = np.where(gone, seen.mean() if len(seen) else 0, x)[:, None]
            parts.append(sp.csr_matrix(StandardScaler().fit(x[train]).transform(x)))
            if gone[train].any():
                parts.append(sp.csr_matrix(gone[:, None].astype(float)))
        elif name.startswith("c:"):
            x = np.array(texts, dtype=object)[:, None]
            parts.append(OneHotEncoder(handle_unknown="ignore").fit(x[train]).transform(x))
    return sp.hstack(parts).tocsr()


def entries(folder, index):
    """The lists as a matrix."""
    with open(folder + "/entries.csv", newline="") as f:
        rows = csv.reader(f)
        next(rows)
        i, name, value = zip(*rows)
    at = {}
    j = [at.setdefault(n, len(at)) for n in name]
    return sp.csr_matrix((np.array(value, dtype=float), ([index[k] for k in i], j)), shape=(len(index), len(at)))


def logistic(x, y, train):
    """Probabilities at C = 1, and at the C that three inner folds choose."""
    yield "C = 1", LogisticRegression(max_iter=1000).fit(x[train], y[train]).predict_proba(x[~train])[:, 1]
    cv = LogisticRegressionCV(Cs=[1e-3, 1e-2, 1e-1, 1, 10, 100], cv=StratifiedKFold(3, shuffle=True, random_state=0), scoring="neg_log_loss", max_iter=1000)
    yield "C by CV", cv.fit(x[train], y[train]).predict_proba(x[~train])[:, 1]


def least_squares(x, y, train):
    """Least squares, of least norm where columns are tied."""
    a = np.hstack([np.ones((x.shape[0], 1)), x])
    w = np.linalg.lstsq(a[train], y[train], rcond=None)[0]
    yield "least squares", a[~train] @ w


def poisson(x, y, train, exposure):
    model = PoissonRegressor(alpha=1e-3, max_iter=10000)
    model.fit(x[train], y[train] / exposure[train], sample_weight=exposure[train])
    yield "PoissonRegressor", model.predict(x[~train]) * exposure[~train]


def classes(x, y, train):
    """The probability of what was observed, C = 1."""
    p = LogisticRegression(max_iter=1000).fit(x[train], y[train]).predict_proba(x[~train])
    yield "C = 1", p[np.arange(len(p)), np.searchsorted(np.unique(y[train]), y[~train])]


def main(folder, task):
    names, data = columns(folder)
    of = dict(zip(names, data))
    index = {k: n for n, k in enumerate(of["i"])}
    fold = numbers(of["fold"])
    y = np.array(of["y"]) if task == "classes" else numbers(of["y"])
    sparse = None if len(names) > 3 else entries(folder, index)
    exposure = next((numbers(d) for n, d in zip(names, data) if n.startswith("e:")), None)
    found = {}
    for k in np.unique(fold):
        train = fold != k
        if sparse is None:
            designs = {"": table(names, data, train)}
        else:
            scale = StandardScaler(with_mean=False).fit(sparse[train])
            designs = {"": scale.transform(sparse), ", as it is": sparse}
        for note, x in designs.items():
            x = x.toarray() if x.shape[1] < 1000 else x
            if task == "poisson":
                fits = poisson(x, y, train, np.ones(len(y)) if exposure is None else exposure)
            else:
                fits = {"binary": logistic, "gaussian": least_squares, "classes": classes}[task](x, y, train)
            for name, p in fits:
                found.setdefault(name + note, np.full(len(y), np.nan))[~train] = p
    with open(folder + "/predictions.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(found)
        out.writerows(zip(*[[repr(float(v)) for v in p] for p in found.values()]))
    print(f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, Python {sys.version.split()[0]}")


main(sys.argv[1], sys.argv[2])
