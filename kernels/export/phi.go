package export

import "strings"

// Cody's coefficients, as in R's pnorm: numerators first, the leading one last.
var (
	nearP = []float64{2.2352520354606839287, 161.02823106855587881, 1067.6894854603709582, 18154.981253343561249, .065682337918207449113}
	nearQ = []float64{47.20258190468824187, 976.09855173777669322, 10260.932208618978205, 45507.789335026729956}
	midP  = []float64{.39894151208813466764, 8.8831497943883759412, 93.506656132177855979, 597.27027639480026226, 2494.5375852903726711,
		6848.1904505362823326, 11602.651437647350124, 9842.7148383839780218, 1.0765576773720192317e-8}
	midQ = []float64{22.266688044328115691, 235.38790178262499861, 1519.377599407554805, 6485.558298266760755, 18615.571640885098091,
		34900.952721145977266, 38912.003286093271411, 19685.429676859990727}
	farP = []float64{.21589853405795699, .1274011611602473639, .022235277870649807, .001421619193227893466, 2.9112874951168792e-5, .02307344176494017303}
	farQ = []float64{1.28426009614491121, .468238212480865118, .0659881378689285515, .00378239633202758244, 7.29751555083966205e-5}
)

// horner is ((lead·t + c0)·t + c1)·t + ... over c.
func (d *dialect) horner(t, lead string, c []float64) string {
	out := lead
	for _, x := range c {
		out = "(" + out + " * " + t + " + " + d.number(x) + ")"
	}
	return out
}

// phi is the normal distribution function of a column x.
func (d *dialect) phi(x string) string {
	y := "abs(" + x + ")"
	half, one := d.number(0.5), d.number(1)
	t := "(" + x + " * " + x + ")"
	near := half + " + " + x + " * " + d.horner(t, d.number(nearP[4]), nearP[:4]) + " / " + d.horner(t, one, nearQ)
	density := d.exp("-" + half + " * " + t)
	mid := density + " * " + d.horner(y, d.number(midP[8]), midP[:8]) + " / " + d.horner(y, one, midQ)
	inv := "(" + one + " / " + t + ")"
	far := density + " * (" + d.number(0.398942280401432677939946) + " - " + inv + " * " + d.horner(inv, d.number(farP[5]), farP[:5]) + " / " + d.horner(inv, one, farQ) + ") / " + y
	tail := func(p string) string {
		return "CASE WHEN " + x + " > 0 THEN " + one + " - " + p + " ELSE " + p + " END"
	}
	return strings.Join([]string{
		"CASE WHEN " + y + " <= " + d.number(0.67448975) + " THEN " + near,
		"WHEN " + y + " <= " + d.number(5.656854249492380195) + " THEN " + tail(mid),
		"WHEN " + y + " < " + d.number(37.5) + " THEN " + tail(far),
		"WHEN " + x + " > 0 THEN " + one + " ELSE " + d.number(0) + " END",
	}, "\n    ")
}
