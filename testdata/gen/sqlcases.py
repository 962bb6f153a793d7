#!/usr/bin/env python3
"""Reference numbers of the SQL cases in udf/sqltest/cases, in 50-digit arithmetic.

    python3 testdata/gen/sqlcases.py            # every section
    python3 testdata/gen/sqlcases.py laplace ep # some of them

Python 3 and mpmath 1.3.0; about two minutes. Each section prints what the case file of
its name expects, by formulas that are written out here and share nothing with bglm:
Newton's method on numerical derivatives, expectation propagation with moments by
adaptive quadrature, filters as printed in their papers, smoothers by dense Gaussians.

The rows are those of the table d that the case files make.
"""
import sys

from mpmath import mp, mpf, matrix, log, exp, sqrt, pi, quad, erfc, diff, tanh, eye, diag, loggamma, cholesky, inf

mp.dps = 50

#       y  a     b     c  r      g    m  k  w     o
ROWS = [(1, '0.5', '1', 2, '1.5', '1.2', 3, 2, '0.5', '0.25'),
        (0, '-1', '0.5', 0, '-0.5', '0.4', 3, 0, '1', '-0.5'),
        (1, '1.5', '-0.5', 3, '2', '2.5', 4, 4, '2', '0'),
        (0, '0', '-1', 1, '0.25', '0.8', 3, 1, '1.5', '0.5'),
        (1, '1', '0', 1, '1', '1.1', 2, 1, '1', '0.25'),
        (1, '-0.5', '2', 4, '0.75', '1.6', 3, 2, '0.25', '-0.25')]
COLS = {n: [mpf(r[k]) for r in ROWS] for k, n in enumerate('yabcrgmkwo')}
N = len(ROWS)
ONE = mpf(1)


def Phi(s):
    return erfc(-s / sqrt(mpf(2))) / 2


def logistic(s):
    return 1 / (1 + exp(-s))


# log p(y | s) of each family; t = trials, h = shape, d = dispersion.
LIK = {
    'logit': lambda y, s, **_: -log(1 + exp(-s if y else s)),
    'probit': lambda y, s, **_: log(Phi(s if y else -s)),
    'cloglog': lambda y, s, **_: log(1 - exp(-exp(s))) if y else -exp(s),
    'binomial': lambda y, s, t, **_: loggamma(t + 1) - loggamma(y + 1) - loggamma(t - y + 1) + y * s - t * log(1 + exp(s)),
    'poisson': lambda y, s, **_: y * s - exp(s) - loggamma(y + 1),
    'negbinomial': lambda y, s, h, **_: loggamma(y + h) - loggamma(h) - loggamma(y + 1) + h * log(h) + y * s - (y + h) * log(h + exp(s)),
    'gaussian': lambda y, s, d, **_: -(y - s) ** 2 / (2 * d) - log(2 * pi * d) / 2,
    'gaussianlog': lambda y, s, d, **_: -(y - exp(s)) ** 2 / (2 * d) - log(2 * pi * d) / 2,
    'gamma': lambda y, s, h, **_: h * log(h) - loggamma(h) - h * s + (h - 1) * log(y) - h * y * exp(-s),
    'studentt': lambda y, s, h, d, **_: loggamma((h + 1) / 2) - loggamma(h / 2) - log(h * pi * d) / 2 - (h + 1) / 2 * log(1 + (y - s) ** 2 / (h * d)),
}


def show(name, *vs):
    def cells(v):
        if isinstance(v, matrix):
            v = list(v)
        if isinstance(v, (list, tuple)):
            return '[' + ', '.join(cells(x) for x in v) + ']'
        return v if isinstance(v, str) else mp.nstr(v, 17, strip_zeros=True)
    print('  ' + name + ':', '\t'.join(cells(v) for v in vs))


def chol(m):
    """Packed lower factor, row by row."""
    l = cholesky(m)
    return [l[i, j] for i in range(m.rows) for j in range(i + 1)]


