package kerneltest

import (
	"math"
	"testing"
)

func TestTol(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		got, want float64
		tol       Tol
		pass      bool
	}{
		{1, 1, Tol{}, true},
		{1 + 1e-9, 1, Tol{Rel: 1e-8}, true},
		{1e-20, 2e-20, Tol{Rel: 1e-8}, false}, // no floor: a tail is judged relatively
		{1e-20, 2e-20, Tol{Rel: 1e-8, Abs: 1e-12}, true},
		{nan, nan, Tol{}, true},
		{nan, 1, Tol{Rel: 1}, false},
		{inf, inf, Tol{}, true},
		{inf, -inf, Tol{Rel: 1}, false},
		{1e308, inf, Tol{Rel: 1}, false},
	} {
		if pass := c.tol.Error(c.got, c.want) <= 1; pass != c.pass {
			t.Errorf("%v against %v with %+v: %v", c.got, c.want, c.tol, pass)
		}
	}
	if u := Ulps(math.Nextafter(1, 2), 1); u != 1 {
		t.Errorf("one step is %v ulp", u)
	}
	Close(t, "derivative of exp", Derivative(math.Exp, 0.3, 1e-2), math.Exp(0.3), Tol{Rel: 1e-9})
}
