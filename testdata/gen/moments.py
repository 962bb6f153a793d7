#!/usr/bin/env python3
"""Golden tables for kernels/lik and kernels/special, in 60-digit arithmetic.

Run from the repository's root (Python 3 and mpmath 1.3.0, two processes, a few minutes):

    python3 testdata/gen/moments.py              # every table
    python3 testdata/gen/moments.py poisson_log  # one of them

Writes testdata/lik/<family>_<link>.csv and testdata/special/<function>.csv.

For one row (y, weight w, dispersion, m, v) the tilted law is proportional to
exp(f(s)), f(s) = w log p(y|s) - (s-m)^2/(2v). It is log-concave for every family
but two (below), so it is integrated between the two points where f has fallen 160 nats below
its mode, in Gauss-Legendre panels of 40 nodes. A panel is never wider than 2.5
prior deviations, a fifth of the range, or two units of s (0.8 times the distance
to the bend of log p, when that is larger). Every 17th row is integrated again
with panels half as wide and the two results must agree in 22 digits.

    alpha = dlogZ/dm = E[(log p)'],  beta = -d2logZ/dm2,  ratio = tilted variance / v

alpha and beta come from the derivatives of log p where v*beta < 1/2 and from the
moments of s otherwise, so that neither loses digits. Gaussian rows, and probit rows
of weight 1, are closed forms in the same arithmetic.

gaussian_log (y > 0) and studentt_identity are not log-concave: f' has up to two
turning points, known in closed form, so f has one or two modes, one on each side of
them. The law is integrated over the stretches about each mode where f is within DROP
(plus what the ratio of widths can make up for) of the higher one.

The tables of these and of binomial, negbinomial and gamma have two more columns,
trials and shape, and 20 digits.
"""
import csv
import os
import sys
from multiprocessing import Pool

from mpmath import mp, mpf

mp.dps = 60
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..")
DROP = 160
NODES = 40


def legendre(n):
    out = []
    for i in range(1, n + 1):
        x = mp.cos(mp.pi * (i - mpf(1) / 4) / (n + mpf(1) / 2))
        while True:
            p0, p1 = mpf(1), x
            for k in range(2, n + 1):
                p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
            dp = n * (x * p1 - p0) / (x * x - 1)
            step = p1 / dp
            x -= step
            if abs(step) < mpf(10) ** -50:
                break
        out.append((x, 2 / ((1 - x * x) * dp * dp)))
    return out


GL = legendre(NODES)


# Each family: log p and its first two derivatives at s, and the stretch of s where
# log p bends with the length over which it does.
class Logit:
    def __init__(self, y, w, disp):
        self.sign, self.w = (1 if y == 1 else -1), w
        self.bend = (mpf(0), self.sign * mp.log(1 + w), mpf(2))

    def at(self, s):
        x = self.sign * s
        e = mp.exp(-abs(x))
        big, small = 1 / (1 + e), e / (1 + e)
        lp = -mp.log1p(e) + (x if x < 0 else 0)
        q = small if x > 0 else big
        return self.w * lp, self.w * self.sign * q, -self.w * big * small


class Probit:
    def __init__(self, y, w, disp):
        self.sign, self.w = (1 if y == 1 else -1), w
        a = 1 / mp.sqrt(1 + w)
        self.bend = (mpf(0), self.sign * mp.sqrt(2 * mp.log(1 + w)), a)

    def at(self, s):
        x = self.sign * s
        cdf = mp.erfc(-x / mp.sqrt(2)) / 2
        r = mp.npdf(x) / cdf
        return self.w * mp.log(cdf), self.w * self.sign * r, -self.w * r * (x + r)


class Poisson:
    def __init__(self, y, w, disp):
        self.y, self.w = mpf(y), w
        self.fact = mp.loggamma(self.y + 1)
        c = mp.log(max(self.y, 1)) if y > 0 else -mp.log(w)
        self.bend = (min(c, -mp.log(w)), max(c, -mp.log(w)), mpf(2))

    def at(self, s):
        e = mp.exp(s)
        return self.w * (self.y * s - e - self.fact), self.w * (self.y - e), -self.w * e