class Data:
    def __init__(self, fam, y, cols=('1', 'a', 'b'), prior=None, w=None, o=None, **par):
        self.fam, self.y, self.par = fam, COLS[y] if isinstance(y, str) else y, {k: mpf(v) for k, v in par.items()}
        n = len(self.y)
        self.X = matrix([[ONE if c == '1' else COLS[c][i] for c in cols] for i in range(n)])
        self.p = len(cols)
        self.w = [ONE] * n if w is None else COLS[w]
        self.o = [mpf(0)] * n if o is None else COLS[o]
        self.t = COLS['m'] if fam == 'binomial' else [ONE] * n
        if prior is None:
            prior = [(0, 10) if c == '1' else (0, 1) for c in cols]
        self.m0 = matrix([mpf(m) for m, _ in prior])
        self.S0 = diag([mpf(v) for _, v in prior])

    def ll(self, i, s):
        return self.w[i] * LIK[self.fam](self.y[i], s + self.o[i], t=self.t[i], h=self.par.get('h', ONE), d=self.par.get('d', ONE))

    def d(self, i, s, k):
        return diff(lambda x: self.ll(i, x), s, k)

    def row(self, i):
        return self.X[i, :].T


def dot(u, v):
    return (u.T * v)[0]


def laplace(D, at=None):
    """Mode, covariance (Λ0 + Σ h x xᵀ)⁻¹ and log evidence Σ log p - ½δᵀΛ0δ - ½log|Σ0| + ½log|Σ|."""
    L0 = D.S0 ** -1
    m = D.m0.copy() if at is None else at
    for _ in range(60 if at is None else 0):
        s = [dot(D.row(i), m) for i in range(len(D.y))]
        g, H = -L0 * (m - D.m0), L0.copy()
        for i, si in enumerate(s):
            x = D.row(i)
            g += D.d(i, si, 1) * x
            H -= D.d(i, si, 2) * (x * x.T)
        step = mp.lu_solve(H, g)
        f = lambda u: sum(D.ll(i, dot(D.row(i), u)) for i in range(len(D.y))) - dot(u - D.m0, L0 * (u - D.m0)) / 2
        t = ONE
        while f(m + t * step) < f(m) and t > mpf(10) ** -20:
            t /= 2
        m = m + t * step
        if mp.norm(step) < mpf(10) ** -35:
            break
    H = L0.copy()
    ll = mpf(0)
    for i in range(len(D.y)):
        x = D.row(i)
        s = dot(x, m)
        ll += D.ll(i, s)
        H -= D.d(i, s, 2) * (x * x.T)
    z = ll - dot(m - D.m0, L0 * (m - D.m0)) / 2 - log(mp.det(D.S0)) / 2 - log(mp.det(H)) / 2
    return m, H ** -1, z, H


def moments(D, i, m, v):
    """log Z, mean and variance of p(y_i | s) N(s; m, v)."""
    if D.fam == 'probit' and D.w[i] == 1:
        sg = 1 if D.y[i] else -1
        z = sg * (m + D.o[i]) / sqrt(1 + v)
        r = exp(-z * z / 2) / sqrt(2 * pi) / Phi(z)
        return log(Phi(z)), m + sg * v * r / sqrt(1 + v), v - v * v * r * (z + r) / (1 + v)
    if D.fam == 'gaussian':
        e, d = D.y[i] - D.o[i] - m, D.par.get('d', ONE) / D.w[i]
        lz = -e * e / (2 * (v + d)) - log(2 * pi * (v + d)) / 2
        return lz, m + v * e / (v + d), v * d / (v + d)
    sd = sqrt(v)
    f = lambda s: exp(D.ll(i, s) - (s - m) ** 2 / (2 * v)) / (sd * sqrt(2 * pi))
    pts = [m + k * sd for k in (-14, -9, -6, -4, -2, -1, 0, 1, 2, 4, 6, 9, 14)]
    z = quad(f, pts)
    mu = quad(lambda s: s * f(s), pts) / z
    return log(z), mu, quad(lambda s: (s - mu) ** 2 * f(s), pts) / z


