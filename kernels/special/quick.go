package special

import "math"

// Tables of the quick functions; read-only after initialisation.
var (
	expTable = func() (t [64]float64) { // 2^(j/64)
		for j := range t {
			t[j] = math.Exp2(float64(j) / 64)
		}
		return t
	}()
	logTable = func() (t [128][2]float64) { // 1/c and log c, c being the middle of a piece of [1, 2)
		for j := range t {
			inv := 1 / (1 + (float64(j)+0.5)/128)
			t[j] = [2]float64{inv, -math.Log(inv)}
		}
		return t
	}()
)

const (
	log2x64  = 64 / math.Ln2
	ln2Hi64  = 744261117.0 / (1 << 36) // ln2/64 in 30 bits: its product with k is exact
	ln2Lo64  = math.Ln2/64 - ln2Hi64
	expFloor = -600
)

// ExpDown is e^x for x <= 0 (a rounding above 0 is fine): relative error below 1e-15,
// and 0 below -600. For the inner loops of quadrature rules: about half the time of
// math.Exp, by a table of 64 powers and a polynomial of degree 5.
func ExpDown(x float64) float64 {
	if !(x > expFloor) {
		return 0
	}
	k := int(x*log2x64 - 0.5)
	f := float64(k)
	r := (x - f*ln2Hi64) - f*ln2Lo64
	r2 := r * r
	p := (1 + r) + r2*((0.5+r*(1./6))+r2*(1./24+r*(1./120)))
	return p * expTable[k&63] * math.Float64frombits(uint64(1023+k>>6)<<52)
}

// QuickLog1p is log(1 + x) for x >= -1/16, with a relative error of 5e-16 below 1/16 and that of
// QuickLog above.
func QuickLog1p(x float64) float64 {
	if x < 1./16 { // 2 artanh(x/(2+x))
		s := x / (2 + x)
		q := s * s
		return 2 * s * (1 + q*(1./3+q*(1./5+q*(1./7+q*(1./9+q*(1./11))))))
	}
	t := 1 + x
	return QuickLog(t) + (x-(t-1))/t
}

// QuickLog is log x for normal x > 0 with an absolute error of 3e-16 max(1, |log x|): not relative
// near x = 1, unlike math.Log, but faster. Other arguments are passed to math.Log.
func QuickLog(x float64) float64 {
	bits := math.Float64bits(x)
	e := int(bits >> 52)
	if e == 0 || e >= 2047 { // zero, subnormal, negative, infinite, NaN
		return math.Log(x)
	}
	c := &logTable[bits>>45&127]
	u := math.Float64frombits(bits&(1<<52-1)|1023<<52)*c[0] - 1
	u2 := u * u
	p := u - u2*((0.5-u*(1./3))+u2*((0.25-u*(1./5))+u2*(1./6)))
	return float64(e-1023)*math.Ln2 + (c[1] + p)
}