class Cloglog:
    def __init__(self, y, w, disp):
        self.y, self.w = y, w
        if y == 1:
            k = 1 + mp.log(max(w, 1))
            self.bend = (mpf(0), mp.log(k), 1 / k)
        else:
            self.bend = (min(0, -mp.log(w)), max(0, -mp.log(w)), mpf(2))

    def at(self, s):
        x = mp.exp(s)
        if self.y == 0:
            return -self.w * x, -self.w * x, -self.w * x
        if x > 3000:
            return mpf(0), self.w * x * mp.exp(-x), -self.w * x * x * mp.exp(-x)
        t = -mp.expm1(-x)
        d1 = x * (1 - t) / t
        # 1 - x/t cancels for small x: two terms are exact to 60 digits below 1e-25
        bend = x / t - 1 if x > mpf(10) ** -25 else x / 2 + x * x / 12
        return self.w * mp.log(t), self.w * d1, -self.w * d1 * bend


def log_choose(n, y):
    return mp.loggamma(n + 1) - mp.loggamma(y + 1) - mp.loggamma(n - y + 1)


class BinomialLogit:
    """a s - (a+b) log(1+e^s) plus a constant; shift moves s, for negbinomial."""
    def __init__(self, y, w, disp, trials, shape):
        self.setup(w * y, w * (trials - y), w * log_choose(trials, y), mpf(0))

    def setup(self, a, b, const, shift):
        self.a, self.b, self.const, self.shift = a, b, const, shift
        self.bend = (shift, shift + mp.log((1 + a) / (1 + b)), mpf(2))

    def at(self, s):
        u = s - self.shift
        e = mp.exp(-abs(u))
        big, small = 1 / (1 + e), e / (1 + e)
        log_up = -mp.log1p(e) + (u if u < 0 else 0)
        log_dn = -mp.log1p(e) - (u if u > 0 else 0)
        up, dn = (big, small) if u > 0 else (small, big)
        return (self.const + self.a * log_up + self.b * log_dn, self.a * dn - self.b * up,
                -(self.a + self.b) * big * small)


class NegBinomial(BinomialLogit):
    def __init__(self, y, w, disp, trials, shape):
        c = mp.loggamma(y + shape) - mp.loggamma(shape) - mp.loggamma(y + 1)
        self.setup(w * y, w * shape, w * c, mp.log(shape))


class BinomialProbit:
    def __init__(self, y, w, disp, trials, shape):
        self.up, self.dn = Probit(1, w * y, disp), Probit(0, w * (trials - y), disp)
        self.const = w * log_choose(trials, y)
        reach = [mp.sqrt(2 * mp.log(1 + w * y)), mp.sqrt(2 * mp.log(1 + w * (trials - y)))]
        self.bend = (-reach[1], reach[0], 1 / (1 + max(reach)))

    def at(self, s):
        lp, d1, d2 = self.const, mpf(0), mpf(0)
        for part in (self.up, self.dn):
            if part.w != 0:
                with mp.workdps(75):
                    x = part.sign * s
                    if x < -1000:
                        # erfc by its asymptotic series: 1e-60 from a few terms
                        t, k, sm, q = mpf(1), 1, mpf(1), 1 / (x * x)
                        while k < 40 and abs(t) > mpf(10) ** -75:
                            t *= -(2 * k - 1) * q
                            sm += t
                            k += 1
                        log_cdf = -x * x / 2 - mp.log(2 * mp.pi) / 2 - mp.log(-x) + mp.log(sm)
                        r = -x / sm
                    else:
                        tail = mp.erfc(abs(x) / mp.sqrt(2)) / 2
                        log_cdf = mp.log(tail) if x < 0 else mp.log1p(-tail)
                        r = mp.npdf(x) / (tail if x < 0 else 1 - tail)
                    lp += part.w * log_cdf
                    d1 += part.w * part.sign * r
                    d2 -= part.w * r * (x + r)
        return lp, d1, d2


class BinomialCloglog:
    def __init__(self, y, w, disp, trials, shape):
        a, b = w * y, w * (trials - y)
        self.up = Cloglog(1, a, disp) if a > 0 else None
        self.b, self.const = b, w * log_choose(trials, y)
        lo, hi, wide = self.up.bend if self.up else (mpf(0), mpf(0), mpf(2))
        wall = -mp.log(b) if b > 0 else mpf(0)
        self.bend = (min(lo, wall), max(hi, wall), wide)

    def at(self, s):
        lp, d1, d2 = self.up.at(s) if self.up else (mpf(0), mpf(0), mpf(0))
        x = mp.exp(s) * self.b
        return lp - x + self.const, d1 - x, d2 - x