def norm(lam, nu):
    """Log normaliser of exp(νᵀw - ½wᵀΛw), without the constant."""
    if isinstance(lam, matrix):
        return dot(nu, mp.lu_solve(lam, nu)) / 2 - log(mp.det(lam)) / 2
    return nu * nu / lam / 2 - log(lam) / 2


def ep_full(D, digits=22, sweeps=500):
    n = len(D.y)
    L0 = D.S0 ** -1
    n0 = L0 * D.m0
    tau, nu = [mpf(0)] * n, [mpf(0)] * n
    for _ in range(sweeps):
        move = mpf(0)
        for i in range(n):
            L = L0 + sum((tau[k] * (D.row(k) * D.row(k).T) for k in range(n)), 0 * L0)
            b = n0 + sum((nu[k] * D.row(k) for k in range(n)), 0 * n0)
            S = L ** -1
            x = D.row(i)
            m, v = dot(x, S * b), dot(x, S * x)
            vc = 1 / (1 / v - tau[i])
            mc = vc * (m / v - nu[i])
            _, mt, vt = moments(D, i, mc, vc)
            t1, n1 = 1 / vt - 1 / vc, mt / vt - mc / vc
            move = max(move, abs(t1 - tau[i]), abs(n1 - nu[i]))
            tau[i], nu[i] = t1, n1
        if move < mpf(10) ** -digits:
            break
    L = L0 + sum((tau[k] * (D.row(k) * D.row(k).T) for k in range(n)), 0 * L0)
    b = n0 + sum((nu[k] * D.row(k) for k in range(n)), 0 * n0)
    S = L ** -1
    z = norm(L, b) - norm(L0, n0)
    for i in range(n):
        x = D.row(i)
        m, v = dot(x, S * b), dot(x, S * x)
        vc = 1 / (1 / v - tau[i])
        mc = vc * (m / v - nu[i])
        z += moments(D, i, mc, vc)[0] + norm(1 / vc, mc / vc) - norm(1 / v, m / v)
    return S * b, S, z


def ep_factorised(D, digits=22, sweeps=2000):
    """A site for every non-zero; a row's update is shared by a_j = x_j σ_j² / Σ x² σ²."""
    n, p = len(D.y), D.p
    l0 = [1 / D.S0[j, j] for j in range(p)]
    b0 = [D.m0[j] * l0[j] for j in range(p)]
    T = [[mpf(0)] * p for _ in range(n)]
    U = [[mpf(0)] * p for _ in range(n)]

    def belief():
        return ([l0[j] + sum(T[i][j] for i in range(n)) for j in range(p)], [b0[j] + sum(U[i][j] for i in range(n)) for j in range(p)])

    def visit(i, L, B):
        x = [D.X[i, j] for j in range(p)]
        c = [(L[j] - T[i][j], B[j] - U[i][j]) for j in range(p)]
        m = sum(x[j] * c[j][1] / c[j][0] for j in range(p))
        v = sum(x[j] ** 2 / c[j][0] for j in range(p))
        return x, c, m, v, moments(D, i, m, v)

    for _ in range(sweeps):
        move = mpf(0)
        for i in range(n):
            L, B = belief()
            x, c, m, v, (_, mt, vt) = visit(i, L, B)
            for j in range(p):
                if x[j] == 0:
                    continue
                a = x[j] / c[j][0] / v
                mj, vj = c[j][1] / c[j][0] + a * (mt - m), 1 / c[j][0] + a * a * (vt - v)
                t, u = 1 / vj - c[j][0], mj / vj - c[j][1]
                move = max(move, abs(t - T[i][j]), abs(u - U[i][j]))
                T[i][j], U[i][j] = t, u
        if move < mpf(10) ** -digits:
            break
    L, B = belief()
    z = sum(norm(L[j], B[j]) - norm(l0[j], b0[j]) for j in range(p))
    for i in range(n):
        x, c, m, v, (lz, _, _) = visit(i, L, B)
        z += lz + sum(norm(*c[j]) - norm(L[j], B[j]) for j in range(p))
    return [B[j] / L[j] for j in range(p)], [1 / L[j] for j in range(p)], z


