package arrowio

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// A decimal is the float64 nearest to what it says, as in SQL.
func TestDecimals(t *testing.T) {
	short := []string{"0.3", "-1.1", "0.7", "1234.5", "-0.1", "0.0"}
	long := append(short, "900719925474099.3", "12345678901234567890.1", "-99999999999999999999999999.7")
	for _, c := range []struct {
		t     arrow.DataType
		texts []string
	}{
		{&arrow.Decimal32Type{Precision: 9, Scale: 1}, short},
		{&arrow.Decimal64Type{Precision: 18, Scale: 1}, append(short, "90071992547409931.7", "-12345678901234567.1")},
		{&arrow.Decimal128Type{Precision: 38, Scale: 1}, long},
		{&arrow.Decimal128Type{Precision: 38, Scale: 11}, long},
		{&arrow.Decimal256Type{Precision: 76, Scale: 1}, long},
		{&arrow.Decimal256Type{Precision: 76, Scale: 40}, long},
	} {
		json := fmt.Sprintf(`["%s"]`, strings.Join(c.texts, `", "`))
		v := newVector("x", recordOf(t, col{"x", c.t, json}).Column(0))
		for i, text := range c.texts {
			if want, _ := strconv.ParseFloat(text, 64); v.num(i) != want {
				t.Errorf("%s: %s is %v, want %v", c.t, text, v.num(i), want)
			}
		}
	}
	for scale, want := range map[int32]float64{0: 7, -2: 700, -22: 7e22} {
		if got := ofInteger(7, scale); got != want {
			t.Errorf("7 of scale %d is %v, want %v", scale, got, want)
		}
	}
}
