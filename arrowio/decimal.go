package arrowio

import (
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// exactPowers are the powers of ten that a float64 represents exactly.
var exactPowers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
	1e19, 1e20, 1e21, 1e22}

// decimals reads a column of decimals, each as the nearest float64, as SQL does. The library's own
// conversion multiplies by an inexact power: its 0.3 is 0.30000000000000004. nil for other types.
func decimals(a arrow.Array) func(i int) float64 {
	switch a := a.(type) {
	case *array.Decimal32:
		scale := a.DataType().(*arrow.Decimal32Type).Scale
		return func(i int) float64 { return ofInteger(int64(a.Value(i)), scale) }
	case *array.Decimal64:
		scale := a.DataType().(*arrow.Decimal64Type).Scale
		return func(i int) float64 { return ofInteger(int64(a.Value(i)), scale) }
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(i int) float64 {
			v := a.Value(i)
			if n := int64(v.LowBits()); v.HighBits() == n>>63 {
				return ofInteger(n, scale)
			}
			return ofBig(v.BigInt(), scale)
		}
	case *array.Decimal256:
		scale := a.DataType().(*arrow.Decimal256Type).Scale
		return func(i int) float64 { return ofBig(a.Value(i).BigInt(), scale) }
	}
	return nil
}

// ofInteger is the float64 nearest to n / 10^scale: the quotient, if both numbers are exact.
func ofInteger(n int64, scale int32) float64 {
	if scale >= 0 && int(scale) < len(exactPowers) && n > -1<<53 && n < 1<<53 {
		return float64(n) / exactPowers[scale]
	}
	return ofBig(big.NewInt(n), scale)
}

func ofBig(n *big.Int, scale int32) float64 {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		x, _ := new(big.Float).SetInt(n.Mul(n, power)).Float64()
		return x
	}
	x, _ := new(big.Rat).SetFrac(n, power).Float64()
	return x
}