def adf_full(D, q=None):
    m, S, z = D.m0.copy(), D.S0.copy(), mpf(0)
    for i in range(len(D.y)):
        if q and i:
            S = S + diag([mpf(v) for v in q])
        x = D.row(i)
        f, v = S * x, dot(x, S * x)
        lz, mt, vt = moments(D, i, dot(x, m), v)
        m, S = m + f * (mt - dot(x, m)) / v, S - (f * f.T) * (v - vt) / v ** 2
        z += lz
    return m, S, z


def smoother(D, q, times):
    """Dense: all weights at all times are one Gaussian, w_t = w_(t-1) + N(0, qΔ)."""
    n, p, d = len(D.y), D.p, D.par.get('d', ONE)
    dim = n * p
    K = matrix(dim, dim)
    for i in range(n):
        for k in range(n):
            for j in range(p):
                K[i * p + j, k * p + j] = D.S0[j, j] + mpf(q[j]) * (min(times[i], times[k]) - times[0])
    A = matrix(n, dim)
    for i in range(n):
        for j in range(p):
            A[i, i * p + j] = D.X[i, j]
    y = matrix(D.y)
    mean0 = matrix([D.m0[j] for _ in range(n) for j in range(p)])
    C = A * K * A.T + d * eye(n)
    G = K * A.T * C ** -1
    e = y - A * mean0
    m = mean0 + G * e
    S = K - G * A * K
    z = -dot(e, C ** -1 * e) / 2 - log(mp.det(C)) / 2 - n * log(2 * pi) / 2
    return m, S, z


def section_laplace():
    cases = [('logit', 'y', {}), ('probit', 'y', {}), ('cloglog', 'y', {}), ('binomial', 'k', {}), ('poisson', 'c', {}), ('negbinomial', 'c', {'h': 2}),
             ('gaussian', 'r', {'d': '0.5'}), ('gaussianlog', 'g', {'d': '0.5'}), ('gamma', 'g', {'h': 3}), ('studentt', 'r', {'h': 5, 'd': '0.5'})]
    for fam, y, par in cases:
        m, S, z, _ = laplace(Data(fam, y, **par))
        show(fam, m, chol(S), z)
    m, S, z, H = laplace(Data('logit', 'y'))
    show('logit diagonal: variances, evidence with diag H', [1 / H[j, j] for j in range(3)],
         z + log(mp.det(H)) / 2 - sum(log(H[j, j]) for j in range(3)) / 2)
    m, S, z, _ = laplace(Data('poisson', 'c', w='w', o='o'))
    show('poisson weight offset', m, [S[j, j] for j in range(3)], z)
    m, S, z, _ = laplace(Data('logit', 'y', prior=[(0, 10), ('0.5', 2), (-1, '0.25')]))
    show('logit priors', m, [S[j, j] for j in range(3)], z)
    m, S, z, _ = laplace(Data('logit', 'y', cols=('1', 'b'), o=None))
    D = Data('logit', 'y', cols=('1', 'b'))
    D.o = [2 * v for v in COLS['a']]  # a is known to be 2
    m, S, z, _ = laplace(D)
    show('logit with a known as 2', m, [S[j, j] for j in range(2)], z)
    m, S, z, _ = laplace(Data('logit', 'y'), at=matrix([mpf('0.5'), 1, -1]))
    show('logit at (0.5, 1, -1)', m, chol(S), z)
    # A column scaled, and centred on the intercept, is another parametrisation with another prior:
    # prior N(0, 1) of the weights of (a - mean)/sd, the intercept at the centre.
    for ddof in (0, 1):
        D = Data('logit', 'y')
        st = []
        for j, c in ((1, 'a'), (2, 'b')):
            mu = sum(COLS[c]) / N
            sd = sqrt(sum((v - mu) ** 2 for v in COLS[c]) / (N - ddof))
            st.append((mu, sd))
            for i in range(N):
                D.X[i, j] = (COLS[c][i] - mu) / sd
        m, S, z, _ = laplace(D)
        A = matrix([[1, -st[0][0] / st[0][1], -st[1][0] / st[1][1]], [0, 1 / st[0][1], 0], [0, 0, 1 / st[1][1]]])
        show('logit standardize, deviation over n-%d' % ddof, A * m, chol(A * S * A.T), z)