class Gamma:
    def __init__(self, y, w, disp, trials, shape):
        self.k, self.y, self.w = shape, y, w
        self.const = shape * mp.log(shape) + (shape - 1) * mp.log(y) - mp.loggamma(shape)
        c = [mp.log(y), mp.log(y * w * shape)]
        self.bend = (min(c), max(c), mpf(2))

    def at(self, s):
        x = self.k * self.y * mp.exp(-s)
        return self.w * (self.const - self.k * s - x), self.w * (x - self.k), -self.w * x


class GaussianLog:
    def __init__(self, y, w, disp, trials, shape):
        self.y, self.c = y, w / disp
        self.const = -w / 2 * mp.log(2 * mp.pi * disp)
        self.near = -mp.log(self.c) / 2 if y == 0 else min(-mp.log(self.c) / 2, -mp.log(self.c * abs(y)))

    def at(self, s):
        x = mp.exp(s)
        return self.const - self.c / 2 * (self.y - x) ** 2, self.c * x * (self.y - x), self.c * x * (self.y - 2 * x)

    def turns(self, v):
        q = self.y ** 2 - 8 / (self.c * v)
        if self.y <= 0 or q <= 0:
            return None
        hi = (self.y + mp.sqrt(q)) / 4
        return mp.log(1 / (2 * self.c * v * hi)), mp.log(hi)

    def wide(self, s):
        w = max(mpf(1), mpf(6) / 10 * (self.near - s))
        x = mp.exp(s + w)
        return min(w, 3 / mp.sqrt(self.c * x * (abs(self.y) + 2 * x)))


class StudentT:
    def __init__(self, y, w, disp, trials, shape):
        self.y, self.s2, self.k = y, shape * disp, w * (shape + 1) / 2
        self.const = w * (mp.loggamma((shape + 1) / 2) - mp.loggamma(shape / 2) - mp.log(mp.pi * shape * disp) / 2)

    def at(self, s):
        r = self.y - s
        q = self.s2 + r * r
        return (self.const - self.k * mp.log(q / self.s2), 2 * self.k * r / q,
                -2 * self.k * (self.s2 - r * r) / (q * q))

    def turns_from(self, m, v):
        kv = self.k * v
        q = kv * kv - 4 * kv * self.s2
        if q <= 0:
            return None
        far = kv + mp.sqrt(q)
        a, b = mp.sqrt(far - self.s2), mp.sqrt(4 * kv * self.s2 / far - self.s2)
        return (self.y - a, self.y - b) if m <= self.y else (self.y + b, self.y + a)

    def wide(self, s):
        r = abs(s - self.y)
        w = max(mp.sqrt(self.s2), mpf(6) / 10 * r)
        return min(w, 2 * mp.sqrt((self.s2 + r * r) / (2 * self.k)))


FAMILIES = {"bernoulli_logit": Logit, "bernoulli_probit": Probit,
            "bernoulli_cloglog": Cloglog, "poisson_log": Poisson}
# the families whose tables have trials and shape
MORE = {"binomial_logit": BinomialLogit, "binomial_probit": BinomialProbit, "binomial_cloglog": BinomialCloglog,
        "negbinomial_log": NegBinomial, "gamma_log": Gamma, "gaussian_log": GaussianLog, "studentt_identity": StudentT}
NOT_CONCAVE = ("gaussian_log", "studentt_identity")


def mode(fam, m, v):
    """Root of (log p)'(s) = (s-m)/v: the left side falls, the right side rises."""
    def g(s):
        _, d1, d2 = fam.at(s)
        return d1 - (s - m) / v, d2 - 1 / v
    g0, _ = g(m)
    if g0 == 0:
        return m
    lo, hi, step = m, m, mp.sqrt(v)
    while g0 > 0 and g(hi)[0] > 0:
        lo, hi, step = hi, hi + step, 2 * step
    while g0 < 0 and g(lo)[0] < 0:
        lo, hi, step = lo - step, lo, 2 * step
    s = (lo + hi) / 2
    for k in range(400):
        val, slope = g(s)
        if val > 0:
            lo = s
        else:
            hi = s
        nxt = s - val / slope
        if not lo < nxt < hi:
            nxt = (lo + hi) / 2
        if abs(nxt - s) * mp.sqrt(-slope) < mpf(10) ** -12:
            return nxt
        # Newton alone crawls down an exponential wall one unit a step
        s = nxt if k % 3 < 2 else (lo + hi) / 2
    raise ArithmeticError("mode not found")


