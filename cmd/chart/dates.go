package chart

import (
	"math"
	"time"
)

// farDay is up to which day before or after 1970 days are dates: the year 9999.
const farDay = 365.2425 * 8029

// dateSteps are the distances between ticks of dates, months or seconds, with how they are
// written.
var dateSteps = []struct {
	months  int
	seconds float64
	layout  string
}{
	{0, 1, "15:04:05"}, {0, 5, "15:04:05"}, {0, 15, "15:04:05"}, {0, 30, "15:04:05"},
	{0, 60, "15:04"}, {0, 300, "15:04"}, {0, 900, "15:04"}, {0, 1800, "15:04"},
	{0, 3600, "15:04"}, {0, 10_800, "01-02 15:04"}, {0, 21_600, "01-02 15:04"}, {0, 43_200, "01-02 15:04"},
	{0, day, "2006-01-02"}, {0, 2 * day, "2006-01-02"}, {0, 7 * day, "2006-01-02"}, {0, 14 * day, "2006-01-02"},
	{1, 0, "2006-01"}, {2, 0, "2006-01"}, {3, 0, "2006-01"}, {6, 0, "2006-01"},
	{12, 0, "2006"}, {24, 0, "2006"}, {60, 0, "2006"}, {120, 0, "2006"}, {240, 0, "2006"}, {600, 0, "2006"}, {1200, 0, "2006"}, {6000, 0, "2006"}, {24_000, 0, "2006"},
}

const day = 86_400

// Date is a day since 1970 as a date, with the time where it is not midnight.
func Date(x float64) string {
	if math.Abs(x) >= farDay {
		return Short(x)
	}
	t := moment(x)
	if t.Equal(t.Truncate(day * time.Second)) {
		return t.Format(time.DateOnly)
	}
	return t.Format("2006-01-02 15:04")
}

// moment is a day since 1970, to the nearest second.
func moment(x float64) time.Time { return time.Unix(int64(math.Round(x*day)), 0).UTC() }

// dateTicks are up to n round dates between days since 1970, and how they are written.
func dateTicks(lo, hi float64, n int) ([]float64, func(float64) string) {
	var out []float64
	layout := "2006"
	for _, s := range dateSteps {
		out, layout = nil, s.layout
		if s.months == 0 {
			step := s.seconds / day
			const monday = 4.0 // of the first whole week
			for v := math.Ceil((lo-monday)/step-1e-9)*step + monday; v <= hi+1e-9*step && len(out) <= n; v += step {
				out = append(out, v)
			}
		} else {
			t := moment(lo)
			for m := (t.Year()*12 + int(t.Month()) - 1) / s.months * s.months; len(out) <= n; m += s.months {
				v := float64(time.Date(0, time.Month(m+1), 1, 0, 0, 0, 0, time.UTC).Unix()) / day
				if v > hi {
					break
				}
				if v >= lo {
					out = append(out, v)
				}
			}
		}
		if len(out) <= n {
			break
		}
	}
	if first, last := moment(lo), moment(hi); layout == "15:04" && first.YearDay() != last.YearDay() {
		layout = "01-02 15:04"
	}
	return out, func(x float64) string { return moment(x).Format(layout) }
}