def section_auto():
    """Where the evidence of exact or Laplace fits is largest."""
    def best(f, x, digits=20):
        return mp.findroot(lambda t: diff(f, t), x, tol=mpf(10) ** -digits)
    f = lambda u: laplace(Data('gaussian', 'r', prior=[(0, 10), (0, exp(u)), (0, exp(u))], d='0.5'))[2]
    mp.dps = 30
    u = mp.findroot(lambda t: (f(t + mpf('1e-8')) - f(t - mpf('1e-8'))) / mpf('2e-8'), (mpf(-1), mpf(0)), solver='secant', tol=mpf(10) ** -16)
    show('gaussian prior_variance, evidence', exp(u), f(u))
    f = lambda u: laplace(Data('gaussian', 'r', d=exp(u)))[2]
    u = mp.findroot(lambda t: (f(t + mpf('1e-8')) - f(t - mpf('1e-8'))) / mpf('2e-8'), (mpf(-2), mpf(-1)), solver='secant', tol=mpf(10) ** -16)
    show('gaussian dispersion, evidence', exp(u), f(u))
    mp.dps = 50


def section_ep():
    for fam, y, par in [('probit', 'y', {}), ('logit', 'y', {}), ('poisson', 'c', {})]:
        m, S, z = ep_full(Data(fam, y, **par), digits=16)
        show(fam + ' full', m, chol(S), z)
    for fam, y, par in [('probit', 'y', {}), ('logit', 'y', {})]:
        m, v, z = ep_factorised(Data(fam, y, **par), digits=16)
        show(fam + ' factorised', m, v, z)
    D = Data('probit', [1] + [0] * 9, cols=('1',), prior=[(0, 1)])
    m, S, z = ep_full(D)
    show('one success in ten', m[0], S[0, 0], z, Phi(m[0] / sqrt(1 + S[0, 0])))


def section_covariance():
    for fam, y, par in [('probit', 'y', {}), ('logit', 'y', {}), ('poisson', 'c', {})]:
        m, S, z = adf_full(Data(fam, y, **par))
        show('adf ' + fam + ' full', m, chol(S), z)
    m, S, z = adf_full(Data('probit', 'y'), q=['0.125'] * 3)
    show('adf probit full, q = 0.125', m, chol(S), z)
    m, S, z = adf_full(Data('probit', 'y'), q=[0, '0.5', 0])
    show('adf probit full, q = {a: 0.5}', m, chol(S), z)
    m, S, z = adf_full(Data('gaussian', 'r', d='0.5'))
    show('gaussian', m, chol(S), z)
    x = matrix([1, mpf('0.5'), 2])
    mm, v = dot(x, m), dot(x, S * x)
    show('gaussian predictor at (0.5, 2)', mm, v)


def section_smooth():
    D = Data('gaussian', 'r', cols=('a', 'b'), prior=[(0, 1), (0, 1)], d='0.5')
    for name, times in (('rows', [mpf(k + 1) for k in range(N)]), ('time', [mpf(t) for t in (0, 1, 3, '3.5', 7, 7)])):
        m, S, z = smoother(D, ['0.25', '0.25'], times)
        for j, c in enumerate('ab'):
            for i in range(N):
                if D.X[i, j] != 0:
                    show('%s %s' % (name, c), times[i], m[i * 2 + j], S[i * 2 + j, i * 2 + j])
        show(name + ' last, evidence', m[10], m[11], S[10, 10], S[11, 11], z)
    D = Data('gaussian', 'r', cols=('b',), prior=[(0, 1)], d='0.5')
    m, S, z = smoother(D, ['0.25'], [mpf(k + 1) for k in range(N)])
    for i in range(N):
        if D.X[i, 0] != 0:
            show('b alone', i + 1, m[i], S[i, i])
    show('b alone, evidence', z)