def edge(f, s0, f0, tau, direction):
    step = tau
    while f(s0 + direction * step) > f0 - DROP:
        step *= 2
    lo, hi = step / 2, step
    if step == tau:
        lo = mpf(0)
    for _ in range(6):
        mid = (lo + hi) / 2
        if f(s0 + direction * mid) > f0 - DROP:
            lo = mid
        else:
            hi = mid
    return s0 + direction * hi


def moments(fam, m, v, fine=1):
    s0 = mode(fam, m, v)
    lp0, d10, d20 = fam.at(s0)
    q0 = (s0 - m) ** 2 / (2 * v)
    f = lambda s: fam.at(s)[0] - (s - m) ** 2 / (2 * v)
    f0, tau = lp0 - q0, 1 / mp.sqrt(1 / v - d20)
    left, right = edge(f, s0, f0, tau, -1), edge(f, s0, f0, tau, 1)
    b0, b1 = min(fam.bend[:2]), max(fam.bend[:2])
    widest = min(mpf(5) / 2 * mp.sqrt(v), (right - left) / 5)
    c0 = c1 = c2 = e1 = e2 = h = mpf(0)
    x = left
    while x < right:
        dist = b0 - x if x < b0 else (x - b1 if x > b1 else mpf(0))
        wide = min(widest, max(fam.bend[2], mpf(8) / 10 * dist)) / fine
        wide = min(wide, right - x)
        mid, half = x + wide / 2, wide / 2
        for node, weight in GL:
            s = mid + half * node
            lp, d1, d2 = fam.at(s)
            u = s - s0
            p = weight * half * mp.exp(lp - (s - m) ** 2 / (2 * v) - f0)
            c0 += p
            pu = p * u
            c1 += pu
            c2 += pu * u
            g = d1 - d10
            e1 += p * g
            e2 += p * g * g
            h -= p * d2
        x += wide
    du, de = c1 / c0, e1 / c0
    var = c2 / c0 - du * du
    alpha, beta = d10 + de, h / c0 - (e2 / c0 - de * de)
    ratio = var / v
    if v * beta < mpf(1) / 2:
        ratio = 1 - v * beta
    else:
        alpha, beta = (s0 - m + du) / v, (1 - ratio) / v
    return f0 + mp.log(c0) - mp.log(2 * mp.pi * v) / 2, alpha, beta, ratio


def falling_root(g, lo, hi, v):
    """Root of a falling g between lo and hi, either of which may be None (unbounded)."""
    step = mp.sqrt(v)
    if lo is None:
        lo = hi - step
        while g(lo)[0] < 0:
            hi, step = lo, 2 * step
            lo = hi - step
    if hi is None:
        hi = lo + step
        while g(hi)[0] > 0:
            lo, step = hi, 2 * step
            hi = lo + step
    s = (lo + hi) / 2
    for k in range(600):
        val, slope = g(s)
        if val > 0:
            lo = s
        else:
            hi = s
        nxt = s - val / slope if slope < 0 else lo
        if not lo < nxt < hi or k % 3 == 2:
            nxt = (lo + hi) / 2
        if slope < 0 and abs(nxt - s) * mp.sqrt(-slope) < mpf(10) ** -12 or nxt == s:
            return nxt
        s = nxt
    raise ArithmeticError("mode not found")


