package main

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// chart is a plot as data: report draws it as SVG into the page, --plots also as a
// file and as PNG.
type chart struct {
	ID, Title, XLabel, YLabel string
	Series                    []series
	Names                     []string // of the rows of a chart of intervals, top first
	X, Y                      *[2]float64
}

// series is one line, set of points, or set of intervals.
type series struct {
	Label  string
	Kind   string // line, points, interval, reference, band
	X, Y   []float64
	Lo, Hi []float64 // interval: in x; band: in y
	Tip    []string
}

const (
	chartWidth  = 640
	chartHeight = 360
)

// bounds are the smallest ranges that hold all series, widened a little.
func (c *chart) bounds() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	grow := func(r *[2]float64, vs []float64) {
		for _, v := range vs {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				r[0], r[1] = min(r[0], v), max(r[1], v)
			}
		}
	}
	for _, s := range c.Series {
		grow(&x, s.X)
		grow(&y, s.Y)
		if s.Kind == "interval" {
			grow(&x, s.Lo)
			grow(&x, s.Hi)
		} else {
			grow(&y, s.Lo)
			grow(&y, s.Hi)
		}
	}
	fix := func(r, given *[2]float64) {
		if given != nil {
			*r = *given
			return
		}
		if !(r[0] <= r[1]) {
			*r = [2]float64{0, 1}
		}
		pad := 0.04 * (r[1] - r[0])
		if pad == 0 {
			pad = max(0.5, 0.1*math.Abs(r[0]))
		}
		r[0], r[1] = r[0]-pad, r[1]+pad
	}
	fix(&x, c.X)
	fix(&y, c.Y)
	if len(c.Names) > 0 {
		y = [2]float64{-0.5, float64(len(c.Names)) - 0.5}
	}
	return x, y
}

// ticks are about n round numbers in a range.
func ticks(lo, hi float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if (hi-lo)/(f*step) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for v := math.Ceil(lo/step-1e-9) * step; v <= hi+1e-9*step && len(out) < 50; v += step {
		if math.Abs(v) < 1e-12*step {
			v = 0
		}
		out = append(out, v)
	}
	return out
}

func short(v float64) string {
	if a := math.Abs(v); a >= 1e6 || a > 0 && a < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

// svg draws the chart. Colours are classes, which the page's style gives, light and
// dark; alone adds a style of its own.
func (c *chart) svg(alone bool) string {
	x, y := c.bounds()
	left, top, bottom, height := 56.0, 12.0, 44.0, float64(chartHeight)
	if n := len(c.Names); n > 0 {
		long := 0
		for _, s := range c.Names {
			long = max(long, len([]rune(s)))
		}
		left = min(260, 16+6.6*float64(long))
		height = top + bottom + 20*float64(max(n, 3))
	}
	right := 16.0
	px := func(v float64) float64 { return left + (v-x[0])/(x[1]-x[0])*(chartWidth-left-right) }
	py := func(v float64) float64 { return height - bottom - (v-y[0])/(y[1]-y[0])*(height-top-bottom) }
	if len(c.Names) > 0 {
		up := py
		py = func(v float64) float64 { return up(y[0] + y[1] - v) } // the first name on top
	}
	var b strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&b, format, a...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-label="%s" class="chart">`, chartWidth, height, html.EscapeString(c.Title))
	if alone {
		p("<style>%s</style><rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>", svgStyle)
	}
	for _, t := range ticks(x[0], x[1], 7) {
		p(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, px(t), px(t), top, height-bottom, px(t), height-bottom+16, short(t))
	}
	if len(c.Names) == 0 {
		for _, t := range ticks(y[0], y[1], 6) {
			p(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left, chartWidth-right, py(t), py(t), left-6, py(t)+4, short(t))
		}
	}
	for i, s := range c.Names {
		if r := []rune(s); len(r) > 38 {
			s = string(r[:37]) + "…"
		}
		p(`<text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left-8, py(float64(i))+4, html.EscapeString(s))
	}
	p(`<text class="label" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, left+(chartWidth-left-right)/2, height-8, html.EscapeString(c.XLabel))
	if c.YLabel != "" {
		p(`<text class="label" transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`, top+(height-top-bottom)/2, html.EscapeString(c.YLabel))
	}
	for k, s := range c.Series {
		class := fmt.Sprintf("s%d", k%8)
		if s.Kind == "reference" {
			class = "ref"
		}
		tip := func(i int) string {
			if i < len(s.Tip) {
				return "<title>" + html.EscapeString(s.Tip[i]) + "</title>"
			}
			return ""
		}
		switch s.Kind {
		case "line", "reference":
			p(`<polyline class="%s line" points="`, class)
			for i := range s.X {
				p("%.1f,%.1f ", px(s.X[i]), py(s.Y[i]))
			}
			p(`"/>`)
		case "band":
			p(`<polygon class="%s band" points="`, class)
			for i := range s.X {
				p("%.1f,%.1f ", px(s.X[i]), py(s.Hi[i]))
			}
			for i := len(s.X) - 1; i >= 0; i-- {
				p("%.1f,%.1f ", px(s.X[i]), py(s.Lo[i]))
			}
			p(`"/>`)
		case "points":
			for i := range s.X {
				if i < len(s.Lo) {
					p(`<line class="%s line" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, class, px(s.X[i]), px(s.X[i]), py(s.Lo[i]), py(s.Hi[i]))
				}
				p(`<circle class="%s dot" cx="%.1f" cy="%.1f" r="4">%s</circle>`, class, px(s.X[i]), py(s.Y[i]), tip(i))
			}
		case "interval":
			for i := range s.X {
				p(`<line class="%s line" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><circle class="%s dot" cx="%.1f" cy="%.1f" r="4">%s</circle>`,
					class, px(s.Lo[i]), px(s.Hi[i]), py(s.Y[i]), py(s.Y[i]), class, px(s.X[i]), py(s.Y[i]), tip(i))
			}
		}
	}
	p("</svg>")
	return b.String()
}

// legend names the series, for the page.
func (c *chart) legend() []struct{ Class, Label string } {
	var out []struct{ Class, Label string }
	for k, s := range c.Series {
		if s.Label != "" {
			class := fmt.Sprintf("s%d", k%8)
			if s.Kind == "reference" {
				class = "ref"
			}
			out = append(out, struct{ Class, Label string }{class, s.Label})
		}
	}
	return out
}

// palette is for a light ground; the page has its own for a dark one.
var palette = []string{"#2563a8", "#c2571a", "#2e7d4f", "#8e44ad", "#b8860b", "#c0392b", "#16808a", "#5d6570"}

var svgStyle = func() string {
	var b strings.Builder
	b.WriteString(`text{font:12px system-ui,sans-serif;fill:#444}.grid{stroke:#e3e6ea}.line{fill:none;stroke-width:2}.ref{stroke:#888;stroke-dasharray:5 4}.band{opacity:.18;stroke:none}`)
	for i, c := range palette {
		fmt.Fprintf(&b, `.s%d{stroke:%s}.s%d.dot,.s%d.band{fill:%s}`, i, c, i, i, c)
	}
	return b.String()
}()