def section_filters():
    """Niranjan's update: prior (0.5, -0.25), diag(4, 1), x = (1, 2), y = 1."""
    th, P, x, y = matrix([mpf('0.5'), mpf('-0.25')]), diag([mpf(4), ONE]), matrix([ONE, mpf(2)]), ONE

    def out(name, m, S, *more):
        show(name, m, [S[0, 0], S[1, 0], S[1, 1]], *more)
    m, v = dot(x, th), dot(x, P * x)
    g = logistic(m)
    S = (P ** -1 + g * (1 - g) * (x * x.T)) ** -1
    lz = log(quad(lambda s: logistic(s) * exp(-(s - m) ** 2 / (2 * v)) / sqrt(2 * pi * v), [m + k * sqrt(v) for k in range(-12, 13)]))
    out('sequential_laplace', th + S * x * (y - g), S, lz)
    # EKF: f = g' x, K = P f / (R + f'Pf); its evidence log N(e; 0, R + f'Pf)
    for name, R in (('bernoulli', g * (1 - g)), ('0.5', mpf('0.5'))):
        f = g * (1 - g) * x
        V = R + dot(f, P * f)
        K = P * f / V
        out('ekf R ' + name, th + K * (y - g), P - K * (f.T * P), -(y - g) ** 2 / (2 * V) - log(2 * pi * V) / 2)
    f = g * (1 - g) * x
    for floor in ('1e-3', '0.2'):
        R = max(mpf(floor), (y - g) ** 2 - dot(f, P * f))
        V = R + dot(f, P * f)
        K = P * f / V
        out('ekf R auto, floor ' + floor, th + K * (y - g), P - K * (f.T * P), -(y - g) ** 2 / (2 * V) - log(2 * pi * V) / 2)
    # Laplace mode
    mode = mp.findroot(lambda s: s - m - v * (y - logistic(s)), m)
    gm = logistic(mode)
    out('iterated ekf = row mode', th + P * x * (y - gm), (P ** -1 + gm * (1 - gm) * (x * x.T)) ** -1)
    # Jaakkola-Jordan
    xi = ONE
    for _ in range(2000):
        lam = tanh(xi / 2) / (4 * xi)
        vp = 1 / (1 / v + 2 * lam)
        mp_ = vp * (m / v + y - mpf(1) / 2)
        xi = sqrt(vp + mp_ ** 2)
    S = (P ** -1 + 2 * lam * (x * x.T)) ** -1
    bound = log(logistic(xi)) - xi / 2 + lam * xi ** 2 + log(vp / v) / 2 + mp_ ** 2 / vp / 2 - m ** 2 / v / 2
    out('variational', S * (P ** -1 * th + (y - mpf(1) / 2) * x), S, bound, xi)

    def run(D, rule, q=None):
        m, S, z = D.m0.copy(), D.S0.copy(), mpf(0)
        for i in range(len(D.y)):
            if q and i:
                S = S + mpf(q) * eye(D.p)
            x = D.row(i)
            s, v, F = dot(x, m), dot(x, S * x), S * x
            a, b, lz = rule(D, i, s, v)
            m, S, z = m + F * a, S - b * (F * F.T), z + lz
        return m, S, z

    def sl(D, i, s, v):
        g, h = D.d(i, s, 1), -D.d(i, s, 2)
        return g / (1 + h * v), h / (1 + h * v), moments(D, i, s, v)[0]

    def jj(D, i, s, v):
        k, xi = D.y[i] - mpf(1) / 2, ONE
        for _ in range(300):
            lam = tanh(xi / 2) / (4 * xi)
            vp = 1 / (1 / v + 2 * lam)
            mq = vp * (s / v + k)
            xi = sqrt(vp + mq ** 2)
        lz = log(logistic(xi)) - xi / 2 + lam * xi ** 2 + log(vp / v) / 2 + mq ** 2 / vp / 2 - s ** 2 / v / 2
        return (mq - s) / v, (v - vp) / v ** 2, lz

    def ekf(noise):
        def rule(D, i, s, v):
            g = logistic(s)
            d = g * (1 - g)
            R, e = noise(g), D.y[i] - g
            V = R + d * d * v
            return d * e / V, d * d / V, -e * e / (2 * V) - log(2 * pi * V) / 2
        return rule
    for name, rule in (('sequential_laplace', sl), ('variational', jj), ('ekf', ekf(lambda g: g * (1 - g))), ('ekf 0.3', ekf(lambda g: mpf('0.3')))):
        for q in (None, '0.125'):
            m, S, z = run(Data('logit', 'y'), rule, q)
            show('d %s q=%s' % (name, q), m, chol(S), z)
    m, S, z = run(Data('poisson', 'c'), sl)
    show('d sequential_laplace poisson', m, chol(S), z)