def two_sided(fam, m, v, fine=1):
    """moments for a family that is not log-concave."""
    def g(s):
        _, d1, d2 = fam.at(s)
        return d1 - (s - m) / v, d2 - 1 / v
    f = lambda s: fam.at(s)[0] - (s - m) ** 2 / (2 * v)
    turns = fam.turns_from(m, v) if hasattr(fam, "turns_from") else fam.turns(v)
    valley = None
    if turns is None:
        modes = [falling_root(g, None, m, v) if g(m)[0] < 0 else falling_root(g, m, None, v)]
    else:
        modes = []
        if g(turns[0])[0] <= 0:
            modes.append(falling_root(g, None, turns[0], v))
        if g(turns[1])[0] >= 0:
            modes.append(falling_root(g, turns[1], None, v))
        if len(modes) == 2:
            lo, hi = turns
            for _ in range(60):
                mid = (lo + hi) / 2
                lo, hi = (mid, hi) if g(mid)[0] < 0 else (lo, mid)
            valley = lo
    s0 = max(modes, key=f)
    f0 = f(s0)
    lp0, d10, _ = fam.at(s0)
    tau = min([mp.sqrt(v)] + [1 / mp.sqrt(-g(s)[1]) for s in modes if g(s)[1] < 0])
    drop = DROP + 3 * mp.log(mp.sqrt(v) / tau)

    def side(s, direction, limit):
        floor = f0 - drop
        if limit is not None and f(limit) > floor:
            return limit
        step = tau
        while f(s + direction * step) > floor:
            step *= 2
        if limit is not None:
            step = min(step, abs(limit - s))
        lo, hi = (step / 2 if step > tau else mpf(0)), step
        while f(s + direction * hi) < floor - 50 and hi - lo > tau / 100:
            mid = (lo + hi) / 2
            lo, hi = (mid, hi) if f(s + direction * mid) > floor else (lo, mid)
        return s + direction * hi
    parts = []
    for s in modes:
        if f(s) > f0 - drop:
            left = side(s, -1, valley if valley is not None and valley < s else None)
            right = side(s, 1, valley if valley is not None and valley > s else None)
            parts.append((left, right))
    c0 = c1 = c2 = e1 = e2 = h = mpf(0)
    for left, right in parts:
        x = left
        while x < right:
            wide = min(2 * mp.sqrt(v), fam.wide(x)) / fine
            wide = min(wide, right - x)
            mid, half = x + wide / 2, wide / 2
            ends = max(f(x), f(x + wide), f(mid))
            if ends > f0 - drop - 100:
                for node, weight in GL:
                    s = mid + half * node
                    lp, d1, d2 = fam.at(s)
                    u = s - s0
                    p = weight * half * mp.exp(lp - (s - m) ** 2 / (2 * v) - f0)
                    c0 += p
                    pu = p * u
                    c1 += pu
                    c2 += pu * u
                    k = d1 - d10
                    e1 += p * k
                    e2 += p * k * k
                    h -= p * d2
            x += wide
    du, de = c1 / c0, e1 / c0
    var = c2 / c0 - du * du
    alpha, beta = d10 + de, h / c0 - (e2 / c0 - de * de)
    ratio = var / v
    if abs(v * beta) < mpf(1) / 2:
        ratio = 1 - v * beta
    else:
        alpha, beta = (s0 - m + du) / v, (1 - ratio) / v
    return f0 + mp.log(c0) - mp.log(2 * mp.pi * v) / 2, alpha, beta, ratio


def log_cdf_ratio(z):
    cdf = mp.erfc(-z / mp.sqrt(2)) / 2
    log_cdf = mp.log(cdf) if z < 0 else mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)
    return log_cdf, mp.npdf(z) / cdf


def closed(name, y, w, disp, m, v):
    if name == "gaussian_identity":
        noise = disp / w
        r = y - m
        logz = -w / 2 * mp.log(2 * mp.pi * disp) + mp.log(2 * mp.pi * noise) / 2
        logz += -mp.log(2 * mp.pi * (v + noise)) / 2 - r * r / (2 * (v + noise))
        return logz, r / (v + noise), 1 / (v + noise), noise / (v + noise)
    sign = 1 if y == 1 else -1
    root = mp.sqrt(1 + v)
    z = sign * m / root
    with mp.workdps(120):
        lz, r = log_cdf_ratio(z)
        beta = r * (z + r) / (1 + v)
        ratio = 1 - v * beta
    return lz, sign * r / root, beta, ratio


