//go:build !amd64 || purego

package dense

func best() isa { return portable }

func dot(x, y []float64) float64 { return dotGo(x, y) }

func axpy(a float64, x, y []float64) { axpyGo(a, x, y) }

func toward(a float64, x, y []float64) { towardGo(a, x, y) }

func inUnits(dst, x, origin, by []float64) { inUnitsGo(dst, x, origin, by) }

func towardSquares(a float64, x, y []float64) { towardSquaresGo(a, x, y) }

func addRows(y, m []float64, stride int, k []uint32, a []float64) { addRowsGo(y, m, stride, k, a) }

func addToRows(m []float64, stride int, k []uint32, a, x []float64) { addToRowsGo(m, stride, k, a, x) }

func timesStrips(f, l, g []float64, first int) { timesStripsGo(f, l, g, first) }

func rotateStrips(l, u, a, b, c []float64, first int) { rotateStripsGo(l, u, a, b, c, first) }

func shrinks(a, b, f, r []float64, beta float64) { shrinksGo(a, b, f, r, beta) }

func fetch(*byte, int, []uint32) {}

func exp(up, down, x []float64) { expGo(up, down, x) }

func block(m, n int, c []float64, cs int, a []float64, ars, acs int, b []float64, bs, k int, next []float64, ns int) {
	blockGo(m, n, c, cs, a, ars, acs, b, bs, k)
}

func packRows(dst []float64, ds, ps int, src []float64, ss, rows, cols int, s []float64) {
	packRowsGo(dst, ds, ps, src, ss, rows, cols, s)
}

func packTrans(dst []float64, ds int, src []float64, ss, rows, k int) {
	packTransGo(dst, ds, src, ss, rows, k)
}