def section_lowrank():
    # Conjugate: X replaced by XUUᵀ, U the leading right singular vectors; prior variance 2.
    X = matrix([[COLS[c][i] for c in 'abo'] for i in range(N)])
    y, d = matrix(COLS['r']), mpf('0.5')
    E, V = mp.eigsy(X.T * X)
    order = sorted(range(3), key=lambda k: -E[k])
    for rank in (1, 2, 3):
        U = matrix(3, rank)
        for c in range(rank):
            for r in range(3):
                U[r, c] = V[r, order[c]]
        Z = X * U * U.T
        H = eye(3) / 2 + Z.T * Z / d
        S = H ** -1
        m = S * Z.T * y / d
        z = -dot(y - Z * m, y - Z * m) / (2 * d) - N * log(2 * pi * d) / 2 - dot(m, m) / 4 - 3 * log(mpf(2)) / 2 - log(mp.det(H)) / 2
        show('rank %d' % rank, m, [S[j, j] for j in range(3)], z)
    show('singular values', [sqrt(E[k]) for k in order])


def section_softmax():
    # Classes c = 0..2: y of the rows = (0, 1, 2, 1, 0, 2), features (Intercept), a; one weight vector a class.
    lab = [0, 1, 2, 1, 0, 2]
    for ref in (None, 0):
        free = [c for c in range(3) if c != ref]
        dim = 2 * len(free)
        L0 = diag([v for _ in free for v in (mpf('0.1'), ONE)])

        def probs(w, i):
            f = [mpf(0)] * 3
            for k, c in enumerate(free):
                f[c] = w[2 * k] + w[2 * k + 1] * COLS['a'][i]
            t = sum(exp(v) for v in f)
            return [exp(v) / t for v in f]
        w = matrix(dim, 1)
        for _ in range(80):
            g, H = -L0 * w, L0.copy()
            for i in range(N):
                pr, x = probs(w, i), [ONE, COLS['a'][i]]
                for k, c in enumerate(free):
                    for a in range(2):
                        g[2 * k + a] += ((lab[i] == c) - pr[c]) * x[a]
                        for l, e in enumerate(free):
                            for b in range(2):
                                H[2 * k + a, 2 * l + b] += ((pr[c] if c == e else 0) - pr[c] * pr[e]) * x[a] * x[b]
            step = mp.lu_solve(H, g)
            w = w + step
            if mp.norm(step) < mpf(10) ** -40:
                break
        S = H ** -1
        z = sum(log(probs(w, i)[lab[i]]) for i in range(N)) - dot(w, L0 * w) / 2 + log(mp.det(L0)) / 2 - log(mp.det(H)) / 2
        show('reference %s' % ref, w, [S[j, j] for j in range(dim)], z)
        COLS['a'].append(mpf('0.8'))
        show('  plugin at a = 0.8', probs(w, N))
        COLS['a'].pop()
    # Two classes, one pinned: logistic regression on a.
    D = Data('logit', 'y', cols=('1', 'a'))
    m, S, z, _ = laplace(D)
    x = matrix([1, mpf('0.8')])
    mm, v = dot(x, m), dot(x, S * x)
    p = quad(lambda s: logistic(s) * exp(-(s - mm) ** 2 / (2 * v)) / sqrt(2 * pi * v), [mm + k * sqrt(v) for k in range(-12, 13)])
    show('two classes', m, chol(S), z, p, logistic(mm), logistic(mm / sqrt(1 + pi * v / 8)))