def row(task):
    name, i, (y, w, disp, m, v) = task
    y_, w, disp, m, v = int(y) if name != "gaussian_identity" else mpf(y), mpf(w), mpf(disp), mpf(m), mpf(v)
    family, link = name.split("_")
    if name == "gaussian_identity" or (name == "bernoulli_probit" and w == 1):
        got = closed(name, y_, w, disp, m, v)
    else:
        fam = FAMILIES[name](y_, w, disp)
        got = moments(fam, m, v)
        if i % 17 == 0:
            agree(task, got, moments(fam, m, v, 2), v)
    if name == "gaussian_identity":
        pred = m
    elif name == "poisson_log":
        pred = mp.exp(m + v / 2)
    elif name == "bernoulli_probit":
        pred = mp.ncdf(m / mp.sqrt(1 + v))
    elif y_ == 1 and w == 1:
        pred = mp.exp(got[0])
    else:
        pred = None  # filled in from the row with y = 1, w = 1

    def text(x):
        if x is None:
            return ""
        if x != 0 and abs(mp.log10(abs(x))) > 400:  # beyond a double, and slow to print
            return "0" if abs(x) < 1 else ("inf" if x > 0 else "-inf")
        return mp.nstr(x, 25, min_fixed=-4, max_fixed=8)
    return [family, link, y, w_text(w), w_text(disp), w_text(m), w_text(v)] + [text(g) for g in got] + [text(pred)]


def agree(task, got, again, v):
    for j, (a, b) in enumerate(zip(got, again)):
        # alpha and beta far below one in a thousandth of a deviation or of the
        # variance carry no weight in any moment
        floor = (mpf(1), mpf(10) ** -12 / mp.sqrt(v), mpf(10) ** -12 / v, mpf(0))[j]
        if abs(a - b) > mpf(10) ** -22 * max(abs(a), floor):
            raise ArithmeticError(f"{task} {j}: {a} {b}")


def more_row(task):
    """row for the families of MORE."""
    name, i, numbers = task
    y, w, disp, m, v, trials, shape = (mpf(x) for x in numbers)
    fam = MORE[name](y, w, disp, trials, shape)
    solve = two_sided if name in NOT_CONCAVE else moments
    got = solve(fam, m, v)
    if i % 17 == 0:
        agree(task, got, solve(fam, m, v, 2), v)
    if name.endswith("_log"):
        pred = mp.exp(m + v / 2)
    elif name == "studentt_identity":
        pred = m
    elif name == "binomial_probit":
        z = m / mp.sqrt(1 + v)
        pred = mp.erfc(-z / mp.sqrt(2)) / 2
    else:
        key = (name, float(m), float(v))
        if key not in PRED:
            one = {"binomial_logit": Logit, "binomial_cloglog": Cloglog}[name](1, mpf(1), disp)
            PRED[key] = mp.exp(moments(one, m, v)[0])
        pred = PRED[key]

    def text(x):
        if x != 0 and abs(mp.log10(abs(x))) > 400:
            return "0" if abs(x) < 1 else ("inf" if x > 0 else "-inf")
        return mp.nstr(x, 20, min_fixed=-4, max_fixed=8)
    return name.split("_") + [repr(float(y))] + [w_text(x) for x in (w, disp, m, v)] + [text(x) for x in got + (pred,)] + \
        [w_text(trials), w_text(shape)]


PRED = {}  # predictive means of one trial, shared by the rows of a process


def w_text(x):
    return mp.nstr(x, 17, min_fixed=-3, max_fixed=9)


M = "-1e4 -9900 -1000 -100 -30 -5 -1 0 .3 5 30 100 1e4".split()
V = "1e-12 1e-6 .01 .5 1 5 25 100 2500 1e5 1e6".split()
M2 = "-1e4 -100 -5 -1 .3 5 100 1e4".split()
V2 = "1e-12 .01 1 25 2500 1e6".split()
M3 = "-1e4 -30 -1 .3 5 100".split()
V3 = "1e-6 1 100 1e5".split()


def grid(ys, ws, ms, vs, disps=("0",)):
    return [(y, w, d, m, v) for y in ys for w in ws for d in disps for m in ms for v in vs]


def tables():
    binary = grid("1", ["1"], M, V) + grid("0", ["1"], M2, V2)
    odd = [".1", "2.5", "100"]
    return {
        "gaussian_identity": grid(["0", "1.5", "-300", "1e4"], ["1"], M, V, ["1"])
        + grid(["1.5"], odd, M2, V2, [".01", "1", "1e4"]),
        "bernoulli_logit": binary + grid("10", odd, M2, V2),
        "bernoulli_cloglog": binary + grid("10", odd, M2, V2) + grid("0", ["1"], M3, V3),
        "poisson_log": grid("01", ["1"], M, V) + grid(["3", "50", "1000", "1000000"], ["1"], M2, V2)
        + grid(["0", "1", "20", "1000000"], odd, M3, V3),
        "bernoulli_probit": binary + grid("10", odd, M3, V3),
    }


M4 = "-1e4 -5 .3 100".split()
V4 = "1e-12 .01 25 1e6".split()
M5 = "-30 .3 1e4".split()
V5 = "1e-6 1 1e5".split()
ODD = [".1", "2.5", "100"]


def more(pairs, ws, ms, vs, disps=("0",), shapes=("0",)):
    """Rows of the families of MORE: pairs are (y, trials)."""
    return [(y, w, d, m, v, n, k) for y, n in pairs for w in ws for d in disps for k in shapes for m in ms for v in vs]


def more_tables():
    some = lambda *ys: [(y, "0") for y in ys]
    binomial = more([("0", "10"), ("3", "10"), ("10", "10"), ("1", "2"), ("400", "1000"), ("999999", "1e6"), ("5e5", "1e6")], ["1"], M3, V3) \
        + more([("3", "10"), ("7", "7")], ODD, M4, V4) + more([("999", "1000"), ("1", "1")], ["100"], M5, V5)
    return {
        "binomial_logit": binomial,
        "negbinomial_log": more(some("0", "1", "20", "1e6"), ["1"], M3, V3, shapes=["1"])
        + more(some("0", "3", "1e6"), ["1"], M4, V4, shapes=[".1", "30"])
        + more(some("0", "20", "1e6"), ODD, M5, V5, shapes=["1"]) + more(some("5"), ["1"], M5, V5, shapes=["1e6"]),
        "gamma_log": more(some("1e-8", ".5", "20", "1e8"), ["1"], M3, V3, shapes=["1"])
        + more(some("1e-8", "3", "1e8"), ["1"], M4, V4, shapes=[".1", "30"])
        + more(some("1e-8", "3", "1e8"), ODD, M5, V5, shapes=["1"]) + more(some("5"), ["1"], M5, V5, shapes=["1e6"]),
        "gaussian_log": more(some("-300", "0", "1.5", "40", "1e6"), ["1"], M3, V3, ["1"])
        + more(some("-1", "3", "1e3"), ["1"], M4, V4, [".01", "1e4"])
        + more(some("-2", "4", "1e3"), ODD, M5, V5, ["1"]) + more(some("5", "7", "9"), ["1"], ["-3", "-1", "0"], ["1"], ["1", "3"]),
        "studentt_identity": more(some("0", "1.5", "-300", "1e6"), ["1"], M3, V3, ["1"], ["4"])
        + more(some("3"), ["1"], M4, V4, ["1e-6", "1e4"], ["1", "30"])
        + more(some("0", "40"), ODD, M5, V5, ["1"], ["4"])
        + more(some("4", "6", "8", "10"), ["1", "2.5", "100"], ["0", ".3"], ["1", "3"], [".01"], ["2", "30"]),
        "binomial_cloglog": binomial,
        "binomial_probit": binomial,
    }


def write(path, head, rows):
    with open(path, "w", newline="") as fh:
        out = csv.writer(fh, lineterminator="\n")
        out.writerow(head)
        out.writerows(rows)