def section_gp():
    xs = [mpf(v) for v in ('0', '0.5', '1', '2')]
    rbf = lambda u, v: mpf('1.5') * exp(-(u - v) ** 2 / (2 * mpf('0.8') ** 2))
    m52 = lambda u, v: (lambda r: (1 + r + r * r / 3) * exp(-r))(sqrt(mpf(5)) * abs(u - v))
    m32 = lambda u, v: (lambda r: (1 + r) * exp(-r))(sqrt(mpf(3)) * abs(u - v))
    n = len(xs)

    def fit(kern, ll, mean, star):
        K = matrix([[kern(u, v) for v in xs] for u in xs])
        f = matrix([mean] * n)
        for _ in range(100):
            g = matrix([diff(lambda s: ll(i, s), f[i]) for i in range(n)])
            W = diag([-diff(lambda s: ll(i, s), f[i], 2) for i in range(n)])
            new = mean * matrix([1] * n) + K * mp.lu_solve(eye(n) + W * K, W * (f - mean * matrix([1] * n)) + g)
            move = mp.norm(new - f)
            f = new
            if move < mpf(10) ** -38:
                break
        W = diag([-diff(lambda s: ll(i, s), f[i], 2) for i in range(n)])
        a = mp.lu_solve(K, f - mean * matrix([1] * n))
        z = sum(ll(i, f[i]) for i in range(n)) - dot(a, f - mean * matrix([1] * n)) / 2 - log(mp.det(eye(n) + K * W)) / 2
        ks = matrix([kern(star, u) for u in xs])
        m = mean + dot(ks, a)
        v = kern(star, star) - dot(ks, (K + W ** -1) ** -1 * ks)
        return a, z, m, v

    ys = [1, 0, 1, 1]
    for name, kern in (('rbf', rbf), ('matern52', m52), ('matern32', m32)):
        a, z, m, v = fit(kern, lambda i, s: LIK['logit'](ys[i], s), mpf(0), mpf('0.25'))
        show('logit ' + name, a, z, m, v)
    cs = [mpf(c) for c in (1, 3, 2, 0)]
    a, z, m, v = fit(rbf, lambda i, s: LIK['poisson'](cs[i], s), mpf('0.5'), mpf('0.25'))
    show('poisson rbf mean 0.5', a, z, m, v, exp(m + v / 2))
    rs = [mpf(r) for r in ('0.5', '-0.25', '1', '1.5')]
    a, z, m, v = fit(rbf, lambda i, s: LIK['gaussian'](rs[i], s, d=mpf('0.25')), mpf(0), mpf('0.25'))
    show('gaussian rbf', a, z, m, v)


def section_hmc():
    """Moments of the exact posterior of one weight, prior N(0, 1), y = (1, 0, 1, 1) on x = (1, 0.5, 2, -1)."""
    x, y = [mpf(v) for v in ('1', '0.5', '2', '-1')], [1, 0, 1, 1]
    f = lambda w: exp(sum(LIK['logit'](y[i], x[i] * w) for i in range(4)) - w * w / 2) / sqrt(2 * pi)
    pts = list(range(-12, 13))
    z = quad(f, pts)
    m = quad(lambda w: w * f(w), pts) / z
    show('logit', m, quad(lambda w: (w - m) ** 2 * f(w), pts) / z, log(z))


if __name__ == '__main__':
    names = sys.argv[1:] or [n[8:] for n in globals().copy() if n.startswith('section_')]
    for name in names:
        print(name)
        globals()['section_' + name]()