def special():
    os.makedirs(os.path.join(OUT, "special"), exist_ok=True)
    xs = [mpf(x) for x in "-1e4 -1000 -100 -38.5 -30 -20 -12 -10 -8 -6.5 -6 -5 -4.5 -4 -3 -2.5 -2 -1.5 -1 -.7 -.5 -.3 -.1 -1e-3 -1e-9 0 1e-9 1e-3 .1 .3 .5 .7 1 1.5 2 2.5 3 4 5 6 8 10 20 30 38 100".split()]

    def phi_ratio(x):
        with mp.workdps(120):
            r = log_cdf_ratio(x)[1]
            return r, r + x, r * (r + x), 1 - r * (r + x)

    def gap(x):
        with mp.workdps(120):
            return mp.expm1(x) - x

    def logistic(x):
        with mp.workdps(90):
            return 1 / (1 + mp.exp(-x))

    table = {
        "log_phi": (xs, lambda x: log_cdf_ratio(x)[0]),
        "phi": (xs, lambda x: mp.erfc(-x / mp.sqrt(2)) / 2),
        "inverse_mills": (xs, lambda x: phi_ratio(x)[0]),
        "inverse_mills_excess": ([x for x in xs if x <= 0], lambda x: phi_ratio(x)[1]),
        "inverse_mills_slope": ([x for x in xs if x < 38], lambda x: phi_ratio(x)[2]),
        "inverse_mills_residual": (xs, lambda x: phi_ratio(x)[3]),
        "log_mills": (xs, lambda x: log_cdf_ratio(-x)[0] + x * x / 2 + mp.log(2 * mp.pi) / 2),
        "log1p_exp": (xs, lambda x: mp.log1p(mp.exp(x)) if x < 50 else x + mp.log1p(mp.exp(-x))),
        "logistic": (xs, logistic),
        "expm1_gap": ([x for x in xs if x >= -100 and x <= 100], gap),
        "quantile": ([mpf(p) for p in "1e-300 1e-100 1e-20 1e-5 .01 .025 .2 .5 .7 .975 .999999".split()], None),
        "log_factorial": ([mpf(n) for n in "0 1 2 3 5 10 15 16 17 20 50 100 1000 1e6 1e12".split()],
                          lambda n: mp.loggamma(n + 1)),
        "stirling_error": ([mpf(n) for n in "1 2 3 5 10 15 16 17 20 50 100 1000 1e6".split()],
                           lambda n: mp.loggamma(n + 1) - (n + mpf(1) / 2) * mp.log(n) + n - mp.log(2 * mp.pi) / 2),
        "wright_omega": ([mpf(z) for z in "-1e3 -700 -50 -10 -3 -2 -1 -.5 0 .3 1 1.5 2 3 5 10 50 1e3 1e8 1e16".split()],
                         lambda z: mp.re(mp.lambertw(mp.exp(z))) if z < 100 else
                         mp.findroot(lambda t: t + mp.log(t) - z, z - mp.log(z))),
    }

    def quantile(p):
        p = mpf(float(p))
        z = -mp.sqrt(-2 * mp.log(p)) if p < 0.01 else mpf(0)
        return mp.findroot(lambda t: mp.log(mp.erfc(-t / mp.sqrt(2)) / 2) - mp.log(p), z, tol=mpf(10) ** -80)

    for name, (args, fn) in table.items():
        rows = []
        for a in args:
            arg = mpf(float(a))  # the number a program reads, not the decimal
            rows.append([repr(float(a)), mp.nstr((fn or quantile)(arg), 25, min_fixed=-4, max_fixed=8), "mpmath 1.3.0"])
        write(os.path.join(OUT, "special", name + ".csv"), ["arg0", "want", "source"], rows)


def main(argv):
    os.makedirs(os.path.join(OUT, "lik"), exist_ok=True)
    if not argv or "special" in argv:
        special()
    head = "family link y weight dispersion m v logz alpha beta ratio pred_mean".split()
    with Pool(2) as pool:
        for name, tasks in tables().items():
            if argv and name not in argv:
                continue
            # the table's decimals are read as doubles: .1 means the double nearest to it
            exact = [(t[0],) + tuple(float(x) for x in t[1:]) for t in tasks]
            rows = pool.map(row, [(name, i, t) for i, t in enumerate(exact)], chunksize=4)
            pred = {(r[5], r[6]): r[11] for r in rows if r[11]}
            for r in rows:
                r[11] = r[11] or pred[(r[5], r[6])]
            rows = [r[:2] + [repr(float(r[2]))] + r[3:] for r in rows]
            write(os.path.join(OUT, "lik", name + ".csv"), head, rows)
            print(name, len(rows), flush=True)
        for name, tasks in more_tables().items():
            if argv and name not in argv:
                continue
            exact = [tuple(float(x) for x in t) for t in tasks]
            rows = pool.map(more_row, [(name, i, t) for i, t in enumerate(exact)], chunksize=4)
            write(os.path.join(OUT, "lik", name + ".csv"), head + ["trials", "shape"], rows)
            print(name, len(rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
